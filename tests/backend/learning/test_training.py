"""Trainings of one project never overlap, and no requested training is lost."""

from __future__ import annotations

import asyncio

import pytest

from backend.label_studio.payloads import WebhookEvent
from backend.learning.actions import Training
from backend.telemetry import logs


def event(project: str = "1.1", label_config: str = "") -> WebhookEvent:
    return WebhookEvent("START_TRAINING", project, label_config)


def test_events_during_a_run_are_served_by_one_more_run_with_the_newest_event() -> None:
    configs: list[str] = []

    async def scenario() -> None:
        started, go_on = asyncio.Event(), asyncio.Event()

        async def step(wanted: WebhookEvent) -> None:
            configs.append(wanted.label_config)
            started.set()
            await go_on.wait()

        training = Training([step])
        first = asyncio.create_task(training.train(event(label_config="first")))
        await started.wait()
        for config in ("second", "third"):
            await training.train(event(label_config=config))
        go_on.set()
        await first

    asyncio.run(scenario())
    assert configs == ["first", "third"]


def test_projects_do_not_wait_for_each_other() -> None:
    async def scenario() -> None:
        both = asyncio.Barrier(2)

        async def step(wanted: WebhookEvent) -> None:
            await asyncio.wait_for(both.wait(), 10)

        training = Training([step])
        await asyncio.gather(training.train(event("1.1")), training.train(event("2.1")))

    asyncio.run(scenario())


def test_a_failing_step_is_logged_by_its_error_type_and_the_next_step_runs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    logs.configure("info")
    projects: list[str] = []

    async def breaks(wanted: WebhookEvent) -> None:
        raise KeyError("the text of a task")

    async def works(wanted: WebhookEvent) -> None:
        projects.append(wanted.project_key)

    training = Training([breaks, works])
    asyncio.run(training.train(event()))
    asyncio.run(training.train(event()))
    assert projects == ["1.1", "1.1"]
    logged = "".join(capfd.readouterr())
    assert "KeyError" in logged
    assert "the text of a task" not in logged
