"""Vote patterns of exploration rounds: who voted with whom, and whether stopping early was right.

An exploration round is one that a random draw, made before anyone voted, extends independently of its votes.
Only such rounds can teach whether the leader of an early vote is the label of all models together: a round
that went on because its votes were divided says nothing about the easy ones. No ground truth is needed.

An exploration round leaves its *vote pattern*: which arms named the same label, not which label. So 2 labels
and 22 are learnt alike. Patterns are counted with a sign, like every sum of the state. There are at most as
many as exploration rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

SILENT, UNASKED = -1, -2

_GROWTH = 1.03

Signature: TypeAlias = tuple[int, ...]
"""One number for each arm, in the order of asking; arms with the same number named the same label."""


def canonical(names: Iterable[str | int]) -> Signature:
    """The names numbered in the order of their first appearance; SILENT and UNASKED stay what they are.

    >>> canonical(["yes", "no", SILENT, "yes"])
    (0, 1, -1, 0)
    """
    numbers: dict[str | int, int] = {}
    return tuple(
        name if isinstance(name, int) and name < 0 else numbers.setdefault(name, len(numbers))
        for name in names
    )


@dataclass(frozen=True, slots=True)
class VotePattern:
    """Who voted with whom on one question.

    Attributes:
        arms: every arm that could have been asked.
        groups: one number for each of them; arms with the same number named the same label. SILENT was asked
            and gave no vote, UNASKED was not asked. Numbers are :func:`canonical` in the order of ``arms``.
        everyone: whether every arm was asked independently of the votes.
    """

    arms: tuple[str, ...]
    groups: Signature
    everyone: bool = False

    @classmethod
    def of(
        cls, arms: Sequence[str], votes: Mapping[str, str | None], *, everyone: bool = False
    ) -> VotePattern:
        """The pattern of ``votes``: arm → label, ``None`` if it gave none, absent if it was not asked."""
        names: list[str | int] = []
        for arm in arms:
            vote = votes.get(arm)
            names.append((SILENT if arm in votes else UNASKED) if vote is None else vote)
        return cls(tuple(arms), canonical(names), everyone)

    def among(self, order: Sequence[str]) -> Signature | None:
        """The groups of the arms in ``order``, or ``None`` if one of them was not in the pool yet."""
        groups = dict(zip(self.arms, self.groups, strict=True))
        return canonical(groups[arm] for arm in order) if groups.keys() >= set(order) else None

    def along(self, order: Sequence[str]) -> Signature | None:
        """The groups among ``order``, if the round shows what happens when arms are asked in that order.

        ``None`` in two cases: the arms that were asked are not the first of ``order``, or the round ended
        early with the help of an arm that has left. Rounds that ended early are dropped and complete ones
        are not, so the rounds that remain err on the side of disagreement.
        """
        groups = self.among(order)
        if groups is None or UNASKED in groups[: sum(group != UNASKED for group in groups)]:
            return None
        left = [group for arm, group in zip(self.arms, self.groups, strict=True) if arm not in order]
        return None if UNASKED in self.groups and any(group != UNASKED for group in left) else groups

    def to_list(self) -> list[Any]:
        """As plain JSON."""
        return [list(self.arms), list(self.groups), self.everyone]

    @classmethod
    def from_list(cls, data: list[Any]) -> VotePattern:
        """Inverse of :meth:`to_list`."""
        arms, groups, everyone = data
        return cls(tuple(arms), tuple(groups), everyone)


@dataclass(frozen=True, slots=True)
class ExplorationRound:
    """What one exploration round shows.

    Attributes:
        pattern: of its votes.
        right: whether the learned stop, as it was before the round, would have named the label of all models
            that were asked; ``None`` if there was no learned stop.
    """

    pattern: VotePattern
    right: bool | None

    def to_list(self) -> list[Any]:
        """As plain JSON."""
        return [*self.pattern.to_list(), self.right]

    @classmethod
    def from_list(cls, data: list[Any]) -> ExplorationRound:
        """Inverse of :meth:`to_list`."""
        *pattern, right = data
        return cls(VotePattern.from_list(pattern), right)


@dataclass(frozen=True, slots=True, eq=False)
class PatternCounts:
    """How often each pattern came. Hashed by identity, so that what was computed from it can be cached.

    ``rounds`` is the number of exploration rounds behind the counts.
    """

    patterns: Mapping[VotePattern, int] = field(default_factory=dict)
    rounds: int = 0


@dataclass(slots=True)
class ExplorationSums:
    """Signed sums: how often each pattern came, how often the learned stop was tried and was right.

    ``evidence`` is what fits read, since fits are costly: the counts as they were up to 3% fewer rounds ago.
    """

    patterns: Counter[VotePattern] = field(default_factory=Counter)
    tried: int = 0
    right: int = 0
    evidence: PatternCounts = field(default_factory=PatternCounts, compare=False)

    def add(self, round_: ExplorationRound, sign: int) -> None:
        """Add (+1) or take back (−1) one round."""
        self.patterns[round_.pattern] += sign
        if not self.patterns[round_.pattern]:
            del self.patterns[round_.pattern]
        self.tried += sign * (round_.right is not None)
        self.right += sign * bool(round_.right)
        rounds, counted = self.patterns.total(), self.evidence.rounds
        if not counted <= rounds <= counted * _GROWTH:
            self.evidence = PatternCounts(dict(self.patterns), rounds)

    def to_list(self) -> list[Any]:
        """The sums as plain JSON, for a snapshot."""
        return [_table(self.patterns), self.tried, self.right, _table(self.evidence.patterns)]

    @classmethod
    def from_list(cls, data: list[Any]) -> ExplorationSums:
        """Inverse of :meth:`to_list`."""
        rows, tried, right, earlier = data
        evidence = _counts(earlier)
        return cls(_counts(rows), tried, right, PatternCounts(dict(evidence), evidence.total()))


def _table(patterns: Mapping[VotePattern, int]) -> list[list[Any]]:
    return [[*pattern.to_list(), count] for pattern, count in patterns.items()]


def _counts(rows: Iterable[list[Any]]) -> Counter[VotePattern]:
    return Counter({VotePattern.from_list(pattern): count for *pattern, count in rows})
