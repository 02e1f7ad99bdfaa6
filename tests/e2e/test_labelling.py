"""Labelling in a real Label Studio: tasks, predictions, annotations, failing models, a crash."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from installation import Installation, choice, variables
from label_studio import LabelStudio
from label_studio_requests import MORE_MOODS, SENTIMENT
from scripted import LATE, Scripted, with_unreliable_models
from server_process import MODELS, ServerProcess, wait_until
from sqlalchemy import select

from backend.ledger.database import tables
from backend.testing import OpenAIServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

DEADLINE = 24.0
"""Seconds for one request: longer than a dead process's claims, shorter than the models' timeout."""

TOPICS = (
    SENTIMENT.replace('"mood"', '"topic"')
    .replace("Glad", "Food")
    .replace("Sad", "Travel")
    .replace("Calm", "Rest")
)
RELIABLE = ("--extra-params", f"models={json.dumps(MODELS)}")
UNANIMOUS, DIVIDED, TORN = (
    "red: Glad, green: Glad, blue: Glad",
    "red: Glad, green: Glad, blue: Sad",
    "red: Glad, green: Sad, blue: Calm",
)


@pytest.fixture(scope="module")
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture(scope="module")
def models(scripted: Scripted) -> Iterator[OpenAIServer]:
    with OpenAIServer(scripted) as started:
        yield started


@pytest.fixture(scope="module")
def installation(
    studio: LabelStudio, models: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("server")
    config = with_unreliable_models(models, folder, policy=None, deadline=DEADLINE)
    with ServerProcess(folder, config, **variables(studio)) as server:
        server.start(fresh=True)
        yield Installation(studio, server)


@pytest.fixture(scope="module")
def diary(installation: Installation) -> int:
    """A project to which each test adds its own task."""
    project = installation.project()
    installation.connect(project, *RELIABLE)
    return project


@pytest.fixture
def divided(installation: Installation, diary: int) -> int:
    """A task with its prediction "Glad"; only "blue" voted "Sad"."""
    [task] = installation.add(diary, {"text": DIVIDED})
    assert len(installation.open(task)) == 1
    return task


def asked(models: OpenAIServer, text: str) -> Counter[str]:
    """Model → how often it was asked about a text."""
    return Counter(
        request.model for request in models.requests if text in request.body["messages"][-1]["content"]
    )


def answered(installation: Installation, tasks: Container[int]) -> list[tuple[int, str]]:
    """(task, model) of every answer about these tasks in the ledger."""
    query = select(tables.calls.c.task, tables.calls.c.model).where(tables.calls.c.state == "settled")
    return [(row.task, row.model) for row in installation.server.rows(query) if row.task in tasks]


def chosen(predictions: list[dict[str, Any]]) -> list[str]:
    return [region["value"]["choices"][0] for each in predictions for region in each["result"]]


# -- predictions


def test_opening_a_task_brings_the_voted_label(installation: Installation, diary: int) -> None:
    [task] = installation.add(diary, {"text": DIVIDED})
    [prediction] = installation.open(task)
    assert (chosen([prediction]), prediction["model_version"]) == (["Glad"], "camvo")
    assert 0.5 < prediction["score"] < 1.0


def test_a_task_opened_three_times_at_once_costs_one_call_of_each_model(
    installation: Installation, diary: int, models: OpenAIServer, scripted: Scripted
) -> None:
    text = f"Opened by three. {DIVIDED}"
    [task] = installation.add(diary, {"text": text})
    scripted.hold(text)
    with ThreadPoolExecutor(3) as people:
        opened = [people.submit(installation.open, task) for _ in range(3)]
        wait_until(lambda: asked(models, text).total() == 3, "question to every model")
        scripted.release()
        assert all(chosen(each.result()) for each in opened)
    assert asked(models, text) == Counter(MODELS)


def test_retrieving_twice_stores_no_second_prediction_and_asks_no_model(
    installation: Installation, models: OpenAIServer
) -> None:
    project = installation.project(*(f"Day {number}. {DIVIDED}" for number in range(6)))
    installation.connect(project, *RELIABLE)
    installation.retrieve(project)
    before, calls = installation.predictions(project), models.count()
    assert Counter(task for task, _, _ in before) == Counter(
        task["id"] for task in installation.tasks(project)
    )
    installation.retrieve(project)
    assert (installation.predictions(project), models.count()) == (before, calls)


def test_the_label_stream_gives_the_least_certain_task_first(installation: Installation) -> None:
    project = installation.project(UNANIMOUS, TORN, DIVIDED, f"Again. {UNANIMOUS}", f"Again. {TORN}")
    installation.connect(project, "--review-queue", *RELIABLE)
    installation.retrieve(project)
    scores = {task: score for task, _, score in installation.predictions(project)}
    order = []
    for _ in scores:
        task = installation.studio.ask("GET", f"/api/projects/{project}/next")["id"]
        order.append(task)
        installation.annotate(task, choice("Calm"))
    assert [scores[task] for task in order] == sorted(scores.values())
    assert len(set(scores.values())) >= 3


# -- the models' own votes


@pytest.fixture(scope="module")
def ballot(installation: Installation) -> int:
    """A project that shows votes, with predictions of three models; a fourth always fails."""
    project = installation.project(UNANIMOUS, TORN, DIVIDED)
    pool = f"models={json.dumps([*MODELS, 'broken'])}"
    installation.connect(
        project, "--review-queue", "--extra-params", "show_votes=true", "--extra-params", pool
    )
    installation.retrieve(project)
    return project


def ensembles(installation: Installation, project: int) -> dict[int, float]:
    """Task → the score of the ensemble's prediction."""
    return {task: score for task, version, score in installation.predictions(project) if version == "camvo"}


