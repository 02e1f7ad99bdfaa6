"""A project's page and the overview, from the real app: what they begin with, links, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import (
    Annotation,
    Project,
    annotated,
    predict,
    project_updated,
    setup,
    task,
)
from sqlalchemy import select
from whole_backend import Backend, votes

from backend.ledger.database import tables

DIARY, AWAY = Project(), Project(number=9)
TASKS = range(1, 15)
ADDRESS = "http://localhost:8080/projects/7/data"


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A project whose models agree and are wrong, and one of another Label Studio."""
    folder = tmp_path_factory.mktemp("page")
    with Backend(folder, votes(red="Glad", green="Glad", blue="Glad")) as backend:
        backend.post("/setup", setup(DIARY))
        backend.post("/setup", setup(AWAY) | {"hostname": "https://away.example.org/ls"})
        backend.predict(*(task(number) for number in TASKS))
        backend.predict(task(1), project=AWAY)
        for number in TASKS[:12]:
            backend.hook(
                annotated(Annotation(number=number, task=number, mood="Sad" if number > 2 else "Glad"))
            )
        yield backend


def page(backend: Backend, query: str = "?project=7") -> str:
    return backend.client.get(f"/status{query}", headers={"Accept": "text/html"}).text


def report(backend: Backend) -> dict[str, Any]:
    projects = backend.client.get("/status?format=json&project=7").get_json()["projects"]
    return dict(projects[0])


def test_the_tasks_that_were_asked_for_are_counted_in_words(backend: Backend) -> None:
    body = predict([task(99)])
    body["params"]["stored_only"] = True
    before = looked_up(backend)
    backend.post("/predict", body)
    assert looked_up(backend) == before + 1
    assert f"{before + 1} looked up before they had a prediction" in page(backend)


def looked_up(backend: Backend) -> int:
    """Tasks looked up without a prediction since this process started, by other tests too."""
    server = backend.client.get("/status?format=json").get_json()["server"]
    return int(server["tasks"].get("not_stored", 0))


def test_the_page_begins_with_alarms_then_labels_dollars_and_what_is_next(backend: Backend) -> None:
    text = page(backend)
    places = [
        text.index(words)
        for words in (
            'class="alarm"',
            "Labels that are right",
            "asking everyone",
            '<h2 id="next">',
            "<figure>",
        )
    ]
    assert places == sorted(places)


def test_the_first_number_is_the_estimate_and_says_what_it_rests_on(backend: Backend) -> None:
    estimate = report(backend)["questions"][0]["estimate"]
    assert (estimate["basis"], estimate["checked"], estimate["labels"]) == ("reviewed", 12, 14)
    text = page(backend)
    assert f"{100 * estimate['share']:.1f}%" in text
    assert "the score, corrected by 12 reviewed labels" in text


def test_wrong_scores_are_the_first_alarm_with_a_cure(backend: Backend) -> None:
    first = report(backend)["alerts"][0]
    assert (first["code"], first["level"], first["subject"]) == ("score_off", "alarm", "mood")
    assert "16.7% of the latest 12 reviewed labels were right" in first["message"]
    assert first["fix"]


def test_the_best_single_model_and_everyone_stand_beside_the_dollars(backend: Backend) -> None:
    cost = report(backend)["cost"]
    single = cost["best_single"]
    assert (single["basis"], single["share"]) == ("reviewed", pytest.approx(1 / 6))
    assert 0.0 < single["usd"] < cost["every_model_usd"]


def test_the_best_single_model_is_compared_with_the_labels_of_the_very_tasks_it_was_checked_on(
    backend: Backend,
) -> None:
    single = report(backend)["cost"]["best_single"]
    with backend.ledger.read() as connection:
        votes_, rounds_ = tables.votes.c, tables.rounds.c
        checked = select(rounds_.confirmed).join(tables.votes, votes_.round_id == rounds_.id)
        of_model = votes_.model == single["model"], votes_.project == DIARY.key
        rows = connection.execute(checked.where(*of_model, votes_.confirmed.is_not(None))).all()
    assert single["labels"]["count"] == len(rows) > 0
    assert single["labels"]["right"] == sum(row.confirmed for row in rows)
    assert f"the labels of these\n{len(rows)} tasks are" in page(backend)


