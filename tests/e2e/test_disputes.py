"""Two people disagree in a real Label Studio: their time is known, and the task stands in its own tab."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from installation import Installation, choice, variables
from label_studio import LabelStudio
from scripted import Scripted, with_unreliable_models
from server_process import MODELS, ServerProcess, wait_until
from sqlalchemy import select

from backend.label_studio.client import DISPUTED_TAB
from backend.ledger.database import tables
from backend.testing import OpenAIServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture
def installation(studio: LabelStudio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("disputes")
    with OpenAIServer(Scripted()) as models:
        config = with_unreliable_models(models, folder, policy=None)
        with ServerProcess(folder, config, **variables(studio)) as server:
            server.start(fresh=True)
            yield Installation(studio, server)


def test_a_disputed_task_stands_in_its_own_tab(installation: Installation) -> None:
    studio, server = installation.studio, installation.server
    project = installation.project()
    installation.connect(project, "--extra-params", f"models={json.dumps(MODELS)}")
    texts = [{"text": f"red: Glad, green: Glad, blue: Sad, {name}"} for name in ("one", "two")]
    agreed, disputed = installation.add(project, *texts)
    colleague = studio.ask("POST", "/api/users", {"email": "other@example.com", "username": "other"})["id"]
    for task in (agreed, disputed):
        installation.open(task)
        for person, mood in ((None, "Glad"), (colleague, "Glad" if task == agreed else "Sad")):
            said = {"result": [choice(mood)], "lead_time": 7.5}
            by = {} if person is None else {"completed_by": person}
            studio.ask("POST", f"/api/tasks/{task}/annotations", said | by)
    annotations = tables.human_annotations.c
    stored = select(annotations.task, annotations.completed_by, annotations.lead_time)
    wait_until(lambda: len(server.rows(stored)) == 4, "the annotations")
    assert {row.lead_time for row in server.rows(stored)} == {7.5}
    assert len({row.completed_by for row in server.rows(stored)}) == 2
    assert [row.task_number for row in server.rows(select(tables.projects.c.task_number))] == [2]
    installation.review(project, "--disputed", "--tab")
    views = studio.ask("GET", "/api/dm/views", project=project)
    [tab] = [view for view in views if view["data"]["title"] == DISPUTED_TAB]
    shown = studio.ask("GET", "/api/tasks", project=project, view=tab["id"])["tasks"]
    assert [task["id"] for task in shown] == [disputed]
