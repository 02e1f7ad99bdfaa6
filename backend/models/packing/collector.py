"""Collects tasks that wait for the same prompt, and sends it when it is full or nobody else comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from backend.models.packing.members import Member

QUIET: Final = 0.3
"""Seconds without another task after which a prompt is sent as it is."""

LONGEST: Final = 2.0
"""Seconds that a task waits for others at most."""

_SHARE_OF_PATIENCE: Final = 0.05
"""A task in a hurry waits for others no longer than this share of its patience."""

MOST_TOKENS: Final = 16_000
"""Input tokens from which a prompt is full, however few tasks it holds."""


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
    instructions.

    Args:
        send: sends a prompt about some tasks.
        clock: unix seconds.
    """

    def __init__(self, send: Callable[[list[Member]], Awaitable[None]], clock: Callable[[], float]) -> None:
        self._send, self._clock = send, clock
        self._bins: dict[tuple[str, str, str], _Bin] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    def add(self, member: Member, most: int) -> None:
        """Let a task wait for others.

        Args:
            member: the task.
            most: the most tasks of a prompt.
        """
        key = (member.query.project, member.query.model, member.task.system)
        waiting = self._bins.get(key)
        if waiting is not None and waiting.tokens + member.own_tokens > MOST_TOKENS:
            self._flush(key)
            waiting = None
        now = asyncio.get_running_loop().time()
        patience = max(member.until - self._clock(), 0.0) * _SHARE_OF_PATIENCE
        if waiting is None:
            waiting = self._bins[key] = _Bin(now + LONGEST)
        waiting.members.append(member)
        waiting.tokens += member.own_tokens
        waiting.latest = min(waiting.latest, now + patience)
        if waiting.timer is not None:
            waiting.timer.cancel()
        if len(waiting.members) >= most:
            self._flush(key)
        else:
            due = min(now + QUIET, waiting.latest)
            waiting.timer = asyncio.get_running_loop().call_at(due, self._flush, key)

    def _flush(self, key: tuple[str, str, str]) -> None:
        waiting = self._bins.pop(key)
        if waiting.timer is not None:
            waiting.timer.cancel()
        task = asyncio.ensure_future(self._send(waiting.members))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
