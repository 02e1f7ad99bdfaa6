"""``camvo predict --recount --ask-more`` and prices of labels, in a real Label Studio."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from installation import Installation, choice, variables
from label_studio import LabelStudio
from server_process import ServerProcess, config_for

from backend.testing import OpenAIServer, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

FIRST, REST = 40, 14
SKILL = {"red": 0.7, "green": 0.8, "blue": 0.95}


def script(body: dict[str, Any]) -> Reply:
    """Each model is right as often as its skill says, at random by model and note."""
    found = re.findall(r"Note (\d+)", "\n".join(message["content"] for message in body["messages"]))
    number, model = int(found[-1]), body["model"]
    lucky = random.Random(f"{model} {number}").random() < SKILL[model]  # noqa: S311 - no secret
    return Reply.says({"mood": "Glad" if lucky == bool(number % 2) else "Sad"})


@pytest.fixture(scope="module")
def installation(studio: LabelStudio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("server")
    settings: dict[str, Any] = {"policy": {"name": "joint", "worth": 0.5}, "humans": {"price": 0.01}}
    with OpenAIServer(script) as models:
        config = config_for(models, folder, **settings, recount=False)
        with ServerProcess(folder, config, **variables(studio)) as server:
            server.start()
            yield Installation(studio, server)


def shown(installation: Installation, project: int) -> dict[int, tuple[int, str, float]]:
    """Task → number, label and score of its prediction."""
    return {
        each["task"]: (each["id"], each["result"][0]["value"]["choices"][0], each["score"])
        for each in installation.studio.ask("GET", "/api/predictions/", project=project)
    }


def test_models_are_asked_where_it_pays_and_predictions_change_in_their_place(
    installation: Installation,
) -> None:
    texts = [f"Note {number}." for number in range(FIRST + REST)]
    project = installation.project(*texts)
    installation.connect(project)
    done = installation.camvo("predict", project, "--at-once", str(FIRST), "--in-order")
    assert done.returncode == 0, done.stdout + done.stderr
    first = shown(installation, project)
    tasks = sorted(first)
    drafted, annotated = tasks[-1], tasks[-2]
    draft: dict[str, Any] = {"result": [choice("Calm")], "lead_time": 1.0}
    installation.studio.ask("POST", f"/api/tasks/{drafted}/drafts?project={project}", draft)
    installation.annotate(annotated, choice("Sad"), lead_time=6.0)
    installation.connect(project, "--extra-params", "worth=1000")
    done = installation.camvo("predict", project, "--recount", "--ask-more", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"Asked more: (\d+) votes on (\d+) tasks; \$(\S+) of \$1 spent", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) >= int(found[2]) > 0
    status = installation.status(project)["recounts"]["further"]
    assert (status["votes"], status["tasks"]) == (int(found[1]), int(found[2]))
    now = shown(installation, project)
    assert (now[drafted], now[annotated]) == (first[drafted], first[annotated])
    assert {task: number for task, (number, _, _) in now.items()} == {
        task: number for task, (number, _, _) in first.items()
    }
    assert any(now[task] != first[task] for task in tasks[FIRST:-2])
    again = installation.camvo("predict", project, "--recount", "--ask-more", "1")
    assert "Asked more: 0 votes" in again.stdout
    listed = json.loads(installation.review(project, "--json").stdout)
    assert listed["label_usd"] == 0.01
    assert listed["worthwhile"] <= listed["open"]
