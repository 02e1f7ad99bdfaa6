"""What rounds that a coin chose have shown: who voted with whom, and whether stopping early was right.

Whether the leader of an early vote is the label that everybody together names needs no ground truth, but it
may be learnt only from rounds that went on for a reason other than their votes: those that went on because
they were hard say nothing about the easy ones. Such a round leaves its *pattern*, which forgets what the
labels are and keeps which arms named the same one, so 2 labels and 22 are learnt alike. Patterns are counted
with a sign, as every sum of the state is; there are at most as many as rounds that the coin chose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

SILENT, UNASKED = -1, -2

_GROWTH = 1.03

Signature: TypeAlias = tuple[int, ...]
"""Arms in the order in which they are asked: those with the same number named the same label."""


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
class Pattern:
    """Who voted with whom on one question.

    Attributes:
        arms: every arm that could have been asked.
        groups: for each of them, arms with the same number named the same label; SILENT was asked and gave no
            vote, UNASKED was not asked. Numbers are canonical in the order of ``arms``.
        everyone: whether every arm was asked whatever the votes, and not because they were divided.
    """

    arms: tuple[str, ...]
    groups: Signature
    everyone: bool = False

    @classmethod
    def of(cls, arms: Sequence[str], votes: Mapping[str, str | None], *, everyone: bool = False) -> Pattern:
        """The pattern of ``votes``: arm → label, ``None`` where it gave none, absent if it was not asked."""
        names: list[str | int] = []
        for arm in arms:
            vote = votes.get(arm)
            names.append((SILENT if arm in votes else UNASKED) if vote is None else vote)
        return cls(tuple(arms), canonical(names), everyone)

    def among(self, order: Sequence[str]) -> Signature | None:
        """The groups of the arms in ``order``; ``None`` where one of them was not in the pool yet."""
        found = dict(zip(self.arms, self.groups, strict=True))
        return canonical(found[arm] for arm in order) if found.keys() >= set(order) else None

    def along(self, order: Sequence[str]) -> Signature | None:
        """The groups among ``order``, where the round shows what happens when arms are asked in that order.

        ``None`` where the arms that were asked are not the first of it, or where the round ended early with
        the help of an arm that has left. A round that ended early is dropped here and one with every vote is
        kept, so what is left errs on the side of disagreement.
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
    def from_list(cls, data: list[Any]) -> Pattern:
        """Inverse of :meth:`to_list`."""
        arms, groups, everyone = data
        return cls(tuple(arms), tuple(groups), everyone)


@dataclass(frozen=True, slots=True)
class Probe:
    """What one coin's round shows.

    Attributes:
        pattern: of its votes.
        right: whether the learned stop, as it was before the round, would have named the label that everybody
            named; ``None`` where there was none to try.
    """

    pattern: Pattern
    right: bool | None

    def to_list(self) -> list[Any]:
        """As plain JSON."""
        return [*self.pattern.to_list(), self.right]

    @classmethod
    def from_list(cls, data: list[Any]) -> Probe:
        """Inverse of :meth:`to_list`."""
        *pattern, right = data
        return cls(Pattern.from_list(pattern), right)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Patterns with how often each came, hashed by identity: a study of them is good for as long as they are.

    ``rounds`` is how many coin's rounds they are of.
    """

    patterns: Mapping[Pattern, int] = field(default_factory=dict)
    rounds: int = 0


@dataclass(slots=True)
class ProbeSums:
    """Signed sums: how often each pattern came, how often the learned stop was tried and was right.

    ``evidence`` is what is studied, since a study is costly: the patterns of up to 3% fewer rounds than came.
    """

    patterns: Counter[Pattern] = field(default_factory=Counter)
    tried: int = 0
    right: int = 0
    evidence: Evidence = field(default_factory=Evidence, compare=False)

    def add(self, probe: Probe, sign: int) -> None:
        """Add (+1) or take back (−1) one round."""
        self.patterns[probe.pattern] += sign
        if not self.patterns[probe.pattern]:
            del self.patterns[probe.pattern]
        self.tried += sign * (probe.right is not None)
        self.right += sign * bool(probe.right)
        rounds, studied = self.patterns.total(), self.evidence.rounds
        if not studied <= rounds <= studied * _GROWTH:
            self.evidence = Evidence(dict(self.patterns), rounds)

    def to_list(self) -> list[Any]:
        """The sums as plain JSON, for a snapshot."""
        return [_table(self.patterns), self.tried, self.right, _table(self.evidence.patterns)]

    @classmethod
    def from_list(cls, data: list[Any]) -> ProbeSums:
        """Inverse of :meth:`to_list`."""
        rows, tried, right, studied = data
        evidence = _counts(studied)
        return cls(_counts(rows), tried, right, Evidence(dict(evidence), evidence.total()))


def _table(patterns: Mapping[Pattern, int]) -> list[list[Any]]:
    return [[*pattern.to_list(), count] for pattern, count in patterns.items()]


def _counts(rows: Iterable[list[Any]]) -> Counter[Pattern]:
    return Counter({Pattern.from_list(pattern): count for *pattern, count in rows})
