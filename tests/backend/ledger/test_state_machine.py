"""The ledger as a state machine: whatever happens in whatever order, with faults around every commit.

Two processes claim, buy, settle, record rounds and learn from people, on one ledger. Any transaction may
break before or after its commit. The process then either tries it again, as in an outage, or dies and is
replaced by a new one.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import migrated
import numpy as np
import pytest
from answer_users import ANSWER_USERS
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from label_studio_requests import (
    SENTIMENT,
    Annotation,
    Project,
    annotated,
    annotations_deleted,
    tasks_deleted,
)
from rewards import rewards
from sqlalchemy import Connection, event, func, select

from backend import settings as server_settings
from backend.annotation.annotator import _FinishedTask, _record_rounds
from backend.annotation.job import Job, JobQuestion, TaskPrompt
from backend.annotation.planner import Planned
from backend.annotation.replies import ModelReply, Replies
from backend.errors import LedgerError, ModelTimeoutError, TaskDeletedError, Usage
from backend.label_studio.payloads import parse_webhook
from backend.learning.actions import forget_next, parts, prepare_event
from backend.ledger import Ledger, money
from backend.ledger.answers import CallOutcome
from backend.ledger.claims import Contacts
from backend.ledger.database import tables
from backend.ledger.events import ProjectEvents
from backend.ledger.rounds import RoundKey
from backend.models.call_ledger import _LEASE, CallEstimate, CallLedger, ModelQuery
from backend.questions import parse_label_config
from backend.settings import BudgetSettings
from backend.settings.policies import PolicySettings, policy_of
from camvo.policies.policy import Observation
from camvo.state.contribution import Contribution
from camvo.state.state import State

PROJECT = Project().key
SETTINGS = server_settings.load(None)
CONFIG = parse_label_config(SENTIMENT)
ARMS = ("blue", "green", "red")
CEILING = 0.5

_T = TypeVar("_T")

TASKS = st.integers(1, 3)
KEYS = st.sampled_from(["a", "b"])
PROCESSES = st.integers(0, 1)
MOODS = st.sampled_from(["Glad", "Sad"])
FAULTS = st.sampled_from([None] * 5 + ["retry before", "retry after", "crash before", "crash after"])
"""Whether the transaction breaks before or after its commit, and what becomes of the process."""


class CrashError(BaseException):
    """The process ends."""


class Transactions:
    """Stands in for the writer of a process: it runs each function at once, and breaks as it is told."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self.fault = ledger, ""

    def now(self, function: Callable[[Connection], _T]) -> _T:
        while True:
            try:
                return self._once(function)
            except LedgerError as error:
                if not error.temporary:
                    raise

    async def run(self, function: Callable[[Connection], _T]) -> _T:
        return self.now(function)

    async def persist(self, function: Callable[[Connection], _T], **_: object) -> _T:
        return self.now(function)

    def _once(self, function: Callable[[Connection], _T]) -> _T:
        (then, _, when), self.fault = self.fault.partition(" "), ""
        broken = CrashError() if then == "crash" else LedgerError("the connection broke", temporary=True)
        with self._ledger.write() as connection:
            value = function(connection)
            if when == "before":
                raise broken
        if when == "after":
            raise broken
        return value


class Worker:
    """One process, with the calls that it has begun: key → (call, task)."""

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        self.ledger = Ledger(url, clock=clock)
        event.listen(self.ledger._engine, "connect", _hurry)
        self.transactions = Transactions(self.ledger)
        self.calls = CallLedger(self.transactions, clock)  # type: ignore[arg-type]
        self.running: dict[str, tuple[int, int]] = {}
        self.copy, self.sequence = State(2), 0


