"""Collects tasks that wait for the same prompt, and sends it when it is full or nobody else comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from backend.ledger.money.accounts import Purse
from backend.models.packing.members import Member
from backend.models.packing.pack import MOST_TOKENS, own_tokens

QUIET: Final = 0.1
"""Seconds without news after which prompts are sent, if no other task is on its way."""

LONGEST: Final = 2.0
"""Seconds that a task waits for others at most."""

SHARE_OF_PATIENCE: Final = 0.05
"""A task in a hurry waits for others no longer than this share of its patience."""

_BinKey: TypeAlias = tuple[str, str, str, Purse | None]
"""Project, arm, system message, and who pays."""


@dataclass(slots=True, eq=False)
class _Bin:
    """The tasks that wait for one prompt, and when it is sent at the latest."""

    latest: float
    members: list[Member] = field(default_factory=list)
    tokens: int = 0
    timer: asyncio.TimerHandle | None = None


class Collector:
    """The bins of one process. Used from one event loop only.

    Tasks share a bin if they are of one project, one arm, and one system message: the same questions and
    instructions. Whoever knows that a task may be on its way into a bin says so (:meth:`preparing`). Soon
    after none is, all bins are sent. Otherwise they wait for a bounded time.

    Args:
        send: sends a prompt about some tasks.
        clock: unix seconds.
    """

    def __init__(self, send: Callable[[list[Member]], Awaitable[None]], clock: Callable[[], float]) -> None:
        self._send, self._clock = send, clock
        self._bins: dict[_BinKey, _Bin] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._on_their_way = 0
        self._quiet: asyncio.TimerHandle | None = None

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """During the block, a task may be on its way into a bin."""
        self._on_their_way += 1
        try:
            yield
        finally:
            self._on_their_way -= 1
            if self._quiet is not None:
                self._quiet.cancel()
            self._quiet = asyncio.get_running_loop().call_later(QUIET, self._send_if_idle)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """During the block, a task that is prepared waits for answers, and is on its way nowhere."""
        self._on_their_way -= 1
        try:
            yield
        finally:
            self._on_their_way += 1

    def add(self, member: Member, most: int) -> None:
        """Let a task wait for others.

        Args:
            member: the task.
            most: the most tasks of a prompt.
        """
        key = (member.query.project, member.query.model, member.task.system, member.query.purse)
        waiting, tokens = self._bins.get(key), own_tokens(member.task)
        if waiting is not None and waiting.tokens + tokens > MOST_TOKENS:
            self._flush(key)
            waiting = None
        loop = asyncio.get_running_loop()
        patience = min(max(member.until - self._clock(), 0.0) * SHARE_OF_PATIENCE, LONGEST)
        if waiting is None:
            waiting = self._bins[key] = _Bin(loop.time() + patience)
        else:
            waiting.latest = min(waiting.latest, loop.time() + patience)
        waiting.members.append(member)
        waiting.tokens += tokens
        if waiting.timer is not None:
            waiting.timer.cancel()
        if len(waiting.members) >= most:
            self._flush(key)
        else:
            waiting.timer = loop.call_at(waiting.latest, self._flush, key)

    def _send_if_idle(self) -> None:
        if not self._on_their_way:
            for key in list(self._bins):
                self._flush(key)

    def _flush(self, key: _BinKey) -> None:
        waiting = self._bins.pop(key)
        if waiting.timer is not None:
            waiting.timer.cancel()
        task = asyncio.ensure_future(self._send(waiting.members))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
