"""Calls that wait for money: a budget covers them once calls under way have cost less than they reserved."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Final

_WOKEN: Final = 2
"""Waiting calls that look again after a settlement. A settled call cost less than it reserved, so its place
may take more than one; more than two would mostly look in vain."""


class MoneyQueue:
    """The calls of one process that wait for money, in their order. Used from one event loop only."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self, seconds: float) -> None:
        """Wait until a settlement may have set money free, at most so many seconds."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(turn, seconds)

    def release(self) -> None:
        """Let the first waiting calls look again, because a call was settled."""
        woken = 0
        while self._waiting and woken < _WOKEN:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                woken += 1
