"""START_TRAINING: a whole project looked through, in the background, once at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog

from backend.label_studio.webhooks import WebhookEvent

_log = structlog.get_logger(__name__)

Step = Callable[[WebhookEvent], Awaitable[None]]


class Training:
    """The steps that a START_TRAINING sets off. Used from one event loop only.

    Label Studio may send it with every so many annotations, faster than a large project is looked through:
    while one run is under way, all that come for the same project are one more run after it.

    Args:
        steps: what is done, one after the other; each says itself what it could not do.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)
        self._wanted: dict[str, WebhookEvent] = {}
        self._under_way: set[str] = set()

    async def run(self, event: WebhookEvent) -> None:
        """Look the event's project through, or see to it that whoever is at it does so once more."""
        project = event.project_key
        self._wanted[project] = event
        if project in self._under_way:
            return
        self._under_way.add(project)
        try:
            while (wanted := self._wanted.pop(project, None)) is not None:
                for step in self._steps:
                    await _taken(step, wanted)
        finally:
            self._under_way.discard(project)


async def _taken(step: Step, event: WebhookEvent) -> None:
    try:
        await step(event)
    except Exception as error:  # nobody waits for it, and the next step has to be taken all the same
        _log.error("training_step_failed", project=event.project_key, kind=type(error).__name__)
