"""Labels change in a real Label Studio: one is renamed, two become one, and nobody is asked again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from installation import Installation, choice, variables
from label_studio import LabelStudio
from scripted import Scripted
from server_process import ServerProcess, config_for

from backend.testing import OpenAIServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

MOODS = ("Glad", "Sad", "Calm", "Glad", "Sad", "Calm")


@pytest.fixture(scope="module")
def models() -> Iterator[OpenAIServer]:
    with OpenAIServer(Scripted()) as models:
        yield models


@pytest.fixture(scope="module")
def installation(
    studio: LabelStudio, models: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("server")
    config = config_for(models, folder)
    with ServerProcess(folder, config, **variables(studio)) as server:
        server.start()
        yield Installation(studio, server)


def labelled(installation: Installation) -> int:
    """A project with predictions; people have labelled the first three tasks as the models do."""
    texts = [f"Note {number}. red: {mood}, green: {mood}, blue: {mood}" for number, mood in enumerate(MOODS)]
    number = installation.connected(*texts)
    done = installation.camvo("predict", number)
    assert done.returncode == 0, done.stdout + done.stderr
    for task, mood in zip(installation.tasks(number)[:3], MOODS, strict=False):
        installation.annotate(task["id"], choice(mood))
    return number


def shown(installation: Installation, project: int) -> list[str]:
    """The label of each task's latest prediction in Label Studio."""
    found: dict[int, str] = {}
    for each in installation.studio.ask("GET", "/api/predictions/", project=project):
        found[each["task"]] = each["result"][0]["value"]["choices"][0]
    return [found[task] for task in sorted(found)]


def said(installation: Installation, project: int) -> list[str]:
    """What the annotations say in Label Studio."""
    annotations = (each for task in installation.tasks(project) for each in task["annotations"])
    return [each["result"][0]["value"]["choices"][0] for each in annotations]


def relabelled(installation: Installation, project: int, *arguments: str) -> None:
    done = installation.on_ledger("relabel", project, "--yes", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def test_labels_change_everywhere_and_come_back(installation: Installation, models: OpenAIServer) -> None:
    project = labelled(installation)
    calls, config = (
        models.count(),
        installation.studio.ask("GET", f"/api/projects/{project}/")["label_config"],
    )
    relabelled(installation, project, "--rename", "Calm=Quiet", "--merge", "Glad,Sad=Felt")
    assert shown(installation, project) == ["Felt", "Felt", "Quiet"] * 2
    assert said(installation, project) == ["Felt", "Felt", "Quiet"]
    status = installation.status(project)
    assert [
        alert["code"] for alert in status["alerts"] if alert["code"].startswith(("config", "labels"))
    ] == []
    relabelled(installation, project, "--undo")
    done = installation.camvo("predict", project, "--refresh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert shown(installation, project)[3:] == list(MOODS[3:])
    assert said(installation, project) == list(MOODS[:3])
    assert _choices(installation, project) == [
        part.split('"')[0] for part in config.split('<Choice value="')[1:]
    ]
    assert models.count() == calls
    assert installation.on_ledger("report", project).returncode == 0


def test_a_label_of_people_that_is_split_stays_in_label_studio(
    installation: Installation, models: OpenAIServer
) -> None:
    project, calls = labelled(installation), models.count()
    relabelled(installation, project, "--split", "Calm=Quiet,Misty")
    assert _choices(installation, project) == ["Glad", "Sad", "Quiet", "Misty"]
    assert said(installation, project) == list(MOODS[:3])
    done = installation.on_ledger("review", project, "--disputed")
    assert "people gave Calm, which is split" in " ".join(done.stdout.split())
    relabelled(installation, project, "--undo")
    assert _choices(installation, project) == ["Glad", "Sad", "Calm"]
    assert said(installation, project) == list(MOODS[:3])
    assert models.count() == calls


def test_a_label_that_a_person_renames_is_asked_about_while_predictions_go_on(
    installation: Installation, models: OpenAIServer
) -> None:
    project = labelled(installation)
    calls = models.count()
    config: Any = installation.studio.ask("GET", f"/api/projects/{project}/")["label_config"]
    changes = {"label_config": config.replace('value="Calm"', 'value="Quiet"')}
    installation.studio.ask("PATCH", f"/api/projects/{project}/", changes)
    codes = [alert["code"] for alert in installation.status(project)["alerts"]]
    assert "labels_unclear" in codes
    relabelled(installation, project, "--rename", "Calm=Quiet")
    assert shown(installation, project) == ["Glad", "Sad", "Quiet"] * 2
    assert said(installation, project) == ["Glad", "Sad", "Quiet"]
    assert models.count() == calls


def _choices(installation: Installation, project: int) -> list[str]:
    config = installation.studio.ask("GET", f"/api/projects/{project}/")["label_config"]
    return [part.split('"')[0] for part in config.split('<Choice value="')[1:]]