def _hurry(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA synchronous=OFF")  # processes crash here, the machine does not


@cache
def _decided(votes: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a finished task on which three models voted."""
    question = CONFIG.questions[0].about({"text": "A long day."})
    policy = policy_of(PolicySettings(name="majority"))
    context = np.array([1.0, 0.5])
    aggregation = question.config.control.aggregation
    observation = Observation(State(2), context, question.options, aggregation)
    plan = policy.plan({question.name: observation}, dict.fromkeys(ARMS, 0.001))
    given = {arm: {question.name: label} for arm, label in zip(ARMS, votes, strict=True)}
    return {
        "planned": Planned(policy, plan),
        "prompt": TaskPrompt([question], (), {}),
        "replies": Replies({arm: ModelReply(cast, 0.001) for arm, cast in given.items()}),
        "decisions": policy.decide(plan, given),
        "scores": {},
        "studied": {},
    }


class LedgerMachine(RuleBasedStateMachine):
    """The ledger, and beside it what must be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="camvo-ledger-")
        self.url = migrated.sqlite(Path(self.folder.name) / "ledger.sqlite")
        self.time = 1_000_000.0
        self.workers = [self._worker(), self._worker()]
        self.reader = self._worker()
        self.holders: dict[str, tuple[str, float]] = {}
        """Key → the owner of its claim, and the end of the claim."""
        self.stored: dict[str, str] = {}
        self.users: dict[str, set[int]] = {"a": set(), "b": set()}
        self.rounds: dict[int, tuple[str, ...]] = {}
        self.human: dict[int, str] = {}
        self.withdrawn: set[int] = set()
        self.deleted: set[int] = set()
        self.to_forget: set[int] = set()
        self.reserved = self.bought = 0
        """How many calls money was reserved for, and how many of them ended."""

    def teardown(self) -> None:
        for worker in (*self.workers, self.reader):
            worker.ledger.close()
        self.folder.cleanup()

    def _worker(self) -> Worker:
        return Worker(self.url, lambda: self.time)

    def _do(self, process: int, fault: str | None, step: Callable[[Worker], _T]) -> _T | None:
        """Let a process take a step; ``None`` if it died in it."""
        worker = self.workers[process]
        worker.transactions.fault = fault or ""
        try:
            return step(worker)
        except CrashError:
            worker.ledger.close()
            self.workers[process] = self._worker()
            return None

    # -- buying

    @rule(process=PROCESSES, key=KEYS, task=TASKS, fault=FAULTS)
    def claim(self, process: int, key: str, task: int, fault: str | None) -> None:
        owner = self.workers[process].calls.owner
        if key in self.workers[process].running:
            return
        query = ModelQuery(PROJECT, task, key, [], {}, BudgetSettings())
        holder, until = self.holders.get(key, (owner, 0.0))
        taken = holder != owner and until > self.time

        def step(worker: Worker) -> Any:
            estimate = CallEstimate(CEILING, 10)
            return asyncio.run(worker.calls.claim(key, query, estimate, time.monotonic(), 30.0))

        if key not in self.stored and taken:
            # In this one transaction nothing is written, so it does not matter how it ends.
            with pytest.raises(ModelTimeoutError):
                self._do(process, None, step)
            return
        result = self._do(process, fault, step)
        if fault == "crash before":
            return
        if key in self.stored:
            if task not in self.deleted:
                self.users[key].add(task)
            assert result is None or (result.answer.content, result.call) == (self.stored[key], None)
            return
        self.reserved += 1
        self.holders[key] = (owner, self.time + _LEASE)
        if result is not None:
            assert result.call is not None
            self.workers[process].running[key] = (result.call, task)

    @rule(process=PROCESSES, key=KEYS, answered=st.booleans(), usd=st.integers(0, 9), fault=FAULTS)
    def settle(self, process: int, key: str, answered: bool, usd: int, fault: str | None) -> None:
        worker = self.workers[process]
        if key not in worker.running:
            return
        call, task = worker.running.pop(key)
        owner = worker.calls.owner
        self.bought += 1
        content = f"answer {self.bought}" if answered else None
        outcome = CallOutcome(content, Usage(10, 2, usd / 10), None if answered else "model_failed", 1.0)
        query = ModelQuery(PROJECT, task, key, [], {}, BudgetSettings())
        self._do(process, fault, lambda w: asyncio.run(w.calls.settle(key, query, call, outcome)))
        if fault == "crash before":
            return
        user = task if task not in self.deleted else min(self.users[key], default=None)
        if content is not None and user is not None:
            self.stored.setdefault(key, content)
            self.users[key].add(user)
        if self.holders.get(key, ("", 0.0))[0] == owner:
            del self.holders[key]

    @rule(process=PROCESSES, key=KEYS, task=TASKS, fault=FAULTS)
    def share(self, process: int, key: str, task: int, fault: str | None) -> None:
        """Another task uses an answer that this process is buying."""
        if key not in self.workers[process].running:
            return
        query = ModelQuery(PROJECT, task, key, [], {}, BudgetSettings())
        self._do(process, fault, lambda w: asyncio.run(w.calls.record_use(key, query)))
        if fault != "crash before" and task not in self.deleted:
            self.users[key].add(task)

    @rule(process=PROCESSES)
    def renew(self, process: int) -> None:
        worker = self.workers[process]
        held = {key: (call, 60.0) for key, (call, _) in sorted(worker.running.items())}
        worker.transactions.now(lambda c: worker.calls._renew(held, c))
        for key in worker.running:
            if self.holders.get(key, ("", 0.0))[0] == worker.calls.owner:
                self.holders[key] = (worker.calls.owner, self.time + _LEASE)

    @rule(process=PROCESSES, fault=FAULTS)
    def expire(self, process: int, fault: str | None) -> None:
        self._do(process, fault, lambda w: w.transactions.now(money.expire))

    @rule(seconds=st.sampled_from([1.0, 10.0, 16.0, 70.0, 90_000.0]))
    def wait(self, seconds: float) -> None:
        self.time += seconds
        for worker in self.workers:
            worker.calls._contacts = Contacts(_LEASE)  # they have reached the ledger meanwhile

    # -- learning

    @rule(process=PROCESSES, task=TASKS, votes=st.tuples(MOODS, MOODS, MOODS), fault=FAULTS)
    def record(self, process: int, task: int, votes: tuple[str, ...], fault: str | None) -> None:
        job = Job(PROJECT, task, {"text": "A long day."}, CONFIG, SETTINGS)
        question = CONFIG.questions[0].about(job.data)
        key = RoundKey(PROJECT, task, question.name, "q", "e")
        questions = [JobQuestion(question.config, question.content, question.options, key=key)]

        def step(worker: Worker) -> object:
            terms = {"planned_at": self.time, "now": self.time, "blind": False}
            finished = _FinishedTask(job, questions, **terms, **_decided(votes))
            return worker.transactions.now(lambda c: _record_rounds(c, [finished]))

        if task in self.deleted:
            with pytest.raises(TaskDeletedError):
                self._do(process, None, step)
            return
        self._do(process, fault, step)
        if fault != "crash before":
            self.rounds.setdefault(task, votes)

    @rule(process=PROCESSES, task=TASKS, mood=MOODS, fault=FAULTS)
    def annotate(self, process: int, task: int, mood: str, fault: str | None) -> None:
        self._webhook(process, annotated(Annotation(number=task, task=task, mood=mood)), fault)
        if fault != "crash before" and task not in self.deleted | self.withdrawn:
            self.human[task] = mood

    @rule(process=PROCESSES, task=TASKS, fault=FAULTS)
    def withdraw(self, process: int, task: int, fault: str | None) -> None:
        self._webhook(process, annotations_deleted(task), fault)
        if fault != "crash before":
            self.withdrawn.add(task)
            self.human.pop(task, None)

    @rule(process=PROCESSES, task=TASKS, many=st.booleans(), fault=FAULTS)
    def delete(self, process: int, task: int, many: bool, fault: str | None) -> None:
        others = range(1000, 1030) if many else []
        self._webhook(process, tasks_deleted(task, *others), fault)
        if fault == "crash before":
            return
        if many and task not in self.deleted:
            self.to_forget.add(task)
        elif not many:
            self._forgotten([task])
        self.deleted.add(task)

    @rule(process=PROCESSES, fault=FAULTS)
    def forget(self, process: int, fault: str | None) -> None:
        self._do(process, fault, lambda w: w.transactions.now(lambda c: forget_next(c, SETTINGS, self.time)))
        if fault != "crash before":
            self._forgotten(self.to_forget)

    def _webhook(self, process: int, body: dict[str, Any], fault: str | None) -> None:
        [part] = parts(parse_webhook(body))
        apply = prepare_event(part, SETTINGS, lambda: self.time)
        self._do(process, fault, lambda w: w.transactions.now(apply))

    def _forgotten(self, tasks: Any) -> None:
        gone = set(tasks)
        for task in gone:
            self.human.pop(task, None)
        for key, users in [*self.users.items()]:
            if users & gone and not users - gone:
                self.stored.pop(key, None)
            self.users[key] = users - gone
        self.to_forget -= gone

    # -- what must hold after every step

    @invariant()
    def every_answer_is_there_and_none_of_a_forgotten_task(self) -> None:
        with self.reader.ledger.read() as connection:
            stored = dict(connection.execute(select(tables.answers.c.key, tables.answers.c.content)).all())  # type: ignore[arg-type]
            links = connection.execute(select(ANSWER_USERS)).all()
        assert stored == self.stored
        assert {(row.key, row.task) for row in links} == {
            (key, task) for key, tasks in self.users.items() for task in tasks
        }

    @invariant()
    def no_call_is_reserved_twice(self) -> None:
        with self.reader.ledger.read() as connection:
            assert connection.scalar(select(func.count()).select_from(tables.calls)) == self.reserved

    @invariant()
    def the_accounts_are_the_sums_of_the_calls(self) -> None:
        calls, accounts = tables.calls.c, tables.accounts.c
        spent = func.sum(func.coalesce(calls.cost, 0))
        reserved = func.sum(calls.reserved).filter(calls.state == "reserved")
        with self.reader.ledger.read() as connection:
            by_day = connection.execute(select(calls.day, spent, reserved).group_by(calls.day)).all()
            booked = connection.execute(select(accounts.scope, accounts.spent, accounts.reserved)).all()
        expected = {row[0]: (row[1], row[2] or 0) for row in by_day}
        if expected:
            expected["total"] = tuple(map(sum, zip(*expected.values(), strict=True)))  # type: ignore[assignment]
        assert {row[0]: (row[1], row[2]) for row in booked} == expected

    @invariant()
    def every_round_is_there_and_none_of_a_forgotten_task(self) -> None:
        with self.reader.ledger.read() as connection:
            rows = connection.execute(select(tables.rounds.c.task, tables.rounds.c.human)).all()
        assert {row.task: row.human for row in rows} == {
            task: self.human.get(task)
            for task in self.rounds
            if task not in self.deleted or task in self.to_forget
        }

    @invariant()
    def the_state_is_the_sum_of_what_rounds_and_people_taught(self) -> None:
        """It is counted from the model beside the ledger, and added up by a process from where it was."""
        copy = self.reader
        with copy.ledger.read() as connection:
            recorded = ProjectEvents(connection, PROJECT).after(0)
        assert [each.sequence for each in recorded] == list(range(1, len(recorded) + 1))
        expected = dict.fromkeys(ARMS, (len(self.rounds), 0.0)) if self.rounds else {}
        for task, votes in self.rounds.items():
            label = self.human.get(task) or max(("Glad", "Sad"), key=votes.count)
            for arm, vote in zip(ARMS, votes, strict=True):
                expected[arm] = (len(self.rounds), expected[arm][1] + (vote == label))
        assert rewards(each.contribution for each in recorded) == expected
        for each in recorded[copy.sequence :]:
            copy.copy.add(Contribution.unpack(each.contribution))
        copy.sequence = len(recorded)
        assert {arm: (copy.copy[arm].rewards, copy.copy[arm].reward_sum) for arm in copy.copy} == expected

    @invariant()
    def nothing_that_people_said_of_a_forgotten_task_is_left(self) -> None:
        table = tables.human_annotations.c
        with self.reader.ledger.read() as connection:
            rows = connection.execute(select(table.task, table.labels).where(~table.deleted)).all()
        assert {row.task: row.labels["mood"] for row in rows} == self.human


def test_the_ledger_keeps_its_promises_whatever_breaks() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        LedgerMachine,
        settings=settings(
            max_examples=20,
            stateful_step_count=30,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
