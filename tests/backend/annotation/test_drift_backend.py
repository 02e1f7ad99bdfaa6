"""A model whose provider reports another version: what the ledger keeps, what counts, what /status says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from label_studio_requests import Annotation, Project, annotated, task
from sqlalchemy import select
from whole_backend import Backend

from backend.ledger.database import tables
from backend.ledger.events import ProjectEvents, StateKey, StateRecords
from backend.testing import Reply
from camvo.state.arm import _RUN
from camvo.state.contribution import Contribution, Restart

OLD, NEW = 4, 4 + _RUN


def script(versions: dict[str, str]) -> Any:
    def answer(body: dict[str, Any]) -> Reply:
        model = body["model"]
        mood = "Sad" if model == "blue" else "Glad"
        return Reply.says({"mood": mood}, version=versions.get(model, model), fingerprint="fp_1")

    return answer


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """Tasks 1 to 4 from red's first version; as many as it takes from its second; then one more."""
    versions = {"red": "red-1"}
    with Backend(tmp_path_factory.mktemp("drift"), script(versions), policy={"name": "baseline"}) as backend:
        backend.predict(*(task(number) for number in range(1, OLD + 1)))
        versions["red"] = "red-2"
        for number in range(OLD + 1, NEW + 1):
            backend.predict(task(number))
        backend.predict(task(NEW + 1))
        yield backend


def restarts(backend: Backend) -> list[Restart]:
    with backend.ledger.read() as connection:
        recorded = ProjectEvents(connection, Project().key).after(0)
    contributions = [Contribution.unpack(event.contribution) for event in recorded if event.kind == "restart"]
    return [each.restart for each in contributions if each.restart is not None]


def status(backend: Backend) -> dict[str, Any]:
    [reported] = backend.client.get("/status").get_json()["projects"]
    return dict(reported)


def test_the_ledger_keeps_the_version_that_each_answer_reports(project: Backend) -> None:
    with project.ledger.read() as connection:
        stored = connection.execute(select(tables.answers.c.model, tables.answers.c.version)).all()
    assert {version for model, version in stored if model == "red"} == {"red-1 fp_1", "red-2 fp_1"}
    assert {version for model, version in stored if model == "green"} == {"green fp_1"}


def test_a_changed_version_is_one_event_of_the_ledger(project: Backend) -> None:
    [restart] = restarts(project)
    assert (restart.kind, restart.arm, restart.at) == ("version", "red", NEW)
    assert (restart.before, restart.version) == ("red-1", "red-2")


def test_votes_before_the_change_count_for_the_other_models_only(project: Backend) -> None:
    state = project.state()
    assert [state[arm].rewards for arm in ("red", "green", "blue")] == [1, NEW + 1, NEW + 1]


def test_a_round_says_to_which_history_it_belongs(project: Backend) -> None:
    [before], [after] = project.rounds(NEW), project.rounds(NEW + 1)
    assert "histories" not in before.plan
    assert after.plan["histories"] == {"red": 1}
    assert after.plan["versions"]["red"] == "red-2"


def test_status_says_in_words_that_the_version_has_changed(project: Backend) -> None:
    reported = status(project)
    [alert] = [alert for alert in reported["alerts"] if alert["code"] == "model_version_changed"]
    assert "red answers as red-2 instead of red-1" in alert["message"]
    [question] = reported["questions"]
    [restart] = question["stops"]["restarts"]
    assert (restart["model"], restart["after"], restart["history"]) == ("red", NEW, 1)


def test_the_page_says_after_how_many_rounds_it_was(project: Backend) -> None:
    page = project.client.get("/status", headers={"Accept": "text/html"}).text
    assert f"After {NEW} rounds: red answers as red-2 instead of red-1" in page


def test_a_human_label_on_a_round_before_the_change_leaves_the_new_history_alone(project: Backend) -> None:
    before = project.state()
    project.hook(annotated(Annotation(number=1, task=1, mood="Sad")))
    after = project.state()
    assert after["red"].reward_sum == before["red"].reward_sum
    assert after["green"].reward_sum == before["green"].reward_sum - 1.0


def test_every_process_appends_the_same_restart_at_most_once(project: Backend) -> None:
    before = restarts(project)
    [round_] = project.rounds(NEW + 1)
    with project.ledger.write() as connection:
        key = StateKey(Project().key, round_.key.control, round_.key.epoch)
        lesson = Contribution.of_restart(before[0], round_.context.shape[0]).pack()
        StateRecords(connection, key).append_restart(NEW, lesson, now=0.0)
    assert restarts(project) == before
