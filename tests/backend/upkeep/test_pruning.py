from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import annotations_deleted
from light_workers import predict
from old_ledger import AGE, DAY, LABELLED, NEW, OLD, PROJECT, at, label, purchases
from same_state import assert_same_state
from sqlalchemy import Table, func, select, update

from backend import upkeep
from backend.errors import LedgerError
from backend.label_studio.payloads import parse_webhook
from backend.learning import states
from backend.learning.states import States
from backend.ledger import Ledger, LedgerAccess, deletions, projects
from backend.ledger.database import tables
from backend.ledger.events import ProjectEvents, StateKey, StateRecords
from backend.ledger.reports import ProjectSums
from backend.ledger.rounds import ProjectRounds
from backend.upkeep import _continued, _nothing
from camvo.state.contribution import Contribution
from camvo.state.state import State


def pruned(ledger: Ledger, age: float = AGE) -> upkeep.Pruned:
    return upkeep.prune(ledger, PROJECT, age, lambda_l=1.0, advance=_nothing)


def count(ledger: Ledger, table: Table, *where: Any) -> int:
    with ledger.read() as connection:
        return connection.scalar(select(func.count()).select_from(table).where(*where)) or 0


def name_of(ledger: Ledger) -> StateKey:
    with ledger.read() as connection:
        [key] = {
            (round_.key.control, round_.key.epoch)
            for round_ in ProjectRounds(connection, PROJECT).of_task(22)
        }
    return StateKey(PROJECT, *key)


def summed(ledger: Ledger) -> State:
    """The sum of the events from zero, without the code under test."""
    state = State(8)
    with ledger.read() as connection:
        for event in ProjectEvents(connection, PROJECT).after(0):
            state.add(Contribution.unpack(event.contribution))
    return state


def with_base(ledger: Ledger, like: State) -> State:
    name = name_of(ledger)
    with ledger.read() as connection:
        base = StateRecords(connection, name).base()
        return _continued(connection, name, base, like, 1 << 40)


def test_what_was_learnt_stays(ledger: Ledger) -> None:
    before = summed(ledger)
    assert before.rounds == len(OLD) + len(NEW)
    assert pruned(ledger).events >= len(OLD)
    assert_same_state(with_base(ledger, before), before)


def test_old_events_are_gone_and_new_ones_are_there(ledger: Ledger) -> None:
    done = pruned(ledger)
    with ledger.read() as connection:
        left = ProjectEvents(connection, PROJECT).after(0)
    numbers = [event.sequence for event in left]
    assert numbers == [done.through + 1 + number for number in range(len(NEW) + 1)]


def test_a_server_goes_on_with_the_same_state(ledger: Ledger, folder: Path) -> None:
    before = summed(ledger)
    pruned(ledger)
    ledger.close()
    with at(1, folder) as runtime:
        key = StateKey(PROJECT, *_names(name_of(runtime.ledger)))
        state = runtime._thread.submit(
            runtime._process.states.current(key, dimension=8, lambda_l=1.0)
        ).result()
        assert_same_state(state, before)


def test_a_server_with_another_ridge_or_no_linear_models_reads_the_base_too(ledger: Ledger) -> None:
    narrow = State(8, 4.0)
    with ledger.read() as connection:
        for event in ProjectEvents(connection, PROJECT).after(0):
            narrow.add(Contribution.unpack(event.contribution))
    pruned(ledger)
    assert_same_state(with_base(ledger, narrow), narrow)
    assert not with_base(ledger, State(8, linear=False)).linear


def test_a_process_that_was_idle_while_its_events_were_folded_begins_with_the_base(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "_SNAPSHOT_EVERY", 10**9)
    before, name, clock = summed(ledger), name_of(ledger), [0.0]
    monkeypatch.setattr(states, "monotonic", lambda: clock[0])

    async def run() -> State:
        with LedgerAccess.opened(ledger) as access:
            process = States(access)
            key = StateKey(PROJECT, *_names(name))
            await process.current(key, dimension=8, lambda_l=1.0)
            copy = process._copies[key]
            copy.state, copy.sequence = State(8), 3  # it has read three events only
            pruned(ledger)
            clock[0] += 2 * states._IDLE
            return await process.current(key, dimension=8, lambda_l=1.0)

    assert_same_state(asyncio.run(run()), before)


def test_old_contexts_and_answers_are_deleted_and_new_ones_are_kept(ledger: Ledger) -> None:
    done = pruned(ledger)
    assert done.rounds == len(OLD)
    assert count(ledger, tables.contexts) == len(NEW)
    assert count(ledger, tables.answers) == done_answers(ledger) == 3 * len(NEW)
    assert done.answers == 3 * len(OLD)


def done_answers(ledger: Ledger) -> int:
    return count(ledger, tables.answers, tables.answers.c.task.in_(NEW))


def test_money_is_left_alone(ledger: Ledger) -> None:
    before = count(ledger, tables.calls)
    pruned(ledger)
    assert count(ledger, tables.calls) == before == 3 * (len(OLD) + len(NEW))


