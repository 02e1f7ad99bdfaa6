"""The first rounds of a project ask every model; tasks beyond them wait for what these teach."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from label_studio_requests import task
from whole_backend import Backend

from backend.annotation.planner import Openings
from backend.testing import Reply
from camvo.policies.joint import FIRST
from camvo.policies.policy import Plan


def plan(opening: int) -> Any:
    """A plan that asks every model because so many first rounds are needed."""
    return SimpleNamespace(stages=SimpleNamespace(opening=opening))


def agreed(body: dict[str, Any]) -> Reply:
    return Reply.answers(body, lambda text: {"mood": "Glad"})


def test_an_opening_is_full_once_as_many_rounds_are_asked_about_as_are_needed() -> None:
    openings = Openings()
    with openings.asking("1", plan(2)):
        assert not openings.is_full("1", plan(2), 0)
        with openings.asking("1", plan(2)):
            assert openings.is_full("1", plan(2), 0)


def test_a_round_that_ended_while_a_task_was_planned_counts() -> None:
    openings = Openings()
    before = openings.ended["1"]
    with openings.asking("1", plan(1)):
        pass
    assert openings.is_full("1", plan(1), before)
    assert not openings.is_full("1", plan(1), openings.ended["1"])


def test_another_project_has_an_opening_of_its_own() -> None:
    openings = Openings()
    with openings.asking("1", plan(1)):
        assert not openings.is_full("2", plan(1), 0)


@pytest.mark.parametrize("other", [plan(0), SimpleNamespace(stages=None)])
def test_a_plan_that_is_no_first_one_is_never_held_back(other: Plan) -> None:
    openings = Openings()
    with openings.asking("1", plan(1)):
        assert not openings.is_full("1", other, 0)


def test_what_waits_goes_on_when_the_rounds_have_ended() -> None:
    async def wait() -> bool:
        openings = Openings()
        with openings.asking("1", plan(1)):
            waiting = asyncio.create_task(
                openings.wait("1", asyncio.get_running_loop().time() + openings.patience)
            )
            await asyncio.sleep(0)
            assert not waiting.done()
        return await waiting

    assert asyncio.run(wait())


def test_rounds_that_ended_while_a_task_was_planned_are_not_waited_for() -> None:
    async def wait() -> bool:
        openings = Openings()
        openings.patience = 0.001
        with openings.asking("1", plan(1)):
            pass
        return await openings.wait("1", asyncio.get_running_loop().time() + openings.patience)

    assert asyncio.run(wait())


def test_nobody_waits_longer_than_is_bearable() -> None:
    async def wait() -> bool:
        openings = Openings()
        openings.patience = 0.001
        with openings.asking("1", plan(1)):
            return await openings.wait("1", asyncio.get_running_loop().time() + openings.patience)

    assert not asyncio.run(wait())


@pytest.mark.parametrize("pack", [1, 5])
def test_of_many_tasks_at_once_only_the_first_rounds_ask_every_model(tmp_path: Path, pack: int) -> None:
    settings = {"policy": {"name": "joint"}, "student": False, "entries": {"pack": pack} if pack > 1 else {}}
    with Backend(tmp_path, agreed, **settings) as backend:
        backend.predict(*[task(number) for number in range(1, 61)])
        certain = [
            round_.plan["stages"]["propensity"] == 1.0
            for number in range(1, 61)
            for round_ in backend.rounds(number)
        ]
    assert sum(certain) == FIRST


def test_tasks_that_waited_for_the_first_rounds_have_the_prices_that_these_taught(tmp_path: Path) -> None:
    answered = threading.Event()

    def slowly(body: dict[str, Any]) -> Reply:
        return agreed(body).held_until(answered)

    settings = {"policy": {"name": "joint"}, "student": False, "entries": {"max_concurrency": FIRST}}
    with Backend(tmp_path, slowly, **settings) as backend:
        threading.Thread(target=lambda: backend.server.wait_for(3 * FIRST) and answered.set()).start()
        backend.predict(*[task(number) for number in range(1, 61)])
        rounds = [round_ for number in range(1, 61) for round_ in backend.rounds(number)]
    assert len(rounds) == 60
    assert not any(round_.bounded_usd for round_ in rounds)


def test_tasks_that_waited_for_the_first_rounds_are_planned_by_what_these_taught(tmp_path: Path) -> None:
    settings = {"policy": {"name": "joint"}, "student": False}
    with Backend(tmp_path, agreed, **settings) as backend:
        backend.predict(*[task(number) for number in range(1, 61)])
        plans = [round_.plan for number in range(1, 61) for round_ in backend.rounds(number)]
    known = [plan["joint"]["everyone"] for plan in plans if plan["stages"]["propensity"] < 1.0]
    # A fit knows at least half of the rounds, and these are counted whenever they have grown by a fifth.
    assert min(known) >= FIRST / (2 * 1.2)
