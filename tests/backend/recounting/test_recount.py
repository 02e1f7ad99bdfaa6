"""Counting kept votes again, in the real app: what changes, what never does, and what Label Studio shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from label_studio_api import KEY, LabelStudioApi
from label_studio_requests import annotations_deleted, start_training, tasks_deleted
from pydantic import SecretStr
from recount_project import (
    LABELLED,
    LEFT,
    NEW,
    POLICY,
    TASKS,
    Prepared,
    Studio,
    labels,
    resumed,
    script,
    truth,
)
from server_process import wait_until
from sqlalchemy import Connection
from whole_backend import Backend

from backend.learning.annotators import answered_questions
from backend.ledger import blind_tasks, recounts
from backend.ledger.recounts import CountedRounds, Counting, FurtherVote, FurtherVotes, Recounts
from backend.ledger.rounds import ProjectRounds
from backend.recounting import automatic
from backend.telemetry import logs

# -- what a recount changes


def test_human_labels_change_the_labels_of_the_tasks_that_nobody_annotated(studio: Studio) -> None:
    before = labels(studio.answers())
    assert before == [truth(number + 1) for number in range(TASKS)]
    counting = studio.recount()
    assert counting is not None
    assert (counting["labels"], counting["counted"]) == (LEFT, LEFT)
    after = labels(studio.answers())
    assert after[LABELLED:] == NEW
    assert after[:LABELLED] == before[:LABELLED]


def test_a_recount_asks_no_model(studio: Studio) -> None:
    asked = len(studio.backend.server.requests)
    studio.recount()
    studio.answers()
    assert len(studio.backend.server.requests) == asked


def test_the_first_rounds_and_the_events_stay_as_they_were(studio: Studio) -> None:
    def stored() -> list[tuple[Any, ...]]:
        found = [studio.backend.rounds(task, studio.project) for task in studio.tasks]
        return [(one.id, one.label, one.score, one.plan, one.taught, one.confirmed) for [one] in found]

    before, events = stored(), studio.backend.events(studio.project)
    studio.recount()
    assert (stored(), studio.backend.events(studio.project)) == (before, events)


def test_the_ledger_says_when_and_why_a_label_changed(studio: Studio) -> None:
    studio.recount()
    [counting] = studio.countings()
    assert counting.reason == "command"
    assert counting.sequence == len(studio.backend.events(studio.project))
    recount = studio.recounts(24)
    assert recount is not None
    assert (recount.label, recount.label_changed) == (truth(24), True)


def test_a_second_recount_with_nothing_new_changes_nothing(studio: Studio) -> None:
    studio.recount()
    answers = studio.answers()
    assert studio.recount() is None
    assert (len(studio.countings()), studio.answers()) == (1, answers)


def test_two_recounts_at_once_are_one(studio: Studio) -> None:
    runtime, key = studio.backend.runtime, studio.project.key
    both = [runtime._thread.submit(runtime.recounter.recount(key, "command")) for _ in range(2)]
    assert both[0].result(60) == both[1].result(60)
    assert len(studio.countings()) == 1


def test_two_processes_that_count_the_same_store_it_once(studio: Studio) -> None:
    runtime, key = studio.backend.runtime, studio.project.key
    first, second = [runtime._thread.submit(runtime.recounter.count(key)).result(60) for _ in range(2)]
    stored = [
        runtime._thread.submit(runtime.recounter.store(key, found, "automatic")).result(60)
        for found in (first, second)
    ]
    assert stored[0] is not None
    assert stored[1] is None


def test_a_task_annotated_after_it_was_counted_keeps_its_label(studio: Studio) -> None:
    runtime, key = studio.backend.runtime, studio.project.key
    found = runtime._thread.submit(runtime.recounter.count(key)).result(60)
    studio.label(25)
    runtime._thread.submit(runtime.recounter.store(key, found, "command")).result(60)
    assert studio.recounts(25) is None
    assert studio.recounts(26) is not None


def test_a_missing_vote_that_comes_while_votes_are_counted_is_counted_the_next_time(studio: Studio) -> None:
    runtime, key = studio.backend.runtime, studio.project.key
    found = runtime._thread.submit(runtime.recounter.count(key)).result(60)
    [round_] = studio.backend.rounds(studio.tasks[25], studio.project)
    late = FurtherVote(
        round_.id, "blue", studio.tasks[25], "Glad", None, 0.0, "missing", runtime._access.clock()
    )
    with studio.backend.ledger.write() as connection:
        FurtherVotes(connection, key).store([late])
    runtime._thread.submit(runtime.recounter.store(key, found, "automatic")).result(60)
    with studio.backend.ledger.read() as connection:
        assert FurtherVotes(connection, key).uncounted() == [studio.tasks[25]]


def test_labels_that_are_forgotten_again_bring_the_first_labels_back(studio: Studio) -> None:
    first = labels(studio.answers())
    studio.recount()
    studio.backend.hook(annotations_deleted(*range(1000, 1000 + LABELLED), project=studio.project))
    studio.recount()
    assert labels(studio.answers()) == first
    assert len(studio.countings()) == 2


def test_the_recounts_of_a_deleted_task_go_with_it(studio: Studio) -> None:
    studio.recount()
    with studio.backend.ledger.read() as connection:
        [round_] = studio.backend.rounds(studio.tasks[25], studio.project)
        assert recounts.latest(connection, [round_.id])
    studio.backend.hook(tasks_deleted(studio.tasks[25], project=studio.project))
    with studio.backend.ledger.read() as connection:
        assert recounts.latest(connection, [round_.id]) == {}
        assert studio.tasks[25] not in Recounts(connection, studio.project.key).pending()


# -- what Label Studio shows


def test_the_server_replaces_predictions_in_their_place_by_itself(studio: Studio) -> None:
    numbers = {task: [one["id"] for one in studio.api.tasks[task]["predictions"]] for task in studio.tasks}
    studio.tend()
    assert [label for label, _ in studio.shown().values()][LABELLED:] == NEW
    assert {
        task: [one["id"] for one in studio.api.tasks[task]["predictions"]] for task in studio.tasks
    } == numbers
    assert {one["model_version"] for task in studio.api.tasks.values() for one in task["predictions"]} == {
        "camvo"
    }
    assert [counting.reason for counting in studio.countings()] == ["automatic"]


def test_what_label_studio_shows_is_what_predict_answers(studio: Studio) -> None:
    studio.tend()
    answers = [(one["result"][0]["value"]["choices"][0], one["score"]) for one in studio.answers()]
    assert list(studio.shown().values())[LABELLED:] == answers[LABELLED:]


def test_annotated_and_drafted_tasks_are_never_touched(studio: Studio) -> None:
    studio.api.annotate(studio.tasks[25], "Sad")  # its webhook is lost
    studio.api.tasks[studio.tasks[26]]["draft_exists"] = True
    before = studio.shown()
    studio.tend()
    after = studio.shown()
    touched = (*range(LABELLED), 25, 26)
    assert [after[number] for number in touched] == [before[number] for number in touched]
    assert after[27] != before[27]


def test_a_draft_that_is_thrown_away_gets_its_new_prediction(studio: Studio) -> None:
    draft = studio.api.tasks[studio.tasks[26]]
    draft["draft_exists"] = True
    studio.tend()
    assert studio.pending() == [26]
    draft["draft_exists"] = False
    studio.tend()
    assert (studio.shown()[26][0], studio.pending()) == (truth(26), [])


def test_a_delivery_that_broke_off_is_finished_by_the_next_process(
    studio: Studio, api: LabelStudioApi, tmp_path: Path
) -> None:
    patched: list[str] = []

    def breaks(method: str, path: str) -> None:
        if method == "PATCH":
            patched.append(path)
            if len(patched) == 4:
                api.answers[method, path] = (503, {})

    api.before = breaks
    studio.tend()
    assert sum(label == truth(number) for number, (label, _) in studio.shown().items()) == 3
    assert len(studio.pending()) == LEFT
    api.before, api.answers = (lambda method, path: None), {}
    own = {"label_studio_url": api.url, "label_studio_api_key": SecretStr(KEY)}
    with Backend(tmp_path, script, environment=own, policy=POLICY) as other:
        other.runtime._thread.submit(other.runtime.recounts.tend(studio.project.key)).result(60)
        assert [label for label, _ in studio.shown().values()][LABELLED:] == NEW
        assert studio.pending() == []
    assert len(studio.countings()) == 1


def test_nothing_is_written_to_label_studio_twice(studio: Studio, api: LabelStudioApi) -> None:
    studio.tend()
    writes = len(api.writes)
    with studio.backend.ledger.write() as connection:  # as if the process had died before it marked them
        connection.exec_driver_sql("UPDATE recounts SET delivered = 0")
    studio.tend()
    assert (len(api.writes), studio.pending()) == (writes, [])


def test_start_training_recounts_and_delivers(studio: Studio) -> None:
    studio.backend.hook(start_training(studio.project))
    wait_until(lambda: not studio.backend.runtime._trainings, "end of the training")
    assert [counting.reason for counting in studio.countings()] == ["training"]
    assert [label for label, _ in studio.shown().values()][LABELLED:] == NEW


# -- when a server does it by itself


def test_a_recount_that_changes_little_is_not_made(studio: Studio) -> None:
    studio.recount()
    studio.label(LABELLED)  # agrees with the label that is shown by now
    studio.tend()
    assert [counting.reason for counting in studio.countings()] == ["command"]


def test_a_server_without_a_key_only_remembers_that_it_would_be_worth_it(
    prepared: Prepared, tmp_path: Path, api: LabelStudioApi
) -> None:
    studio = resumed(prepared, tmp_path, api, key=False)
    with studio.backend:
        studio.tend()
        with studio.backend.ledger.read() as connection:
            look = Recounts(connection, studio.project.key).last_look()
        assert studio.countings() == []
        assert look is not None
        assert (look.by_hand, look.labels, look.counted) == (True, LEFT, LEFT)


def test_recount_false_leaves_it_to_the_command(
    prepared: Prepared, tmp_path: Path, api: LabelStudioApi
) -> None:
    studio = resumed(prepared, tmp_path, api, recount=False)
    with studio.backend:
        before = studio.shown()
        studio.tend()
        assert (studio.countings(), studio.shown()) == ([], before)


def test_within_an_hour_there_is_no_second_one(studio: Studio) -> None:
    studio.tend()
    studio.backend.hook(annotations_deleted(*range(1000, 1000 + LABELLED), project=studio.project))
    studio.tend()
    assert len(studio.countings()) == 1
    later = studio.backend.runtime.clock() + automatic._HOUR
    with studio.backend.runtime.ledger.read() as connection:
        assert not automatic._is_due(connection, studio.project.key)
        timed = connection.execution_options(camvo_clock=lambda: later)
        assert automatic._is_due(timed, studio.project.key)


def store_counting(studio: Studio, connection: Connection) -> None:
    """Record that all tasks have just been counted again."""
    counting = Counting(1, "automatic", 1, TASKS, 0, TASKS, 0.6, 0.7, studio.backend.runtime.clock())
    Recounts(connection, studio.project.key).store_counting(counting)


def test_within_an_hour_there_is_one_once_people_have_labelled_much_more(
    tmp_path: Path, api: LabelStudioApi
) -> None:
    studio = Studio(tmp_path, api)
    with studio.backend:
        studio.predict()
        with studio.backend.ledger.write() as connection:
            store_counting(studio, connection)
        studio.label(*range(9))
        studio.tend()
        assert len(studio.countings()) == 1
        studio.label(*range(9, LABELLED))
        studio.tend()
        assert [made.labels for made in studio.countings()] == [LEFT, 0]


def test_labels_of_blind_tasks_bring_no_recount_within_the_hour(tmp_path: Path, api: LabelStudioApi) -> None:
    studio = Studio(tmp_path, api)
    with studio.backend:
        studio.predict()
        with studio.backend.ledger.write() as connection:
            store_counting(studio, connection)
            for task in studio.tasks[:12]:
                [round_] = studio.backend.rounds(task, studio.project)
                blind_tasks.enter(connection, replace(round_, audit=True), round_.id)
        studio.label(*range(14))
        studio.tend()
        assert len(studio.countings()) == 1


@pytest.fixture
def hardly_anything_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No recount of the prepared project changes as much as one that is made whatever people label."""
    monkeypatch.setattr(automatic, "_LABELS", 2.0)
    monkeypatch.setattr(automatic, "_SCORES", 2.0)


