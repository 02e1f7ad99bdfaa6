"""A new project starts from what other projects of the ledger taught about the models, unless it may not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from backend.annotation.planner import _question_kind
from backend.learning import states
from backend.learning.states import EarlierProjects, States
from backend.ledger import Ledger, LedgerAccess
from backend.ledger.events import StateKey
from backend.ledger.human_annotations import Withdrawal
from backend.ledger.learning_data import ProjectLessons
from camvo.policies.policy import JointFitData
from camvo.state.contribution import Contribution, LatestRounds
from camvo.state.earlier import Lesson
from camvo.state.exploration import PatternCounts, VotePattern
from camvo.state.state import State

KIND, D = _question_kind("Choices", 4), 2
NEW = StateKey("9.1", "mood", "epoch")
SKILLS = (("blue", 0.5), ("red", 1.5))


class Process:
    """One process's states, and its share in what projects teach one another."""

    def __init__(self, access: LedgerAccess) -> None:
        self._access, self.now = access, 0.0
        self.restart()

    def restart(self) -> None:
        self._states, self.earlier = States(self._access), EarlierProjects(self._access)

    async def current(self) -> State:
        return await self._states.current(NEW, dimension=D, lambda_l=1.0)

    def started(self, kind: str = KIND, *, wanted: bool = True) -> list[str]:
        """The projects that the new one starts from once its state is settled."""

        async def start() -> State:
            await self.earlier.settle(NEW, kind, await self.current(), wanted=wanted)
            return await self.current()

        return [lesson.project for lesson in asyncio.run(start()).earlier.lessons]


@pytest.fixture
def process(sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    with LedgerAccess.opened(sqlite_ledger) as access:
        process = Process(access)
        monkeypatch.setattr(states, "monotonic", lambda: process.now)
        yield process


def store(ledger: Ledger, project: str, kind: str = KIND, rounds: float = 200.0, control: str = "q") -> None:
    with ledger.write() as connection:
        ProjectLessons(connection).store(control, "epoch", kind, Lesson(project, SKILLS, rounds), now=rounds)


def forget(ledger: Ledger, project: str, **only: int) -> None:
    with ledger.write() as connection:
        Withdrawal(project=project, **only).store(connection)


@pytest.mark.parametrize(
    ("labels", "kind"), [(2, "Choices:2"), (3, "Choices:3-6"), (6, "Choices:3-6"), (22, "Choices:7+")]
)
def test_kinds_of_questions(labels: int, kind: str) -> None:
    assert _question_kind("Choices", labels) == kind


def test_a_new_project_starts_from_the_others_that_asked_such_a_question(
    process: Process, sqlite_ledger: Ledger
) -> None:
    store(sqlite_ledger, "1.1")
    store(sqlite_ledger, "2.1", kind=_question_kind("Choices", 2))
    store(sqlite_ledger, NEW.project, rounds=100.0)
    assert process.started() == ["1.1"]


def test_a_project_teaches_once_however_many_questions_it_asked(
    process: Process, sqlite_ledger: Ledger
) -> None:
    store(sqlite_ledger, "1.1")
    store(sqlite_ledger, "1.1", control="r", rounds=90.0)
    assert process.started() == ["1.1"]


def test_lessons_that_come_later_change_nothing(process: Process, sqlite_ledger: Ledger) -> None:
    store(sqlite_ledger, "1.1")
    process.started()
    store(sqlite_ledger, "2.1")
    process.now += 1000.0
    assert process.started() == ["1.1"]
    process.restart()
    assert process.started() == ["1.1"]


def test_a_state_with_rounds_takes_no_lessons(process: Process, sqlite_ledger: Ledger) -> None:
    state = State(D)
    state.add(Contribution(np.zeros(D), ()))
    store(sqlite_ledger, "1.1")
    assert not asyncio.run(process.earlier.settle(NEW, KIND, state, wanted=True))


def test_switched_off_a_project_starts_from_nothing(process: Process, sqlite_ledger: Ledger) -> None:
    store(sqlite_ledger, "1.1")
    assert process.started(wanted=False) == []


def test_switched_off_later_the_lessons_are_taken_back(process: Process, sqlite_ledger: Ledger) -> None:
    store(sqlite_ledger, "1.1")
    assert process.started() == ["1.1"]
    process.restart()
    assert process.started(wanted=False) == []


def test_a_forgotten_project_teaches_no_new_one(process: Process, sqlite_ledger: Ledger) -> None:
    store(sqlite_ledger, "1.1")
    forget(sqlite_ledger, "1.1")
    assert process.started() == []


def test_forgetting_one_of_its_tasks_does_not_forget_a_project(
    process: Process, sqlite_ledger: Ledger
) -> None:
    store(sqlite_ledger, "1.1")
    forget(sqlite_ledger, "1.1", task=4)
    assert process.started() == ["1.1"]


def test_what_a_forgotten_project_taught_is_taken_back_within_a_minute(
    process: Process, sqlite_ledger: Ledger
) -> None:
    store(sqlite_ledger, "1.1")
    store(sqlite_ledger, "2.1")
    assert sorted(process.started()) == ["1.1", "2.1"]
    forget(sqlite_ledger, "1.1")
    process.now += 61.0
    assert process.started() == ["2.1"]


def data(rounds: int) -> JointFitData:
    """Rounds about which two arms of three agree, and the third every other time."""
    arms = ("blue", "green", "red")
    patterns = {
        VotePattern.of(arms, dict(zip(arms, cast, strict=True)), everyone=True): rounds // 2
        for cast in (("x", "x", "x"), ("x", "y", "x"))
    }
    prices = tuple([(arm, 0.0) for arm in arms])
    return JointFitData(PatternCounts(patterns, rounds), LatestRounds(), ("w", "x", "y", "z"), prices)


def taught(process: Process, ledger: Ledger, rounds: int) -> list[tuple[str, float]]:
    """(project, its number of rounds) of the lessons of the kind."""

    async def teach() -> None:
        process.earlier.teach(StateKey("1.1", "q", "epoch"), KIND, data(rounds))
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)

    asyncio.run(teach())
    with ledger.read() as connection:
        lessons = ProjectLessons(connection).of_kind(KIND, NEW.project).lessons
    return [(lesson.project, lesson.rounds) for lesson in lessons]


def test_what_votes_say_of_the_models_is_kept_for_the_next_projects(
    process: Process, sqlite_ledger: Ledger
) -> None:
    assert taught(process, sqlite_ledger, 60) == [("1.1", 60.0)]
    assert taught(process, sqlite_ledger, 90) == [("1.1", 90.0)]


def test_few_more_votes_teach_nothing_new(process: Process, sqlite_ledger: Ledger) -> None:
    assert taught(process, sqlite_ledger, 60) == [("1.1", 60.0)]
    assert taught(process, sqlite_ledger, 70) == [("1.1", 60.0)]


def test_few_votes_teach_the_next_projects_nothing(process: Process, sqlite_ledger: Ledger) -> None:
    assert taught(process, sqlite_ledger, 20) == []