def test_with_show_votes_a_task_has_the_ensembles_prediction_and_one_of_each_model_that_voted(
    installation: Installation, ballot: int
) -> None:
    *_, task = installation.tasks(ballot)
    assert sorted((each["model_version"], *chosen([each])) for each in task["predictions"]) == [
        ("camvo", "Glad"),
        ("camvo/blue", "Sad"),
        ("camvo/green", "Glad"),
        ("camvo/red", "Glad"),
    ]


def test_the_score_column_shows_the_ensembles_score_beside_votes(
    installation: Installation, ballot: int
) -> None:
    shown = {task["id"]: task["predictions_score"] for task in installation.tasks(ballot)}
    assert shown == ensembles(installation, ballot)


def test_retrieving_votes_twice_stores_no_second_prediction_and_asks_no_model(
    installation: Installation, ballot: int, models: OpenAIServer
) -> None:
    before, calls = installation.predictions(ballot), models.count()
    installation.retrieve(ballot)
    assert (installation.predictions(ballot), models.count()) == (before, calls)


def test_connecting_names_the_ensembles_score_not_a_votes(installation: Installation, ballot: int) -> None:
    done = installation.camvo("connect", ballot, "--review-queue")
    [(task, score)] = re.findall(r"task (\d+): score ([\d.]+)", done.stdout)
    assert score == f"{ensembles(installation, ballot)[int(task)]:.2f}"


def test_camvo_predict_stores_votes_as_a_retrieve_does(installation: Installation, ballot: int) -> None:
    [task] = installation.add(ballot, {"text": f"Again. {DIVIDED}"})
    done = installation.camvo("predict", ballot, "--no-wait")  # for the model that always fails
    said = done.stdout + done.stderr
    assert "4 predictions stored for 1 task, 0 replaced, 3 tasks left" in done.stdout, said
    versions = [version for number, version, _ in installation.predictions(ballot) if number == task]
    assert versions == ["camvo", "camvo/blue", "camvo/green", "camvo/red"]


def test_the_label_stream_goes_by_the_ensembles_score_and_gets_its_prediction_alone(
    installation: Installation, ballot: int
) -> None:
    scores, order, versions = ensembles(installation, ballot), [], []
    for _ in scores:
        task = installation.studio.ask("GET", f"/api/projects/{ballot}/next")
        order.append(task["id"])
        versions.append([prediction["model_version"] for prediction in task["predictions"]])
        installation.annotate(task["id"], choice("Calm"))
    assert [scores[task] for task in order] == sorted(scores.values())
    assert order != sorted(order)
    assert versions == [["camvo"]] * len(scores)


def test_the_label_stream_gets_all_votes_on_a_task_that_no_model_was_asked_about_before(
    installation: Installation,
) -> None:
    project = installation.project()
    installation.connect(project, "--extra-params", "show_votes=true", *RELIABLE)
    installation.add(project, {"text": DIVIDED})
    predictions = installation.studio.ask("GET", f"/api/projects/{project}/next")["predictions"]
    assert {each["model_version"] for each in predictions} == {
        "camvo",
        *(f"camvo/{model}" for model in MODELS),
    }