@pytest.mark.usefixtures("hardly_anything_changes")
def test_once_people_have_labelled_ten_tasks_the_others_follow_however_little_changes(
    tmp_path: Path, api: LabelStudioApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automatic, "_REST", 0.0)
    studio = Studio(tmp_path, api)
    with studio.backend:
        studio.predict()
        studio.label(*range(9))
        studio.tend()
        assert studio.countings() == []
        studio.label(9)
        studio.tend()
        assert len(studio.countings()) == 1


def certify(studio: Studio, tasks: int = 1) -> None:
    """Make the first labelled tasks blind ones, whose answers certify."""
    with studio.backend.ledger.write() as connection:
        for task in studio.tasks[:tasks]:
            [round_] = studio.backend.rounds(task, studio.project)
            blind = replace(round_, audit=True)
            blind_tasks.enter(connection, blind, round_.id)
            blind_tasks.record_answer(connection, blind, round_.id, {1: 1.0}, "Glad")


def recount_waiting(studio: Studio) -> dict[str, Any]:
    """The note that a recount waits for somebody to ask for it."""
    [alert] = [alert for alert in project_status(studio)["alerts"] if alert["code"] == "recount_waiting"]
    return dict(alert)


@pytest.mark.usefixtures("hardly_anything_changes")
def test_a_small_change_does_not_end_what_blind_labels_certify_and_waits_for_the_command(
    studio: Studio,
) -> None:
    certify(studio)
    studio.tend()
    assert studio.countings() == []
    assert "the 1 blind label so far then certify nothing any more" in recount_waiting(studio)["fix"]


