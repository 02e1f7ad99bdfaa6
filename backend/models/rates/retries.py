"""What both ways of asking a model at once share: the pause before another try, and one call for several."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from backend.errors import ModelError

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Retries:
    """Decides whether a call that failed is made again.

    Attributes:
        resting: whether a model is not to be asked now.
        most: the number of further calls after a failure that may be temporary.
        clock: unix seconds.
        rng: draws how long the pauses are.
    """

    resting: Callable[[str], bool]
    most: int
    clock: Callable[[], float]
    rng: random.Random = field(default_factory=random.SystemRandom)

    @property
    def tries(self) -> range:
        """The numbers of the tries, from 0."""
        return range(self.most + 1)

    async def pause(self, model: str, error: ModelError, tried: int, until: float) -> None:
        """Wait before the next try.

        Args:
            model: the model's name in the pool.
            error: how the latest try ended.
            tried: its number, from 0.
            until: unix seconds; the latest time for another try.

        Raises:
            ModelError: the error, because another try is hopeless or would be too late.
        """
        seconds = self.rng.uniform(0.5, 1.0) * 2.0**tried
        hopeless = not error.retry or tried == self.most or self.resting(model)
        if hopeless or self.clock() + seconds >= until:
            raise error
        _log.info("model_retry", model=model, code=error.code, retry=tried + 1)
        await asyncio.sleep(seconds)


def forget_when_done(running: dict[str, Any], key: str, future: asyncio.Future[Any]) -> None:
    """Let the future of a call be found under its key until it is done."""
    running[key] = future

    def forget(done: asyncio.Future[Any]) -> None:
        running.pop(key, None)
        if not done.cancelled():
            done.exception()  # if nobody waits for it any more, asyncio would log it with its traceback

    future.add_done_callback(forget)
