"""Every control tag in a real Label Studio: predicted, stored, annotated, read back and learnt from."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml
from installation import Installation, variables
from label_studio import LabelStudio
from server_process import ServerProcess, config_for, wait_until
from tags import TAGS, Tag

from backend.testing import OpenAIServer, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


class Voters:
    """A script of three models that answer for the current tag."""

    def __init__(self) -> None:
        self.tag = TAGS["choices"]

    def __call__(self, body: dict[str, Any]) -> Reply:
        return Reply.says(self.tag.dissent if body["model"] == "blue" else self.tag.agreed)


@pytest.fixture(scope="module")
def voters() -> Voters:
    return Voters()


@pytest.fixture(scope="module")
def models(voters: Voters) -> Iterator[OpenAIServer]:
    with OpenAIServer(voters) as started:
        yield started


@pytest.fixture(scope="module")
def installation(
    studio: LabelStudio, models: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("server")
    path = config_for(models, folder, policy={"name": "camvo", "k_min": 3})
    config = yaml.safe_load(path.read_text())
    config["models"] = [{**model, "vision": True} for model in config["models"]]
    path.write_text(yaml.safe_dump(config))
    with ServerProcess(folder, path, **variables(studio)) as server:
        server.start()
        yield Installation(studio, server)


@pytest.fixture(scope="module", params=TAGS)
def tag(request: pytest.FixtureRequest, voters: Voters) -> Tag:
    voters.tag = TAGS[request.param]
    return voters.tag


@pytest.fixture(scope="module")
def tasks(installation: Installation, tag: Tag) -> list[dict[str, Any]]:
    """Two tasks of a project with the tag: one predicted when it was opened, one by ``camvo predict``."""
    project = installation.connected(label_config=tag.label_config)
    opened, _ = installation.add(project, dict(tag.data), dict(tag.data))
    installation.open(opened)
    done = installation.camvo("predict", project)
    assert "1 prediction stored, 0 replaced, 1 task left" in done.stdout, done.stdout + done.stderr
    return installation.tasks(project)


def values(result: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [region["value"] for region in result]


def test_the_prediction_is_stored_when_a_task_is_opened_and_by_camvo_predict(
    tag: Tag, tasks: list[dict[str, Any]]
) -> None:
    assert [[values(each["result"]) for each in task["predictions"]] for task in tasks] == [
        [list(tag.predicted)],
        [list(tag.predicted)],
    ]


def test_a_submitted_prediction_confirms_those_who_voted_for_it(
    installation: Installation, tag: Tag, tasks: list[dict[str, Any]]
) -> None:
    task = tasks[0]
    [prediction] = task["predictions"]
    result = [{**region, "origin": "prediction"} for region in prediction["result"]]
    installation.annotate(task["id"], *result, parent_prediction=prediction["id"], lead_time=4.5)
    wait_until(
        lambda: {by for _, by in installation.learnt(task["id"])} == {"human"}, "what the human confirmed"
    )
    for control in tag.agreed:
        rewards = {model: total for model, (_, total) in installation.rewards(task["id"], control).items()}
        assert (rewards["red"], rewards["green"]) == pytest.approx((1.0, 1.0))
        assert rewards["blue"] < 1.0


def test_a_corrected_prediction_rewards_the_model_that_dissented(
    installation: Installation, tag: Tag, tasks: list[dict[str, Any]]
) -> None:
    task = tasks[1]
    predicted = task["predictions"][0]["result"]
    result = [
        {**region, "value": value, "origin": "prediction-changed"}
        for region, value in zip(predicted, tag.corrected, strict=True)
    ]
    installation.annotate(task["id"], *result)
    wait_until(
        lambda: {by for _, by in installation.learnt(task["id"])} == {"human"}, "what the human corrected"
    )
    for control in tag.agreed:
        rewards = {model: total for model, (_, total) in installation.rewards(task["id"], control).items()}
        assert rewards["blue"] == pytest.approx(1.0)
        assert max(rewards["red"], rewards["green"]) < 1.0


def test_an_uploaded_image_is_fetched_from_label_studio_and_shown_to_the_models(
    installation: Installation, models: OpenAIServer, voters: Voters
) -> None:
    voters.tag = TAGS["image"]
    project = installation.connected(label_config=voters.tag.label_config)
    picture = _picture()
    httpx.post(
        f"{installation.studio.url}/api/projects/{project}/import",
        files={"file": ("lunch.png", picture, "image/png")},
        headers={"Authorization": f"Token {installation.studio.token}"},
        timeout=60.0,
    ).raise_for_status()
    [task] = installation.tasks(project)
    [prediction] = installation.open(task["id"])
    assert values(prediction["result"]) == [{"choices": ["food"]}]
    shown = models.requests[-1].body["messages"][-1]["content"][-1]["image_url"]["url"]
    assert base64.b64decode(shown.partition(",")[2]) == picture


def _picture() -> bytes:
    """A PNG of one red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")