def test_a_large_change_is_made_although_a_few_blind_labels_certify(studio: Studio) -> None:
    certify(studio)
    studio.tend()
    assert len(studio.countings()) == 1


def test_a_large_change_waits_for_the_command_if_it_would_void_many_blind_labels(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automatic, "_BLIND_WORK", LABELLED)
    certify(studio, LABELLED)
    studio.tend()
    assert studio.countings() == []
    assert f"the {LABELLED} blind labels so far then certify nothing" in recount_waiting(studio)["fix"]


def test_one_process_at_a_time_works_on_a_project(studio: Studio, tmp_path: Path) -> None:
    with Backend(tmp_path, script, policy=POLICY) as other:
        mine, theirs = studio.backend.runtime, other.runtime
        key = studio.project.key
        assert mine._thread.submit(mine.recounts._claims.acquire(key)).result(10)
        assert not theirs._thread.submit(theirs.recounts._claims.acquire(key)).result(10)


def test_a_training_leaves_a_delivery_that_is_under_way_alone(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, key = studio.backend.runtime, studio.project.key
    delivered: list[str] = []

    async def deliver(project: str, go_on: object) -> int:
        delivered.append(project)
        await runtime.recounts.deliver(project)
        return 0

    monkeypatch.setattr(runtime.recounts._delivery, "deliver", deliver)
    studio.tend()
    assert delivered == [key]
    studio.tend()  # the one that ended left nothing behind
    assert delivered == [key, key]


# -- what people are told


def project_status(studio: Studio) -> dict[str, Any]:
    [status] = studio.backend.client.get("/status?format=json").get_json()["projects"]
    return dict(status)


def test_status_says_how_many_labels_changed_when_and_why(studio: Studio) -> None:
    assert project_status(studio)["recounts"]["countings"] == 0
    studio.tend()
    told = project_status(studio)["recounts"]
    assert (told["countings"], told["labels"], told["scores"], told["pending"]) == (1, LEFT, 0, 0)
    assert (told["last_reason"], told["last_labels"], told["command"]) == ("automatic", LEFT, None)
    page = studio.backend.client.get("/status?format=html").text
    assert f"{LEFT} tasks\ngot another label" in page
    means = [f"{told[name]:.3f}" for name in ("score_before", "score_after")]
    assert f"the mean score went from {means[0]} to {means[1]}" in page


def test_a_label_that_people_confirm_after_a_recount_is_not_questionable(studio: Studio) -> None:
    studio.recount()
    shown = labels(studio.answers())[25]
    studio.label(25)
    [question] = project_status(studio)["questions"]
    assert shown == truth(25)
    assert studio.tasks[25] not in [label["task"] for label in question["questionable"]["listed"]]
    assert question["questionable"]["labels"] == LABELLED
    agreeing = [cell["count"] for cell in question["labels"]["confusion"] if cell["vote"] == cell["human"]]
    assert sum(agreeing) == 1


def test_people_are_compared_with_the_label_that_they_were_shown(studio: Studio) -> None:
    studio.recount()
    shown = dict(zip(studio.tasks, studio.answers(), strict=True))
    studio.label(25)
    with studio.backend.ledger.read() as connection:
        [question] = answered_questions(connection, studio.project.key)
    round_, answer = question.rounds[studio.tasks[25]], shown[studio.tasks[25]]
    assert (round_.label, round_.score) == (truth(25), pytest.approx(answer["score"]))


def test_status_names_the_command_that_a_server_without_a_key_waits_for(
    prepared: Prepared, tmp_path: Path, api: LabelStudioApi
) -> None:
    studio = resumed(prepared, tmp_path, api, key=False)
    with studio.backend:
        studio.tend()
        command = f"camvo predict --project {api.project['id']} --recount"
        status = project_status(studio)
        assert status["recounts"]["command"] == command
        [alert] = [alert for alert in status["alerts"] if alert["code"] == "recount_waiting"]
        assert alert["message"] == (
            f"Counted by what is known now, {LEFT} of {LEFT} labels would change, and scores by "
            f"{status['recounts']['would_move']:.2f} on average"
        )
        assert command in alert["fix"]
        studio.recount()
        assert project_status(studio)["recounts"]["command"] is None


def test_start_training_on_a_server_without_a_key_leaves_it_to_the_command(
    prepared: Prepared, tmp_path: Path, api: LabelStudioApi
) -> None:
    studio = resumed(prepared, tmp_path, api, key=False)
    with studio.backend:
        studio.backend.hook(start_training(studio.project))
        wait_until(lambda: not studio.backend.runtime._trainings, "end of the training")
        assert studio.countings() == []
        assert project_status(studio)["recounts"]["would_change"] == LEFT


def test_review_lists_the_labels_and_scores_of_the_latest_counting(studio: Studio) -> None:
    studio.recount()
    with studio.backend.ledger.read() as connection:
        [(control, epoch)] = ProjectRounds(connection, studio.project.key).latest_epochs().items()
        listed = CountedRounds(connection, studio.project.key, control, epoch).open()
    assert {studio.tasks.index(one.task): one.label for one in listed} == dict(
        zip(range(LABELLED, TASKS), NEW, strict=True)
    )


def test_an_unexpected_failure_ends_the_turn_and_nothing_else(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def breaks(project: str) -> None:
        raise RuntimeError("Note 3: sunny")

    logs.configure("info")
    monkeypatch.setattr(studio.backend.runtime.recounter, "count", breaks)
    studio.tend()
    said = capfd.readouterr().err
    assert "recount_failed" in said
    assert "sunny" not in said
    monkeypatch.undo()
    studio.tend()  # the claim was given back
    assert len(studio.countings()) == 1
