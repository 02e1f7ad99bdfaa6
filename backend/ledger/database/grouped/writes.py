"""Writes of one kind, of which a transaction runs many together, so that one statement serves them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy import Connection

_Item = TypeVar("_Item")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, eq=False)
class GroupedWrite(Generic[_Item, _Value]):
    """A function for the ledger's writer, which runs those with the same ``together`` at once.

    Attributes:
        together: takes a write transaction and different items, and returns the value of each. It must do
            what the items one by one would do. If it raises an error for several, each is tried alone.
        item: what this write is about.
    """

    together: Callable[[Connection, Sequence[_Item]], Sequence[_Value]]
    item: _Item

    def __call__(self, connection: Connection) -> _Value:
        """Run this write alone."""
        return self.together(connection, [self.item])[0]
