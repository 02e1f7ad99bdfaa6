"""Reads of one kind that share a transaction: those that wait while one runs go together into the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

from sqlalchemy import Connection

from backend.ledger.database import outages
from backend.ledger.database.ledger import Ledger

_GROUP = 64
"""The most reads that share a transaction."""

_Item = TypeVar("_Item")
_Value = TypeVar("_Value")


class GroupedReads(Generic[_Item, _Value]):
    """Reads of one kind. Used from one event loop only.

    Args:
        ledger: the migrated ledger.
        readers: the threads that read it.
        together: takes a read transaction and items, and returns the value of each.
    """

    def __init__(
        self,
        ledger: Ledger,
        readers: Executor,
        together: Callable[[Connection, Sequence[_Item]], Sequence[_Value]],
    ) -> None:
        self._ledger, self._readers, self._together = ledger, readers, together
        self._waiting: list[tuple[_Item, asyncio.Future[_Value]]] = []
        self._worker: asyncio.Task[None] | None = None

    @classmethod
    def of_equals(
        cls, ledger: Ledger, readers: Executor, once: Callable[[Connection, _Item], _Value]
    ) -> GroupedReads[_Item, _Value]:
        """Reads whose items are often equal: ``once`` is called once for each of the different ones."""

        def together(connection: Connection, items: Sequence[_Item]) -> list[_Value]:
            values = {item: once(connection, item) for item in dict.fromkeys(items)}
            return [values[item] for item in items]

        return cls(ledger, readers, together)

    async def read(self, item: _Item) -> _Value:
        """Return the value of one item, as it is in the ledger now or later; waits while it is down."""
        future: asyncio.Future[_Value] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._worker is None or self._worker.done():
            # it starts in the loop's next turn and takes all reads of this turn
            self._worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            while group := self._waiting[:_GROUP]:
                del self._waiting[:_GROUP]
                await self._read_group(group)
        finally:
            # reads are only left if the loop ends; a later loop must not answer them
            self._waiting.clear()

    async def _read_group(self, group: Sequence[tuple[_Item, asyncio.Future[_Value]]]) -> None:
        try:
            values = await self._read([item for item, _ in group])
        except Exception:  # each then learns of its own error
            for item, future in group:
                await self._read_alone(item, future)
        else:
            for (_, future), value in zip(group, values, strict=True):
                if not future.done():  # its caller was cancelled
                    future.set_result(value)

    async def _read(self, items: Sequence[_Item]) -> Sequence[_Value]:
        return await outages.read(
            self._ledger, self._readers, lambda connection: self._together(connection, items)
        )

    async def _read_alone(self, item: _Item, future: asyncio.Future[_Value]) -> None:
        try:
            (value,) = await self._read([item])
        except Exception as error:  # raised for the caller instead
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(value)
