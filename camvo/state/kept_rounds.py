"""Rounds that are kept whole: those with a human label.

Sums over single arms cannot show what a vote is worth given other votes. These rounds therefore keep each
arm's vote. There are at most as many of them as human labels, and each can be taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

_UNKNOWN: Final[Mapping[str, float]] = MappingProxyType({})
"""The confidences of arms that gave none."""


class _CastVote(NamedTuple):
    """The vote of one arm that was asked."""

    arm: str
    label: str | None
    confidence: float | None = None

    def to_list(self) -> list[Any]:
        """The vote as plain JSON, without a confidence if there is none."""
        return [*self] if self.confidence is not None else [*self[:-1]]


@dataclass(frozen=True, slots=True)
class KeptRound:
    """One round that is kept whole.

    Attributes:
        votes: the votes of the arms that were asked, sorted by the arms' names.
        label: the human's label.
    """

    votes: tuple[_CastVote, ...]
    label: str

    def renamed(self, names: Mapping[str, str]) -> KeptRound:
        """The same round with other names (old → new) for some arms."""
        votes = (vote._replace(arm=names.get(vote.arm, vote.arm)) for vote in self.votes)
        return replace(self, votes=tuple(sorted(votes, key=lambda vote: vote.arm)))

    def relabelled(self, label: Callable[[str], str | None]) -> KeptRound | None:
        """The same round with other labels; ``None`` if the human's label is none of them."""
        human = label(self.label)
        votes = (vote._replace(label=vote.label and label(vote.label)) for vote in self.votes)
        return None if human is None else KeptRound(tuple(votes), human)

    @classmethod
    def of(
        cls, votes: Mapping[str, str | None], label: str, sure: Mapping[str, float] = _UNKNOWN
    ) -> KeptRound:
        """The round to keep, from the votes of the arms that were asked and the human's label.

        A vote is ``None`` if the arm gave none; ``sure`` has the confidences in [0, 1] of the arms that gave
        one.
        """
        return cls(tuple(_CastVote(arm, votes[arm], sure.get(arm)) for arm in sorted(votes)), label)

    def to_list(self) -> list[Any]:
        """The round as plain JSON."""
        return [[vote.to_list() for vote in self.votes], self.label]

    @classmethod
    def from_list(cls, data: list[Any]) -> KeptRound:
        """Inverse of :meth:`to_list`."""
        votes, label = data
        return cls(tuple(_CastVote(*vote) for vote in votes), label)


@dataclass(frozen=True, slots=True, eq=False)
class LatestRounds:
    """An immutable view of the latest kept rounds. Hashed by identity, so that fits of it can be cached.

    Attributes:
        rounds: the rounds, the oldest first.
    """

    rounds: tuple[KeptRound, ...] = ()


@dataclass(slots=True)
class KeptRounds:
    """The kept rounds, in the order in which they were added.

    Attributes:
        rounds: the rounds, the oldest first.
        owed: rounds that were removed before they were added, with their counts. Adding an owed round settles
            the debt instead.
    """

    rounds: list[KeptRound] = field(default_factory=list)
    owed: Counter[KeptRound] = field(default_factory=Counter)
    _latest: LatestRounds = field(default_factory=LatestRounds)
    _span: tuple[int, int] = (0, 0)

    def add(self, round_: KeptRound) -> None:
        """Add a round, or cancel it against one that is owed."""
        if self.owed[round_]:
            self.owed[round_] -= 1
        else:
            self.rounds.append(round_)
        self.owed = +self.owed

    def remove(self, round_: KeptRound) -> None:
        """Remove the latest round that equals ``round_``; without one, the round is owed."""
        for position in reversed(range(len(self.rounds))):
            if self.rounds[position] == round_:
                del self.rounds[position]
                if position < self._span[1]:
                    self._span, self._latest = (0, 0), LatestRounds()
                return
        self.owed[round_] += 1

    def renamed(self, names: Mapping[str, str]) -> KeptRounds:
        """The same rounds with other names (old → new) for some arms."""
        owed: Counter[KeptRound] = Counter()
        for round_, count in self.owed.items():
            owed[round_.renamed(names)] += count
        return KeptRounds([round_.renamed(names) for round_ in self.rounds], owed)

    def relabelled(self, label: Callable[[str], str | None]) -> KeptRounds:
        """The same rounds with other labels, without those whose label is none of them."""
        owed: Counter[KeptRound] = Counter()
        for round_, count in self.owed.items():
            if (changed := round_.relabelled(label)) is not None:
                owed[changed] += count
        rounds = [round_.relabelled(label) for round_ in self.rounds]
        return KeptRounds([round_ for round_ in rounds if round_ is not None], owed)

    def latest(self, most: int) -> LatestRounds:
        """At most ``most`` of the latest rounds.

        The newest rounds are left out until they make up a tenth of the rest. The view is the same object
        until then, or until one of its rounds is removed, so that costly fits are rarely repeated.
        """
        end = 0
        while end + end // 10 + 1 <= len(self.rounds):
            end += end // 10 + 1
        start = max(end - most, 0)
        if self._span != (start, end):
            self._span, self._latest = (start, end), LatestRounds(tuple(self.rounds[start:end]))
        return self._latest

    def to_list(self) -> list[Any]:
        """The rounds and the owed rounds as plain JSON, for a snapshot."""
        return [[round_.to_list() for round_ in part] for part in (self.rounds, [*self.owed.elements()])]

    @classmethod
    def from_list(cls, data: list[Any]) -> KeptRounds:
        """Inverse of :meth:`to_list`."""
        rounds, owed = ([KeptRound.from_list(round_) for round_ in part] for part in data)
        return cls(rounds, Counter(owed))
