"""Rounds kept whole: those that a human has labelled, and those that asked everyone.

Sums over single models cannot tell what a vote is worth beside other votes. These rounds therefore keep who
voted for what. There are as many of them as human labels and exploration rounds, and each can be taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple


class CastVote(NamedTuple):
    """What one arm that was asked said (``None`` if nothing), and the weight ω ≥ 0 it had in the plan."""

    arm: str
    label: str | None
    weight: float


@dataclass(frozen=True, slots=True)
class KeptRound:
    """One round: its votes in the order of the arms' names, and the human's label if there is one.

    ``everyone`` says that all arms were asked independently of the votes, not because the votes were divided.
    """

    votes: tuple[CastVote, ...]
    label: str | None
    everyone: bool

    @property
    def arms(self) -> frozenset[str]:
        """The arms that were asked."""
        return frozenset(vote.arm for vote in self.votes)

    def weighted(self, weights: Mapping[str, float]) -> KeptRound:
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
    ) -> KeptRound | None:
        """A finished round, or ``None`` if it need not be kept.

        Args:
            votes: arm → what it said, ``None`` if that was no label. Arms that were not asked are absent.
            weights: arm → ω in the plan.
            label: the human's label, ``None`` without one.
            everyone: whether all arms were asked independently of the votes.
        """
        if label is None and not everyone:
            return None
        return cls(tuple(CastVote(arm, votes[arm], weights[arm]) for arm in sorted(votes)), label, everyone)

    def to_list(self) -> list[Any]:
        """As plain JSON."""
        return [[list(vote) for vote in self.votes], self.label, self.everyone]

    @classmethod
    def from_list(cls, data: list[Any]) -> KeptRound:
        """Inverse of :meth:`to_list`."""
        votes, label, everyone = data
        return cls(tuple(CastVote(*vote) for vote in votes), label, everyone)


@dataclass(frozen=True, slots=True, eq=False)
class LatestRounds:
    """Most of the latest kept rounds. Hashed by identity: the same object until one of its rounds changes.

    ``labelled`` says whether a human has labelled any of them.
    """

    rounds: tuple[KeptRound, ...] = ()
    labelled: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labelled", any(round_.label is not None for round_ in self.rounds))


@dataclass(slots=True)
class KeptRounds:
    """Kept rounds in the order in which they came.

    A round that is taken back before it came is owed: it cancels the round when that comes.
    """

    rounds: list[KeptRound] = field(default_factory=list)
    owed: Counter[KeptRound] = field(default_factory=Counter)
    _latest: LatestRounds = field(default_factory=LatestRounds)
    _span: tuple[int, int] = (0, 0)
    _pools: Counter[frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        self._pools = Counter(round_.arms for round_ in self.rounds if round_.everyone)

    def add(self, round_: KeptRound) -> None:
        """Keep a round."""
        if self.owed[round_]:
            self.owed[round_] -= 1
        else:
            self.rounds.append(round_)
            self._pools[round_.arms] += round_.everyone
        self.owed = +self.owed

    def remove(self, round_: KeptRound) -> None:
        """Take a round back: the last one equal to it."""
        for position in reversed(range(len(self.rounds))):
            if self.rounds[position] == round_:
                del self.rounds[position]
                if position < self._span[1]:
                    self._span, self._latest = (0, 0), LatestRounds()
                self._pools[round_.arms] -= round_.everyone
                return
        self.owed[round_] += 1

    def everyone_rounds(self, arms: Collection[str]) -> int:
        """How many rounds asked everyone, all of ``arms`` among them."""
        return sum(count for pool, count in self._pools.items() if pool.issuperset(arms))

    def latest(self, most: int) -> LatestRounds:
        """The latest ``most`` rounds without the last few: it grows by a tenth at a time, for costly fits."""
        end = 0
        while end + end // 10 + 1 <= len(self.rounds):
            end += end // 10 + 1
        start = max(end - most, 0)
        if self._span != (start, end):
            self._span, self._latest = (start, end), LatestRounds(tuple(self.rounds[start:end]))
        return self._latest

    def to_list(self) -> list[Any]:
        """As plain JSON, for a snapshot."""
        return [[round_.to_list() for round_ in part] for part in (self.rounds, [*self.owed.elements()])]

    @classmethod
    def from_list(cls, data: list[Any]) -> KeptRounds:
        """Inverse of :meth:`to_list`."""
        rounds, owed = ([KeptRound.from_list(round_) for round_ in part] for part in data)
        return cls(rounds, Counter(owed))