def test_a_pruned_task_is_predicted_as_before_and_nothing_is_bought(ledger: Ledger, folder: Path) -> None:
    with ledger.read() as connection:
        labels = {number: ProjectRounds(connection, PROJECT).of_task(number)[0].label for number in OLD}
    pruned(ledger)
    ledger.close()
    sold: list[str] = []
    with at(1, folder, purchases(sold)) as runtime:
        assert predict(runtime, OLD) == labels
    assert sold == []


def test_reports_stay_as_they_were(ledger: Ledger) -> None:
    def report() -> list[Any]:
        with ledger.read() as connection:
            return [
                ProjectSums(connection, PROJECT).votes(),
                ProjectSums(connection, PROJECT).calls(),
                ProjectSums(connection, PROJECT).scores(),
            ]

    before = report()
    pruned(ledger)
    assert report() == before


def test_feedback_on_a_pruned_round_is_counted_and_refused(ledger: Ledger, folder: Path) -> None:
    before = summed(ledger)
    pruned(ledger)
    ledger.close()
    with at(1, folder) as runtime:
        label(runtime, 1, "Sad")
        label(runtime, 1, "Sad")
        with runtime.ledger.read() as connection:
            project = projects.get(connection, PROJECT)
            [round_] = ProjectRounds(connection, PROJECT).of_task(1)
        assert project is not None
        assert (project.feedback_refused, round_.human, round_.taught_by) == (1, "Sad", "vote")
        assert_same_state(with_base(runtime.ledger, before), before)


@pytest.mark.parametrize("other", [None, "changed"])
def test_a_pruned_round_agrees_with_the_human_label_that_is_left(
    ledger: Ledger, folder: Path, other: str | None
) -> None:
    task = min(LABELLED.keys() & set(OLD))
    pruned(ledger)
    ledger.close()
    with at(1, folder) as runtime:
        with runtime.ledger.read() as connection:
            [before] = ProjectRounds(connection, PROJECT).of_task(task)
        was_right = before.human == before.label
        mood = next(each for each in ("Sad", "Glad", "Calm") if (each == before.label) != was_right)
        if other is None:
            runtime.learn(parse_webhook(annotations_deleted(1000 + task)))
        else:
            label(runtime, task, mood)
        with runtime.ledger.read() as connection:
            [after] = ProjectRounds(connection, PROJECT).of_task(task)
    assert before.confirmed is not None
    assert after.confirmed == (None if other is None else float(mood == before.label))


def test_feedback_on_a_new_round_is_learnt_after_a_prune(ledger: Ledger, folder: Path) -> None:
    pruned(ledger)
    ledger.close()
    with at(1, folder) as runtime:
        label(runtime, 23, "Calm")
        with runtime.ledger.read() as connection:
            [round_] = ProjectRounds(connection, PROJECT).of_task(23)
            assert (round_.taught, round_.taught_by) == ("Calm", "human")
            assert not list(upkeep.problems(connection, _nothing))


def test_an_old_round_that_people_labelled_lately_is_kept_whole(ledger: Ledger, folder: Path) -> None:
    ledger.close()
    with at(0, folder) as runtime:
        label(runtime, 7, "Calm")
        before = summed(runtime.ledger)
        assert pruned(runtime.ledger).rounds == len(OLD) - 1
        label(runtime, 7, "Sad")
        with runtime.ledger.read() as connection:
            [round_] = ProjectRounds(connection, PROJECT).of_task(7)
            assert (round_.taught, round_.pruned) == ("Sad", False)
            assert not list(upkeep.problems(connection, _nothing))
    assert before.rounds == len(OLD) + len(NEW)


def test_a_blind_round_that_waits_for_an_answer_is_kept_whole(ledger: Ledger) -> None:
    with ledger.write() as connection:
        connection.execute(update(tables.rounds).where(tables.rounds.c.task.in_([3, 4])).values(audit=True))
        for task, reward in ((3, None), (4, 1.0)):
            [round_] = ProjectRounds(connection, PROJECT).of_task(task)
            connection.execute(
                tables.blind_tasks.insert().values(
                    project=PROJECT,
                    control=round_.key.control,
                    epoch=round_.key.epoch,
                    task=task,
                    round_id=round_.id,
                    cohort=1,
                    place=task,
                    score=0.5,
                    counting="",
                    verdicts={},
                    answers="",
                    reward=reward,
                )
            )
    assert pruned(ledger).rounds == len(OLD) - 1
    with ledger.read() as connection:
        assert not ProjectRounds(connection, PROJECT).of_task(3)[0].pruned