# -- human answers


def wait_for_rewards(installation: Installation, task: int, **wanted: float) -> None:
    """Wait until each model has exactly one reward for a task, of the given size."""
    expected = {model: (1, reward) for model, reward in wanted.items()}
    wait_until(lambda: installation.rewards(task) == expected, f"{expected}")


def test_an_annotation_replaces_the_vote_in_the_rewards(installation: Installation, divided: int) -> None:
    assert installation.rewards(divided) == {"red": (1, 1.0), "green": (1, 1.0), "blue": (1, 0.0)}
    installation.annotate(divided, choice("Sad"))
    wait_for_rewards(installation, divided, red=0.0, green=0.0, blue=1.0)


def test_an_update_changes_the_rewards(installation: Installation, divided: int) -> None:
    number = installation.annotate(divided, choice("Sad"))
    wait_for_rewards(installation, divided, red=0.0, green=0.0, blue=1.0)
    installation.studio.ask("PATCH", f"/api/annotations/{number}/", {"result": [choice("Calm")]})
    wait_for_rewards(installation, divided, red=0.0, green=0.0, blue=0.0)


def test_a_deletion_brings_the_vote_back(installation: Installation, divided: int) -> None:
    number = installation.annotate(divided, choice("Sad"))
    wait_for_rewards(installation, divided, red=0.0, green=0.0, blue=1.0)
    installation.studio.ask("DELETE", f"/api/annotations/{number}/")
    wait_for_rewards(installation, divided, red=1.0, green=1.0, blue=0.0)


def test_a_skipped_task_teaches_nothing_though_the_form_was_filled(
    installation: Installation, diary: int, divided: int
) -> None:
    stored = installation.status(diary)["humans"]
    installation.annotate(divided, choice("Sad"), was_cancelled=True)
    wait_until(
        lambda: installation.status(diary)["humans"]["annotations"] == stored["annotations"] + 1,
        "skipped annotation",
    )
    assert installation.status(diary)["humans"]["teaching"] == stored["teaching"]
    wait_for_rewards(installation, divided, red=1.0, green=1.0, blue=0.0)


def test_status_counts_what_people_confirmed(installation: Installation) -> None:
    project = installation.project(DIVIDED, f"Again. {DIVIDED}")
    installation.connect(project, *RELIABLE)
    installation.retrieve(project)
    for task, label in zip(installation.tasks(project), ("Glad", "Sad"), strict=True):
        installation.annotate(task["id"], choice(label))
    wait_until(lambda: installation.status(project)["humans"]["teaching"] == 2, "two annotations")
    status = installation.status(project)
    assert status["humans"]["tasks"] == 2
    [question] = status["questions"]
    assert (question["reviewed"]["count"], question["reviewed"]["right"]) == (2, 1)
    assert status["alerts"] == []


def test_human_labels_change_the_next_predictions(installation: Installation) -> None:
    disputed = "red: Sad, green: Glad, blue: Glad"
    project = installation.project(*(f"Day {number}. {disputed}" for number in range(12)))
    installation.connect(project, *RELIABLE)
    installation.retrieve(project)
    tasks = installation.tasks(project)
    assert {word for task in tasks for word in chosen(task["predictions"])} == {"Glad"}
    for task in tasks:
        installation.annotate(task["id"], choice("Sad"))
    wait_until(lambda: installation.status(project)["humans"]["teaching"] == 12, "twelve annotations")
    [task] = installation.add(project, {"text": f"Day 12. {disputed}"})
    assert chosen(installation.open(task)) == ["Sad"]


