"""What people see in Label Studio and at ``/status``, checked in headless Chromium.

The models are the embedded voters and the texts are the demo's reviews. Screenshots go to the folder that
``CAMVO_E2E_ARTEFACTS`` names, or else to ``artefacts`` beside this file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from browser import Browser
from installation import CREDENTIALS, Installation, variables
from label_studio import LabelStudio
from server_process import ServerProcess, wait_until
from sqlalchemy import select

from backend.ledger.database import tables

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

ARTEFACTS = Path(os.environ.get("CAMVO_E2E_ARTEFACTS") or Path(__file__).with_name("artefacts"))
REVIEWS = json.loads((resources.files("backend.commands") / "resources" / "demo_texts.json").read_text())[
    "sentiment"
][:9]
CONFIG = (resources.files("label_config") / "sentiment.xml").read_text()
SHOWN = ("id", "total_annotations", "predictions_score", "text")
"""Columns of the Data Manager."""

ROWS, TASK = ".lsf-table-row", ".lsf-current-task__task-id"
TAB = ".lsf-annotation-button"
"""The tab of an annotation or prediction of an opened task."""

CHOSEN, SUBMIT = ".ant-radio-input:checked", "button[name=submit]"


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Opened before Label Studio starts, so that a missing program is reported at once."""
    with Browser(tmp_path_factory.mktemp("browser"), ARTEFACTS) as started:
        yield started


@pytest.fixture(scope="module")
def browser(window: Browser, studio: LabelStudio) -> Browser:
    """A browser whose user has logged in."""
    window.visit(f"{studio.url}/user/login")
    window.fill("input[name=email]", studio.user)
    window.fill("input[name=password]", studio.password)
    window.click("button[type=submit]")
    window.wait_until(lambda: "/user/login" not in window.address, "page behind the login")
    return window


