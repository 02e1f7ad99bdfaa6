"""The confidences of the arms' votes and whether these votes were right, as signed counts.

An arm may give a confidence with its vote, such as the probability of its answer's tokens. Its meaning
is learnt for each arm from two sources:

- Rounds that asked all arms independently of the votes compare each vote with the weighted vote of the
  *other* arms. No human label is needed.
- Rounds with a human label compare each vote with the label.

A confidence is counted by its *level*, a step of a quarter on the logit scale, so the sums have a fixed size.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from camvo.numerics.small import TIE
from camvo.state.kept_rounds import KeptRound

TOP_LEVEL: Final = 80
"""The highest level; the lowest is 0, and a confidence of ½ has the middle one."""

_STEPS_PER_LOGIT: Final = 4.0

_GROWTH: Final = 1.25
"""The growth of the number of votes after which the evidence is renewed. The distribution of
confidences hardly changes in a project, so fits need not be renewed with every vote."""


class SureVote(NamedTuple):
    """A vote with a confidence, compared with a label that the arm did not give itself.

    Attributes:
        arm: the arm's name.
        label: the label that it voted for.
        level: the level of its confidence, 0 to :data:`TOP_LEVEL`.
        right: whether the vote is that label.
    """

    arm: str
    label: str
    level: int
    right: bool

    def relabelled(self, label: Callable[[str], str | None]) -> SureVote | None:
        """The same vote with another label; ``None`` without one."""
        new = label(self.label)
        return None if new is None else self._replace(label=new)

    @classmethod
    def compared_with_others(
        cls, votes: Mapping[str, str | None], weights: Mapping[str, float], sure: Mapping[str, float]
    ) -> tuple[SureVote, ...]:
        """Compare each vote that has a confidence with the weighted vote of the other arms.

        A vote is left out if the others' leading labels are tied, or if none of them voted.
        """
        totals: dict[str, float] = {}
        for arm in sorted(votes):
            if (label := votes[arm]) is not None:
                totals[label] = totals.get(label, 0.0) + weights[arm]
        compared = []
        for arm in sorted(sure):
            if (vote := votes.get(arm)) is None:
                continue
            others = {**totals, vote: totals[vote] - weights[arm]}
            (best, leader), *rest = sorted(((total, label) for label, total in others.items()), reverse=True)
            if best - (rest[0][0] if rest else 0.0) > TIE:
                compared.append(cls(arm, vote, level_of(sure[arm]), vote == leader))
        return tuple(compared)


def level_of(confidence: float) -> int:
    """The level of a confidence in [0, 1]: 40 + 4·logit, rounded and clipped to the levels.

    >>> level_of(0.0), level_of(0.5), level_of(0.99), level_of(1.0)
    (0, 40, 58, 80)
    """
    if confidence <= 0.0:
        return 0
    if confidence >= 1.0:
        return TOP_LEVEL
    level = round(TOP_LEVEL / 2 + _STEPS_PER_LOGIT * math.log(confidence / (1.0 - confidence)))
    return min(max(level, 0), TOP_LEVEL)


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceCounts:
    """Votes by arm, label, level and whether they were right. Hashed by identity, so that fits can be cached.

    Attributes:
        by_others: the votes compared with those of other arms → their number.
        by_people: the votes compared with human labels → their number.
    """

    by_others: Mapping[SureVote, int] = field(default_factory=dict)
    by_people: Mapping[SureVote, int] = field(default_factory=dict)

    @property
    def votes(self) -> int:
        """The number of comparisons."""
        return sum(self.by_others.values()) + sum(self.by_people.values())

    def renamed(self, names: Mapping[str, str]) -> ConfidenceCounts:
        """The same counts with other names (old → new) for some arms."""
        return ConfidenceCounts(_renamed(self.by_others, names), _renamed(self.by_people, names))


NO_COUNTS: Final = ConfidenceCounts()
"""The counts of arms that give no confidences."""


@dataclass(slots=True)
class ConfidenceSums:
    """Signed sums over votes with a confidence.

    Attributes:
        by_others: the votes compared with those of other arms → their number.
        by_people: the votes compared with human labels → their number.
        evidence: the counts that fits read. They lag behind the sums by up to a fifth of the votes, because
            fits are costly.
    """

    by_others: Counter[SureVote] = field(default_factory=Counter)
    by_people: Counter[SureVote] = field(default_factory=Counter)
    evidence: ConfidenceCounts = field(default=NO_COUNTS, compare=False)
    _votes: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self._votes = self.by_others.total() + self.by_people.total()

    def add(self, compared: Iterable[SureVote], sign: int) -> None:
        """Add (+1) or take back (−1) comparisons with the votes of other arms."""
        self._count(self.by_others, compared, sign)

    def add_people(self, round_: KeptRound, sign: int) -> None:
        """Add (+1) or take back (−1) the comparisons with a round's human label."""
        compared = [
            SureVote(vote.arm, vote.label, level_of(vote.confidence), vote.label == round_.label)
            for vote in round_.votes
            if vote.confidence is not None and vote.label is not None
        ]
        self._count(self.by_people, compared, sign)

    def _count(self, sums: Counter[SureVote], compared: Iterable[SureVote], sign: int) -> None:
        for vote in compared:
            sums[vote] += sign
            self._votes += sign
            if not sums[vote]:
                del sums[vote]
        counted = self.evidence.votes
        if not counted <= self._votes <= counted * _GROWTH:
            self.evidence = ConfidenceCounts(dict(self.by_others), dict(self.by_people))

    def renamed(self, names: Mapping[str, str]) -> ConfidenceSums:
        """The same sums with other names (old → new) for some arms."""
        return ConfidenceSums(
            _renamed(self.by_others, names), _renamed(self.by_people, names), self.evidence.renamed(names)
        )

    def relabelled(self, label: Callable[[str], str | None]) -> ConfidenceSums:
        """The same sums with other labels."""
        sums = ConfidenceSums(_relabelled(self.by_others, label), _relabelled(self.by_people, label))
        sums.evidence = ConfidenceCounts(dict(sums.by_others), dict(sums.by_people))
        return sums

    def to_list(self) -> list[Any]:
        """The sums as plain JSON, for a snapshot."""
        parts = (self.by_others, self.by_people, self.evidence.by_others, self.evidence.by_people)
        return [[[*vote, count] for vote, count in part.items()] for part in parts]

    @classmethod
    def from_list(cls, data: list[Any]) -> ConfidenceSums:
        """Inverse of :meth:`to_list`."""
        parts = [Counter({SureVote(*vote): count for *vote, count in part}) for part in data]
        return cls(parts[0], parts[1], ConfidenceCounts(dict(parts[2]), dict(parts[3])))


def _renamed(counts: Mapping[SureVote, int], names: Mapping[str, str]) -> Counter[SureVote]:
    return Counter(
        {vote._replace(arm=names.get(vote.arm, vote.arm)): count for vote, count in counts.items()}
    )


def _relabelled(counts: Mapping[SureVote, int], label: Callable[[str], str | None]) -> Counter[SureVote]:
    changed: Counter[SureVote] = Counter()
    for vote, count in counts.items():
        if (new := vote.relabelled(label)) is not None:
            changed[new] += count
    return changed
