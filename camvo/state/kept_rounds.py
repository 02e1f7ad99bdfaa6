"""Rounds kept whole: those that a human has labelled, and those that asked everyone.

What a vote is worth beside other votes cannot be learnt from sums over single models, so these rounds keep
who voted for what. There are as many as human labels and a share of the rounds, and each can be taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple


class CastVote(NamedTuple):
    """What one arm that was asked said, ``None`` if nothing, and the weight ω ≥ 0 it had in the plan."""

    arm: str
    label: str | None
    weight: float


@dataclass(frozen=True, slots=True)
class Row:
    """One round: its votes in the order of the arms' names, and the human's label where there is one.

    ``everyone`` says that all arms were asked whatever the votes, and not because they were divided.
    """

    votes: tuple[CastVote, ...]
    label: str | None
    everyone: bool

    @property
    def arms(self) -> frozenset[str]:
        """The arms that were asked."""
        return frozenset(vote.arm for vote in self.votes)

    def weighted(self, weights: Mapping[str, float]) -> Row:
        """The same round with other weights, without the votes of arms that have none."""
        votes = (vote._replace(weight=weights[vote.arm]) for vote in self.votes if weights.get(vote.arm))
        return replace(self, votes=tuple(votes))

    @classmethod
    def of(
        cls,
        votes: Mapping[str, str | None],
        weights: Mapping[str, float],
        label: str | None,
        *,
        everyone: bool,
    ) -> Row | None:
        """The row of a finished round; ``None`` where it need not be kept.

        Args:
            votes: arm → what it said, ``None`` where that was no label; an arm that was not asked is absent.
            weights: arm → ω in the plan.
            label: the human's, ``None`` while there is none.
            everyone: whether all arms were asked whatever the votes.
        """
        if label is None and not everyone:
            return None
        return cls(tuple(CastVote(arm, votes[arm], weights[arm]) for arm in sorted(votes)), label, everyone)

    def to_list(self) -> list[Any]:
        """As plain JSON."""
        return [[list(vote) for vote in self.votes], self.label, self.everyone]

    @classmethod
    def from_list(cls, data: list[Any]) -> Row:
        """Inverse of :meth:`to_list`."""
        votes, label, everyone = data
        return cls(tuple(CastVote(*vote) for vote in votes), label, everyone)


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Most of the latest rows, hashed by identity: it is the same object until one of its rows changes."""

    rows: tuple[Row, ...] = ()


@dataclass(slots=True)
class Rows:
    """Rows in the order in which they came; one that is taken back before it came cancels it later."""

    rows: list[Row] = field(default_factory=list)
    owed: Counter[Row] = field(default_factory=Counter)
    _head: Head = field(default_factory=Head)
    _span: tuple[int, int] = (0, 0)
    _pools: Counter[frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        self._pools = Counter(row.arms for row in self.rows if row.everyone)

    def add(self, row: Row) -> None:
        """Keep a round."""
        if self.owed[row]:
            self.owed[row] -= 1
        else:
            self.rows.append(row)
            self._pools[row.arms] += row.everyone
        self.owed = +self.owed

    def remove(self, row: Row) -> None:
        """Take one back: the last that is equal to it."""
        for position in reversed(range(len(self.rows))):
            if self.rows[position] == row:
                del self.rows[position]
                if position < self._span[1]:
                    self._span, self._head = (0, 0), Head()
                self._pools[row.arms] -= row.everyone
                return
        self.owed[row] += 1

    def shown(self, arms: Collection[str]) -> int:
        """How many rounds asked everyone and all of ``arms``."""
        return sum(count for pool, count in self._pools.items() if pool.issuperset(arms))

    def head(self, most: int) -> Head:
        """The latest ``most`` rows but for the last few: it grows by a tenth at a time, for costly fits."""
        end = 0
        while end + end // 10 + 1 <= len(self.rows):
            end += end // 10 + 1
        start = max(end - most, 0)
        if self._span != (start, end):
            self._span, self._head = (start, end), Head(tuple(self.rows[start:end]))
        return self._head

    def to_list(self) -> list[Any]:
        """As plain JSON, for a snapshot."""
        return [[row.to_list() for row in rows] for rows in (self.rows, [*self.owed.elements()])]

    @classmethod
    def from_list(cls, data: list[Any]) -> Rows:
        """Inverse of :meth:`to_list`."""
        rows, owed = ([Row.from_list(row) for row in part] for part in data)
        return cls(rows, Counter(owed))