def test_a_label_that_is_added_is_asked_about_once_somebody_says_so(installation: Installation) -> None:
    project = installation.project("red: Cross/Glad, green: Cross/Glad, blue: Cross/Glad")
    installation.connect(project, *RELIABLE)
    installation.retrieve(project)
    installation.studio.ask("PATCH", f"/api/projects/{project}/", {"label_config": MORE_MOODS})
    done = installation.on_ledger("relabel", project, "--yes", "--add", "Cross", "--below", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    done = installation.camvo("predict", project, "--refresh")
    assert "0 predictions stored, 1 replaced" in done.stdout, done.stdout + done.stderr
    [task] = installation.tasks(project)
    assert chosen(task["predictions"]) == ["Cross"]
    assert [each["current"] for each in installation.status(project)["questions"]] == [True, False]


# -- many tasks, slow and failing models, a server that dies


def test_two_projects_at_once_do_not_mix(installation: Installation) -> None:
    text = "red: Travel/Sad, green: Travel/Sad, blue: Travel/Sad"
    projects = {
        "mood": installation.project(*(f"Day {number}. {text}" for number in range(8))),
        "topic": installation.project(
            *(f"Trip {number}. {text}" for number in range(8)), label_config=TOPICS
        ),
    }
    for project in projects.values():
        installation.connect(project, *RELIABLE)
    with ThreadPoolExecutor(2) as people:
        list(people.map(installation.retrieve, projects.values()))
    for control, label in (("mood", "Sad"), ("topic", "Travel")):
        tasks = installation.tasks(projects[control])
        results = [prediction["result"] for task in tasks for prediction in task["predictions"]]
        chosen_labels = [(region["from_name"], *region["value"]["choices"]) for [region] in results]
        assert chosen_labels == [(control, label)] * 8
        status = installation.status(projects[control])
        assert [(each["control"], each["rounds"]) for each in status["questions"]] == [(control, 8)]


@pytest.fixture(scope="module")
def mishaps(installation: Installation) -> int:
    """A project of 40 tasks with predictions of seven models: one is slow, three never vote."""
    project = installation.project(*(f"Day {number}. {DIVIDED}, late: Glad" for number in range(40)))
    installation.connect(project)
    installation.retrieve(project)
    return project


def test_a_slow_model_and_failing_ones_leave_none_of_forty_tasks_blank(
    installation: Installation, mishaps: int
) -> None:
    assert installation.per_task(mishaps) == [1] * 40


def test_status_names_the_models_that_fail_and_those_that_are_slow(
    installation: Installation, mishaps: int
) -> None:
    models = {model["name"]: model for model in installation.status(mishaps)["models"]}
    assert {name: set(model["failures"]) for name, model in models.items() if model["failures"]} == {
        "broken": {"model_unavailable"},
        "garbled": {"model_unavailable"},
    }
    assert models["late"]["median_seconds"] >= LATE
    useless = [name for name, model in models.items() if model["asked"] and not model["voted"]]
    assert useless == ["broken", "garbled", "rambling"]


def test_what_the_deadline_cut_off_is_there_at_the_next_retrieve(
    installation: Installation, models: OpenAIServer, scripted: Scripted
) -> None:
    project = installation.project(DIVIDED)
    installation.connect(project, *RELIABLE)
    scripted.hold("Held back.")
    installation.add(project, {"text": f"Held back. {DIVIDED}"}, {"text": f"Again. {DIVIDED}"})
    installation.retrieve(project)
    assert installation.per_task(project) == [1, 0, 1]
    scripted.release()
    installation.retrieve(project)
    assert installation.per_task(project) == [1, 1, 1]
    assert asked(models, "Held back.") == Counter(MODELS)


def test_a_killed_server_continues_a_batch_after_its_restart(
    installation: Installation, models: OpenAIServer, scripted: Scripted
) -> None:
    days = 32  # fewer than the first rounds, which ask all models
    project = installation.project(*(f"Dying on day {number}. {UNANIMOUS}" for number in range(days)))
    installation.connect(project, *RELIABLE, "--extra-params", "max_stages=1")
    tasks = {task["id"] for task in installation.tasks(project)}
    by_connect = asked(models, "Dying").total()
    scripted.hold("Dying", before=60)
    server = installation.server
    with ThreadPoolExecutor(1) as person:
        retrieving = person.submit(installation.retrieve, project)
        answers = by_connect + 60
        wait_until(lambda: len(answered(installation, tasks)) == answers, "sixty answers in the ledger")
        wait_until(lambda: asked(models, "Dying").total() >= answers + 8, "questions without an answer")
        server.kill()
        retrieving.result()
    scripted.release()
    assert installation.per_task(project) == [0] * days
    stored, before = answered(installation, tasks), asked(models, "Dying").total()
    server.start("--port", server.url.rpartition(":")[2])
    installation.retrieve(project)
    assert installation.per_task(project) == [1] * days
    assert asked(models, "Dying").total() - before == days * len(MODELS) - len(stored)
