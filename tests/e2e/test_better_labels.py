"""The way of a new user in a real Label Studio: import, connect, predict, label 40 tasks, see the gain.

The models are scripted, so the truth is known. Red and green copy one another and are often wrong; before
anybody labels they look like the best models.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from browser import Browser
from installation import CREDENTIALS, Installation, choice, variables
from label_studio import LabelStudio
from server_process import ServerProcess, config_for, wait_until
from sqlalchemy import select

from backend.ledger import projects
from backend.ledger.database import tables
from backend.ledger.human_annotations import Annotations
from backend.ledger.recounts import Recounts
from backend.testing import OpenAIServer, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

CONFIG = (resources.files("label_config") / "sentiment.xml").read_text()
ARTEFACTS = Path(os.environ.get("CAMVO_E2E_ARTEFACTS") or Path(__file__).with_name("artefacts"))
TASKS, IN_BROWSER, LABELLED = 100, 8, 40
RIGHT = {"red": 0.4, "green": 0.4, "blue": 0.97, "amber": 0.9}
"""The share of tasks on which each model is right."""

ROWS, TASK, SUBMIT = ".lsf-table-row", ".lsf-current-task__task-id", "button[name=submit]"


def truth(number: int) -> str:
    return "Positive" if zlib.crc32(f"truth {number}".encode()) % 2 else "Negative"


def vote(model: str, number: int) -> str:
    who = "red" if model == "green" else model
    right = zlib.crc32(f"{who} on {number}".encode()) % 1000 < 1000 * RIGHT[model]
    return truth(number) if right else {"Positive": "Negative", "Negative": "Positive"}[truth(number)]


def number_in(text: str) -> int:
    found = re.search(r"Review (\d+)", text)
    assert found is not None, text
    return int(found[1])


def script(body: dict[str, Any]) -> Reply:
    prompt = str(body["messages"][-1]["content"])
    return Reply.says({"sentiment": vote(body["model"], number_in(prompt))})


@pytest.fixture
def installation(studio: LabelStudio, tmp_path: Path) -> Iterator[Installation]:
    with OpenAIServer(script) as models:
        path = config_for(models, tmp_path)
        config = yaml.safe_load(path.read_text())
        config["models"].append(config["models"][0] | {"name": "amber", "model": "openai/amber"})
        del config["policy"]
        path.write_text(yaml.safe_dump(config))
        with ServerProcess(tmp_path, path, CAMVO_TEST_FIRST="restless", **variables(studio)) as server:
            server.start()
            yield Installation(studio, server)


@pytest.fixture
def browser(studio: LabelStudio, tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path, ARTEFACTS) as window:
        window.visit(f"{studio.url}/user/login")
        window.fill("input[name=email]", studio.user)
        window.fill("input[name=password]", studio.password)
        window.click("button[type=submit]")
        window.wait_until(lambda: "/user/login" not in window.address, "page behind the login")
        yield window


def imported(browser: Browser, installation: Installation, folder: Path) -> int:
    """Create a project and import its tasks from a file, as people do."""
    project = installation.project(title="Reviews", label_config=CONFIG)
    tasks = folder / "reviews.json"
    tasks.write_text(
        json.dumps([{"text": f"Review {number}: it was what it was."} for number in range(TASKS)])
    )
    browser.visit(f"{installation.studio.url}/projects/{project}/data/import")
    browser.fill("input[type=file]", str(tasks))
    # Label Studio shows its own name of a file that it has; before that, the button does nothing
    browser.wait_until(lambda: "-reviews.json" in "".join(browser.texts("body")), "uploaded file")
    browser.click_text("button", "Import")
    browser.wait_until(lambda: len(installation.tasks(project)) == TASKS, "imported tasks")
    return project


def label(browser: Browser, installation: Installation, project: int) -> None:
    """Label the least certain tasks in the label stream, and the last ones as a colleague would.

    All models were asked about the first tasks, so the copies did most harm there, and most is to be mended.
    """
    studio = installation.studio
    numbers = {task["id"]: number_in(task["data"]["text"]) for task in installation.tasks(project)}
    browser.visit(f"{studio.url}/projects/{project}/data")
    browser.click_text("button", "Label All Tasks")
    seen: set[int] = set()
    while len(seen) < IN_BROWSER:
        browser.wait_until(lambda: shown_task(browser) not in {None, *seen}, "next task")
        task = shown_task(browser)
        assert task is not None
        browser.click(f".ant-radio-input[name={truth(numbers[task])}]")
        browser.click(SUBMIT)
        seen.add(task)
    browser.wait_until(lambda: shown_task(browser) not in seen, "next task")
    for task in [task for task in numbers if task not in seen][IN_BROWSER - LABELLED :]:
        installation.annotate(task, choice(truth(numbers[task]), "sentiment"))
    wait_until(lambda: installation.status(project)["humans"]["annotations"] == LABELLED, "annotations")


def shown_task(browser: Browser) -> int | None:
    """The number of the task in the label stream, as in "#7 of 9"; ``None`` between two tasks."""
    texts = browser.texts(TASK)
    return int(texts[0].split()[0].removeprefix("#")) if texts and texts[0] else None


Shown = dict[int, tuple[str, float]]
"""Task → the label and the score of its prediction, as the Data Manager has them."""


def predicted(installation: Installation) -> Shown:
    """The labels and scores that the tasks got first, before anything was counted again."""
    rounds = tables.rounds.c
    rows = installation.server.rows(select(rounds.task, rounds.label, rounds.score))
    return {row.task: (row.label, row.score) for row in rows}


def shown(installation: Installation, project: int) -> tuple[Shown, dict[int, str]]:
    """What the Data Manager shows of the tasks that nobody has labelled, and the truth about them."""
    open_ = {task["id"]: task for task in installation.tasks(project) if not task["total_annotations"]}
    labels = {
        task: (each["predictions"][0]["result"][0]["value"]["choices"][0], each["predictions_score"])
        for task, each in open_.items()
    }
    return labels, {task: truth(number_in(each["data"]["text"])) for task, each in open_.items()}


def quality(labels: Shown, truths: dict[int, str]) -> tuple[float, float]:
    """The share of right labels, and the mean squared error of their scores (Brier)."""
    right = np.array([labels[task][0] == label for task, label in truths.items()])
    score = np.array([labels[task][1] for task in truths])
    return float(right.mean()), float(np.square(score - right).mean())


def is_counted_again(installation: Installation, project: int) -> bool:
    """Whether the server has counted with so many labels that the rest are no news, and delivered it all."""
    server = installation.server
    with server.ledger.read() as connection:
        [stored] = projects.list_all(connection)
        countings = Recounts(connection, stored.key).countings()
        # A label that came during a counting is news for the next one, so a counting's beginning is the date.
        known, _ = Annotations(connection, stored.key).count_received(
            countings[0].created_at if countings else 0.0
        )
        return LABELLED - known < known / 2 and not Recounts(connection, stored.key).pending()


def test_forty_labels_make_the_others_better_without_a_click_and_the_page_says_how_good_they_are(
    browser: Browser, installation: Installation, tmp_path: Path
) -> None:
    project = imported(browser, installation, tmp_path)
    installation.connect(project, "--review-queue")
    done = installation.camvo("predict", project, "--in-order")
    assert done.returncode == 0, done.stdout + done.stderr
    label(browser, installation, project)
    wait_until(lambda: is_counted_again(installation, project), "recount")

    now, truths = shown(installation, project)
    assert len(now) == TASKS - LABELLED
    right, error = quality(predicted(installation), truths)
    right_now, error_now = quality(now, truths)
    assert right_now >= right  # with few labels, scores gain first
    assert error_now < error
    tabs = installation.studio.ask("GET", "/api/dm/views/", project=project)
    [tab] = [tab["id"] for tab in tabs if tab["data"]["title"] == "CaMVo"]
    browser.visit(f"{installation.studio.url}/projects/{project}/data?tab={tab}")
    browser.wait_until(lambda: len(browser.texts(ROWS)) > 5, "rows")
    browser.picture("better-labels")

    user, password = CREDENTIALS["BASIC_AUTH_USER"], CREDENTIALS["BASIC_AUTH_PASS"]
    address = installation.server.url.replace("://", f"://{user}:{password}@")
    browser.visit(f"{address}/status?project={project}")
    browser.picture("better-labels-status")
    status, page = installation.status(project), browser.text()
    estimate = status["questions"][0]["estimate"]
    assert (estimate["basis"], estimate["checked"]) == ("reviewed", LABELLED)
    assert estimate["low"] < right_now + 0.1
    assert estimate["high"] > right_now - 0.1
    assert f"{100 * estimate['share']:.1f}%" in page
    assert "the score, corrected by 40 reviewed labels" in page
    assert status["next_steps"][0]["text"] in page
