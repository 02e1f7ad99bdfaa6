"""START_TRAINING: steps over a whole project, run in the background, one run at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog

from backend.label_studio.webhooks import WebhookEvent

_log = structlog.get_logger(__name__)

Step = Callable[[WebhookEvent], Awaitable[None]]


class Training:
    """The steps that a START_TRAINING triggers. Used from one event loop only.

    Label Studio may send the event more often than a large project can be processed. All events for a
    project that arrive during one run are served by a single run after it.

    Args:
        steps: run one after the other; each logs its own failures.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)
        self._pending: dict[str, WebhookEvent] = {}
        self._under_way: set[str] = set()

    async def train(self, event: WebhookEvent) -> None:
        """Run the steps for the event's project, or have the run under way repeated for the event."""
        project = event.project_key
        self._pending[project] = event
        if project in self._under_way:
            return
        self._under_way.add(project)
        try:
            while (pending := self._pending.pop(project, None)) is not None:
                for step in self._steps:
                    await _take(step, pending)
        finally:
            self._under_way.discard(project)


async def _take(step: Step, event: WebhookEvent) -> None:
    try:
        await step(event)
    except Exception as error:  # nobody awaits the result, and the next step must run all the same
        _log.error("training_step_failed", project=event.project_key, kind=type(error).__name__)
