"""In a real Label Studio a person tries a text, refines one, adopts it and writes a codebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from installation import Installation, choice, variables
from label_studio import LabelStudio
from server_process import ServerProcess, config_for, wait_until
from sqlalchemy import select

from backend.ledger.database import tables
from backend.questions.objects import FOR_PEOPLE_ONLY
from backend.testing import OpenAIServer, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

NEW = "Rain is sad."


def told(body: dict[str, Any]) -> Reply:
    """Models that know from the instructions alone that rain is sad, and propose to say so."""
    prompt = "\n".join(message["content"] for message in body["messages"])
    if "You improve the labelling instructions" in prompt:
        change = {"replace": "", "write": NEW, "cases": [1], "why": "They miss it."}
        return Reply.says({"changes": [change]})
    return Reply.says({"mood": "Sad" if NEW in prompt and "rain today" in prompt else "Glad"})


@pytest.fixture
def models() -> Iterator[OpenAIServer]:
    with OpenAIServer(told) as server:
        yield server


@pytest.fixture
def installation(
    studio: LabelStudio, models: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("instructions")
    config = config_for(models, folder, audit=0.0, policy={"name": "baseline"})
    with ServerProcess(folder, config, **variables(studio)) as server:
        server.start(fresh=True)
        yield Installation(studio, server)


def labels(installation: Installation, project: int) -> list[str]:
    """What the predictions of the project say, the latest of each task."""
    stored = installation.studio.ask("GET", "/api/predictions/", project=project)
    latest = {each["task"]: each for each in sorted(stored, key=lambda each: each["id"])}
    return [each["result"][0]["value"]["choices"][0] for _, each in sorted(latest.items())]


def test_a_text_is_tried_adopted_and_followed_by_a_codebook_without_paying_twice(
    installation: Installation, models: OpenAIServer
) -> None:
    studio, server = installation.studio, installation.server
    project = installation.connected(*(f"rain today, {number}" for number in range(6)))
    path = f"/api/projects/{project}/"

    done = installation.camvo("predict", project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert labels(installation, project) == ["Glad"] * 6
    tasks = [task["id"] for task in installation.tasks(project)]
    for task in tasks[:4]:
        installation.annotate(task, choice("Sad"))
    annotations = select(tables.human_annotations.c.task)
    wait_until(lambda: len(server.rows(annotations)) == 4, "the annotations")

    (server.folder / "new.txt").write_text(NEW)
    before = models.count()
    done = installation.on_ledger("try", project, "--instructions", "new.txt", "--sample", "6")
    assert done.returncode == 0, done.stdout + done.stderr
    page = (server.folder / "try.html").read_text()
    assert "rain today, 3" in page
    assert "Glad → Sad: 6" in page
    assert models.count() - before == 6 * 3
    assert studio.ask("GET", path)["expert_instruction"] in (None, "")
    assert labels(installation, project) == ["Glad"] * 6

    before = models.count()
    studio.ask("PATCH", path, {"expert_instruction": f"<p>{NEW}</p>"})
    done = installation.camvo("predict", project, "--refresh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert labels(installation, project)[4:] == ["Sad"] * 2
    assert models.count() == before

    done = installation.on_ledger("codebook", project, "--into-project")
    assert done.returncode == 2
    assert "nothing was changed" in done.stderr
    done = installation.on_ledger("codebook", project, "--into-project", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    written = studio.ask("GET", path)["expert_instruction"]
    assert written.startswith(f"<p>{NEW}</p>\n<p>{FOR_PEOPLE_ONLY}</p>")
    assert "<h4>Sad</h4>" in written
    done = installation.camvo("predict", project, "--refresh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert models.count() == before
    [instructions] = [row.instructions for row in server.rows(select(tables.projects.c.instructions))]
    assert instructions == NEW


def test_a_text_that_a_model_proposes_is_judged_and_adopted_and_old_labels_stay_until_they_are_asked_for(
    installation: Installation, models: OpenAIServer
) -> None:
    studio, server = installation.studio, installation.server
    project = installation.connected(*(f"rain today, {number}" for number in range(44)))
    path = f"/api/projects/{project}/"
    studio.ask("PATCH", path, {"expert_instruction": "<p>Judge the writer.</p>"})
    done = installation.camvo("predict", project)
    assert done.returncode == 0, done.stdout + done.stderr
    for task in installation.tasks(project)[:40]:
        installation.annotate(task["id"], choice("Sad"))
    annotations = select(tables.human_annotations.c.task)
    wait_until(lambda: len(server.rows(annotations)) >= 40, "the annotations")

    done = installation.on_ledger("refine", project, "--by", "red", "--budget", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "change 1: better than the present text, and the best" in done.stdout
    [advice] = [line for line in done.stdout.splitlines() if line.startswith("to adopt it: ")]
    assert studio.ask("GET", path)["expert_instruction"] == "<p>Judge the writer.</p>"
    adopt = advice.partition("--adopt ")[2].split()[0]
    done = installation.on_ledger("refine", project, "--adopt", adopt, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert NEW in studio.ask("GET", path)["expert_instruction"]

    before = models.count()
    done = installation.on_ledger("quote", project)
    assert "44 tasks have labels of earlier instructions: none is asked about again" in done.stdout
    done = installation.camvo("predict", project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert labels(installation, project)[40:] == ["Glad"] * 4
    assert models.count() == before
    done = installation.camvo("predict", project, "--refresh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert labels(installation, project)[40:] == ["Sad"] * 4