@pytest.fixture(scope="module")
def installation(
    studio: LabelStudio, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    with ServerProcess(tmp_path_factory.mktemp("server"), None, **variables(studio)) as server:
        server.start()
        yield Installation(studio, server)


@pytest.fixture(scope="module")
def project(installation: Installation) -> int:
    """A connected project with its predictions, the least certain first for annotators."""
    project = installation.project(
        *(review["text"] for review in REVIEWS), title="Reviews", label_config=CONFIG
    )
    installation.connect(project, "--review-queue")
    installation.retrieve(project)
    return project


@pytest.fixture(scope="module")
def tab(installation: Installation, project: int) -> str:
    """The address of a tab of the Data Manager: sorted by score, with few columns."""
    columns = installation.studio.ask("GET", "/api/dm/columns", project=project)["columns"]
    hidden = [f"tasks:{column['id']}" for column in columns if column["id"] not in SHOWN]
    data = {
        "title": "Least certain first",
        "type": "list",
        "target": "tasks",
        "ordering": ["tasks:predictions_score"],
        "hiddenColumns": {"explore": hidden, "labeling": [*hidden, "tasks:total_annotations"]},
        "columnsWidth": {"tasks:data.text": 640},
        "columnsDisplayType": {},
        "filters": {"conjunction": "and", "items": []},
        "gridWidth": 4,
    }
    view = installation.studio.ask("POST", "/api/dm/views/", {"project": project, "data": data})
    return f"{installation.studio.url}/projects/{project}/data?tab={view['id']}"


@pytest.fixture(scope="module")
def ascending(installation: Installation, project: int) -> list[float]:
    """The predictions' scores, the lowest first."""
    return sorted(score for _, _, score in installation.predictions(project))


def scores(browser: Browser) -> list[float]:
    matches = [re.search(r"\b[01]\.\d+\b", row) for row in browser.texts(ROWS)]
    return [float(score[0]) for score in matches if score is not None]


def number(browser: Browser) -> int:
    """The number of the task that the editor shows, as in "#7 of 9"."""
    return int(browser.text(TASK).split()[0].removeprefix("#"))


def test_the_data_manager_shows_every_score_the_lowest_first(
    browser: Browser, tab: str, ascending: list[float]
) -> None:
    browser.visit(tab)
    browser.wait_until(lambda: len(scores(browser)) == len(REVIEWS), "scores")
    browser.picture("data-manager")
    assert scores(browser) == pytest.approx(ascending, abs=0.01)


def test_an_opened_task_is_filled_and_what_is_submitted_is_counted_by_status(
    browser: Browser, installation: Installation, tab: str
) -> None:
    browser.visit(tab)
    browser.click(ROWS)
    shown, task = browser.attribute(CHOSEN, "name"), number(browser)
    browser.picture("task")
    [prediction] = installation.open(task)
    assert prediction["result"][0]["value"] == {"choices": [shown]}
    browser.click(SUBMIT)
    wait_until(lambda: installation.learnt(task) == [(shown, "human")], "what was submitted")
    user, password = CREDENTIALS["BASIC_AUTH_USER"], CREDENTIALS["BASIC_AUTH_PASS"]
    browser.visit(installation.server.url.replace("://", f"://{user}:{password}@") + "/status")
    browser.picture("status")
    assert "1 annotation, 1 of which teach" in browser.text()


def test_a_doubtful_label_leaves_the_form_empty_and_its_score_is_shown(
    browser: Browser, installation: Installation
) -> None:
    project = installation.project(REVIEWS[0]["text"], title="Doubtful", label_config=CONFIG)
    installation.connect(project, "--review-queue", "--extra-params", "prefill=1")
    installation.retrieve(project)
    [task] = installation.tasks(project)
    [prediction] = task["predictions"]
    assert (prediction["result"], task["predictions_score"]) == ([], prediction["score"])
    for address in (f"data?task={task['id']}", "data?labeling=1"):
        browser.visit(f"{installation.studio.url}/projects/{project}/{address}")
        browser.wait_until(lambda: any(browser.texts(TASK)), "an opened task")
        browser.wait_until(lambda: any(browser.texts(".ant-radio-wrapper")), "choices")
        assert browser.texts(CHOSEN) == []
    browser.picture("doubtful")
    browser.click(".ant-radio-wrapper")
    browser.click(SUBMIT)
    wait_until(lambda: any(by == "human" for _, by in installation.learnt(task["id"])), "what was submitted")
    shown = select(tables.human_annotations.c.prediction_shown).where(
        tables.human_annotations.c.task == task["id"]
    )
    assert [row.prediction_shown for row in installation.server.rows(shown)] == [False]


@pytest.fixture(scope="module")
def ballot(installation: Installation) -> int:
    """A project that shows votes, with one task that no model was asked about yet."""
    project = installation.project(title="Votes", label_config=CONFIG)
    extra = {"show_votes": True, "models": ["everything", "hints", "keywords"], "k_min": 3}
    installation.connect(project, "--extra-params", json.dumps(extra))
    installation.add(project, {"text": REVIEWS[0]["text"]})
    return project


def test_the_label_stream_fills_a_new_task_with_the_ensembles_answer_though_others_dissent(
    browser: Browser, installation: Installation, ballot: int
) -> None:
    browser.visit(f"{installation.studio.url}/projects/{ballot}/data?labeling=1")
    shown = browser.attribute(CHOSEN, "name")
    browser.picture("votes-label-stream")
    labels = votes(installation, ballot)
    assert shown == labels["camvo"] != labels["camvo/keywords"]


def test_an_opened_task_has_a_tab_for_each_vote_and_is_filled_with_the_ensembles_answer(
    browser: Browser, installation: Installation, ballot: int
) -> None:
    [task] = installation.tasks(ballot)
    installation.open(task["id"])
    labels = votes(installation, ballot)
    browser.visit(f"{installation.studio.url}/projects/{ballot}/data?task={task['id']}")
    browser.wait_until(lambda: len(browser.texts(TAB)) == 1 + len(labels), "tabs")
    assert browser.attribute(CHOSEN, "name") == labels["camvo"]
    browser.picture("votes")
    for place in range(2, 2 + len(labels)):
        browser.click(f"{TAB}:nth-child({place})")
        browser.text(f"{TAB}_selected:nth-child({place})")
        version = browser.text(f"{TAB}_selected {TAB}__name")
        label = labels.pop(version)
        browser.wait_until(lambda label=label: browser.attribute(CHOSEN, "name") == label, version)


def votes(installation: Installation, project: int) -> dict[str, str]:
    """Name on the tab → label, for each prediction of the project's only task."""
    [task] = installation.tasks(project)
    return {
        _shortened(each["model_version"]): each["result"][0]["value"]["choices"][0]
        for each in task["predictions"]
    }


def _shortened(version: str) -> str:
    return version if len(version) < 15 else f"{version[:8]}...{version[-6:]}"


def test_the_tab_of_camvo_review_shows_the_suggested_tasks_and_its_stream_gives_the_open_ones(
    browser: Browser, installation: Installation, project: int
) -> None:
    suggested = [item["task"] for item in json.loads(installation.review(project, "--json").stdout)["tasks"]]
    address = installation.review(project, "--tab", "--limit", "3").stdout.split()[-1]
    assert address == installation.review(project, "--tab", "--limit", "3").stdout.split()[-1]
    browser.visit(address)
    browser.wait_until(lambda: len(browser.texts(ROWS)) == 3, "suggested tasks")
    browser.picture("label-next")
    assert {int(row.split()[0]) for row in browser.texts(ROWS)} == set(suggested[:3])
    browser.visit(f"{address}&labeling=1")
    assert browser.attribute(CHOSEN, "name")
    assert number(browser) in suggested[:3]


def test_label_all_tasks_starts_with_the_least_certain_one(
    browser: Browser, installation: Installation, project: int
) -> None:
    open_tasks = {task["id"] for task in installation.tasks(project) if not task["total_annotations"]}
    scores = {task: score for task, _, score in installation.predictions(project) if task in open_tasks}
    browser.visit(f"{installation.studio.url}/projects/{project}/data?labeling=1")
    assert browser.attribute(CHOSEN, "name")
    browser.picture("label-stream")
    assert scores[number(browser)] == min(scores.values())