def test_a_second_prune_does_the_rest_of_an_interrupted_one(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = summed(ledger)

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for name in ("prune", "forget_texts"):
        with monkeypatch.context() as patched:
            patched.setattr(deletions.Prunable, name, fails)
            with pytest.raises(KeyboardInterrupt):
                pruned(ledger)
    assert pruned(ledger).rounds == 0
    assert count(ledger, tables.answers) == 3 * len(NEW)
    assert_same_state(with_base(ledger, before), before)


def test_a_second_base_continues_the_first(ledger: Ledger) -> None:
    before = summed(ledger)
    pruned(ledger)
    pruned(ledger, age=-DAY)
    assert count(ledger, tables.events) == 0
    assert_same_state(with_base(ledger, before), before)
    with ledger.read() as connection:
        assert not list(upkeep.problems(connection, _nothing))


def test_nothing_is_deleted_if_a_server_has_summed_something_else(ledger: Ledger) -> None:
    name, wrong = name_of(ledger), summed(ledger)
    wrong.rounds += 1
    with ledger.write() as connection:
        row = {"project": PROJECT, "control": name.control, "epoch": name.epoch, "sequence": 1 << 20}
        connection.execute(tables.snapshots.insert().values(**row, state=wrong.snapshot(), created_at=0.0))
    left = count(ledger, tables.events)
    with pytest.raises(LedgerError, match="differs from what a server has summed: rounds"):
        pruned(ledger)
    assert (count(ledger, tables.events), count(ledger, tables.bases)) == (left, 0)


def test_a_plan_changes_nothing_and_says_what_a_prune_would_do(ledger: Ledger) -> None:
    planned = upkeep.planned(ledger, PROJECT, AGE)
    assert (planned.events, planned.rounds) == (len(OLD) + _revisions(ledger), len(OLD))
    done = pruned(ledger)
    assert (done.events, done.rounds, done.through) == (planned.events, planned.rounds, planned.through)


def test_contexts_of_deleted_tasks_go_once_their_events_are_folded(ledger: Ledger) -> None:
    with ledger.write() as connection:
        ProjectRounds(connection, PROJECT).forget([1, 21])
    assert upkeep.forget_orphans(ledger) == 0
    pruned(ledger)
    assert upkeep.forget_orphans(ledger) == 1


def _revisions(ledger: Ledger) -> int:
    old_labels = len(LABELLED.keys() & set(OLD))
    return min(old_labels, count(ledger, tables.events, tables.events.c.kind == "revision"))


def _names(name: StateKey) -> tuple[str, str]:
    return name.control, name.epoch


def batch_line(key: str, task: int, state: str, created_at: float, job: str = "old") -> dict[str, Any]:
    """A line of a batch; only what a prune reads says something."""
    zeros = dict.fromkeys(("ceiling_usd", "counted_tokens", "most_input", "size", "tries"), 0)
    return {
        "key": key,
        "project": PROJECT,
        "task": task,
        "model": "red",
        "state": state,
        "job": job,
        "questions": ["mood"],
        "created_at": created_at,
        **zeros,
    }


def with_batches(ledger: Ledger) -> None:
    """A job of long ago that has ended, one with an open line, and one of today; each with a task."""
    now = time.time()
    jobs = [("old", now - 2 * AGE), ("open", now - 2 * AGE), ("new", now)]
    with ledger.write() as connection:
        for number, (name, at) in enumerate(jobs, start=1):
            state = "out" if name == "open" else "answered"
            connection.execute(tables.batch_lines.insert(), batch_line(name, number, state, at, name))
            job = {
                "id": name,
                "project": PROJECT,
                "model": "red",
                "state": "closed",
                "owner": "",
                "files": [],
            }
            times = {"leased_until": at, "created_at": at, "ended_at": None if name == "open" else at}
            counts = {"lines": 1, "tokens": 0, "cancelled": False}
            connection.execute(tables.batch_jobs.insert(), job | times | counts)
            task = {"project": PROJECT, "task": number, "questions": "", "drawn": {}, "plan": {}, "asked": []}
            connection.execute(tables.batch_tasks.insert(), task | {"created_at": at})


@pytest.mark.parametrize(
    ("column", "gone"),
    [
        (tables.batch_lines.c.key, "old"),
        (tables.batch_jobs.c.id, "old"),
        (tables.batch_tasks.c.task, 1),
    ],
)
def test_batches_that_ended_long_ago_are_deleted(ledger: Ledger, column: Any, gone: object) -> None:
    with_batches(ledger)
    with ledger.read() as connection:
        before = connection.scalars(select(column)).all()
    assert pruned(ledger).lines == 1
    with ledger.read() as connection:
        left = connection.scalars(select(column)).all()
    assert set(before) - set(left) == {gone}


def further_vote(ledger: Ledger, created_at: float) -> None:
    vote = {"round_id": 1, "model": "late", "project": PROJECT, "task": 1, "vote": "Sad", "confidence": 0.9}
    rest = {"cost_usd": 0.0, "purpose": "doubt", "created_at": created_at, "taught": False}
    with ledger.write() as connection:
        connection.execute(tables.further_votes.insert(), vote | rest)


def test_a_further_vote_on_a_pruned_round_stays_without_its_confidence(ledger: Ledger) -> None:
    further_vote(ledger, time.time() - 2 * AGE)
    pruned(ledger)
    with ledger.read() as connection:
        vote = connection.execute(select(tables.further_votes)).one()
    assert (vote.vote, vote.confidence) == ("Sad", None)


def test_a_round_with_a_young_further_vote_is_not_pruned(ledger: Ledger) -> None:
    further_vote(ledger, time.time())
    pruned(ledger)
    with ledger.read() as connection:
        assert not connection.scalar(select(tables.rounds.c.pruned).where(tables.rounds.c.id == 1))
