"""Labels get better in a real Label Studio: people label some tasks, and the others change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from installation import Installation, choice, variables
from label_studio import LabelStudio
from scripted import Scripted
from server_process import ServerProcess, config_for, wait_until

from backend.testing import OpenAIServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TASKS, LABELLED = 18, 12
TEXT = "Note {}. red: Glad, green: Glad, blue: Sad"
"""Red and green outvote blue, which is right."""


@pytest.fixture(scope="module")
def installation(studio: LabelStudio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("server")
    with OpenAIServer(Scripted()) as models:
        config = config_for(models, folder, policy={"name": "joint", "agreement": 0.99})
        with ServerProcess(folder, config, **variables(studio)) as server:
            server.start()
            yield Installation(studio, server)


def shown(installation: Installation, project: int) -> dict[int, tuple[int, str, float]]:
    """Task → number, label and score of its only prediction."""
    found: dict[int, tuple[int, str, float]] = {}
    for each in installation.studio.ask("GET", "/api/predictions/", project=project):
        assert each["task"] not in found, "a task has two predictions"
        [region] = each["result"]
        found[each["task"]] = (each["id"], region["value"]["choices"][0], each["score"])
    return dict(sorted(found.items()))


def test_labels_of_other_tasks_change_in_their_place_and_never_where_somebody_is_at_work(
    installation: Installation,
) -> None:
    studio = installation.studio
    project = installation.project(*(TEXT.format(number) for number in range(TASKS)))
    installation.connect(project)
    done = installation.camvo("predict", project)
    assert done.returncode == 0, done.stdout + done.stderr
    first = shown(installation, project)
    tasks = [*first]
    assert {label for _, label, _ in first.values()} == {"Glad"}
    drafted: dict[str, Any] = {"result": [choice("Calm")], "lead_time": 1.0}
    studio.ask("POST", f"/api/tasks/{tasks[-1]}/drafts?project={project}", drafted)
    when_annotated = {}
    for task in tasks[:LABELLED]:  # the server may count again by itself meanwhile
        installation.annotate(task, choice("Sad"))
        when_annotated[task] = shown(installation, project)[task]
    installation.train(project)
    changed = tasks[LABELLED:-1]
    wait_until(
        lambda: {shown(installation, project)[task][1] for task in changed} == {"Sad"}, "new labels", 120.0
    )
    wait_until(lambda: installation.status(project)["recounts"]["pending"] == 1, "the end of the delivery")
    now = shown(installation, project)
    assert {task: now[task] for task in when_annotated} == when_annotated
    assert now[tasks[-1]] == first[tasks[-1]]
    assert [now[task][0] for task in changed] == [first[task][0] for task in changed], "replaced in place"
    averaged = {task["id"]: task["predictions_score"] for task in installation.tasks(project)}
    assert [averaged[task] for task in changed] == pytest.approx([now[task][2] for task in changed])
    assert installation.status(project)["recounts"]["labels"] > len(changed)
    done = installation.camvo("predict", project, "--recount")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 task has a draft" in done.stdout
    assert shown(installation, project) == now