def test_questionable_labels_are_listed_with_links_to_their_tasks(backend: Backend) -> None:
    [question] = report(backend)["questions"]
    listed = question["questionable"]["listed"]
    assert question["questionable"]["labels"] == len(listed) == 10
    assert {(label["vote"], label["human"], label["annotators"]) for label in listed} == {("Glad", "Sad", 1)}
    text = page(backend)
    assert all(f'href="{ADDRESS}?task={label["task"]}"' in text for label in listed)


def test_every_chart_has_a_text_for_those_who_do_not_see_it(backend: Backend) -> None:
    text = page(backend)
    drawn = re.findall(r"<svg [^>]*>", text)
    assert len(drawn) == text.count("<figure>") == 6
    assert all(re.search(r'role="img" aria-label="[^"]+"', opening) for opening in drawn)


def test_the_same_id_is_never_used_twice(backend: Backend) -> None:
    ids = re.findall(r'\bid="([^"]+)"', page(backend))
    assert len(ids) == len(set(ids))


def test_progress_is_counted_against_the_tasks_that_label_studio_reports(backend: Backend) -> None:
    assert report(backend)["progress"]["predicted"] == 14
    assert "people labelled <strong>12</strong>" in page(backend)


def test_the_overview_keeps_two_label_studios_apart_in_one_page_of_tables(backend: Backend) -> None:
    text = page(backend, "")
    hosts = re.findall(r'<h2 id="host-\d+">(\S+)', text)
    assert sorted(hosts) == ["away.example.org/ls", "localhost:8080"]
    assert f'<a href="?project={DIARY.key}">diary</a>' in text
    assert 'href="https://away.example.org/ls/projects/9/data"' in text
    assert "<svg" not in text


def test_the_overview_shows_a_labelled_file_which_has_no_next_step(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Glad")) as backend:
        backend.predict(task(1))
        backend.post("/predict", predict([task(1)]) | {"project": "r&d#1"})  # as camvo label keeps it
        row = page(backend, "").partition('<a href="?project=r%26d%231">')[2]
        own = page(backend, "?project=r%26d%231")
    assert '<td data-label="Next">–</td>' in row.partition("</tr>")[0]
    assert 'href="?format=json&amp;project=r%26d%231"' in own


def test_only_a_project_without_blind_tasks_is_told_to_keep_some(backend: Backend, tmp_path: Path) -> None:
    advice = "Set audit in camvo.yaml"
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Glad"), audit=0.9) as audited:
        assert audited.predict(*(task(number) for number in range(1, 6))).count([]) > 0
        assert advice not in page(audited)
    assert advice in page(backend)


def test_labels_that_may_quote_a_task_are_not_shown(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Glad")) as backend:
        backend.predict(*(task(number) for number in range(1, 4)))
        backend.hook(annotated(Annotation(number=1, task=1, mood="Sad")))
        with backend.ledger.write() as connection:  # as if mood were a text
            connection.exec_driver_sql("UPDATE projects SET label_config = NULL")
        [question] = report(backend)["questions"]
    assert question["labels"]["shares"] == question["labels"]["confusion"] == []
    [label] = question["questionable"]["listed"]
    assert (label["vote"], label["human"]) == (None, None)


def test_a_config_that_changed_after_the_predictions_is_an_alarm_until_they_are_made_anew(
    tmp_path: Path,
) -> None:
    def alarms(backend: Backend) -> list[str]:
        return [alert["code"] for alert in report(backend)["alerts"] if alert["level"] == "alarm"]

    changed = replace(DIARY, instructions="Be brave.")
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Glad")) as backend:
        backend.post("/setup", setup(DIARY))
        backend.predict(task(1), task(2))
        before = alarms(backend)
        backend.hook(project_updated(changed))
        after = alarms(backend)
        backend.predict(task(1), project=changed)
        half = alarms(backend)
        backend.predict(task(2), project=changed)
        assert (before, after, half, alarms(backend)) == ([], ["config_changed"], ["config_changed"], [])


def test_predictions_by_the_first_config_end_the_alarm_although_another_process_predicted_by_a_second_one(
    tmp_path: Path,
) -> None:
    changed = replace(DIARY, instructions="Be brave.")
    models = votes(red="Glad", green="Glad", blue="Glad")
    with Backend(tmp_path, models) as first, Backend(tmp_path, models) as second:
        for backend, project in ((first, DIARY), (second, changed), (first, DIARY)):
            backend.hook(project_updated(project))
            backend.predict(task(1), project=project)
        alerts = report(first)["alerts"]
    assert "config_changed" not in [alert["code"] for alert in alerts]
