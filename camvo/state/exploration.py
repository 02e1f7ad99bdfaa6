"""Vote patterns: which arms agreed in a round, and whether stopping early would have been right.

In an exploration round, a random draw before the first vote decides to ask all arms, whatever they vote.
Only such rounds show without bias whether the leader of an early vote is the label of the full vote: a round
that continued because its votes were divided is no evidence about easy tasks. No ground truth is needed.

A round leaves its *vote pattern*: which arms voted for the same label, and for which one if there are few
labels. Patterns are counted with a sign, like every sum of the state. There are at most as many patterns as
rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from camvo.student import STUDENT
from camvo.twins import asking_each
from camvo.typing import Array

SILENT, UNASKED = -1, -2
"""The groups of arms that were asked and gave no vote, and of arms that were not asked."""

_GROWTH = 1.2
"""The growth of the number of rounds after which the evidence of fits is renewed."""

_GROWTH_EXPLORED: Final = 1.3
"""The same for the rounds that asked everyone: an estimate of the regret takes several fits."""

_MOST_NAMED: Final = 6
"""Patterns name at most this many labels. With more, nearly every round would be a pattern of its own."""


def named_labels(labels: Collection[str], *, ordered: bool = False) -> tuple[str, ...]:
    """The sorted labels that the patterns of a question name; none if it has one label or many.

    Ordered labels are always named: which of them are near each other is what their votes say.
    """
    return tuple(sorted(labels)) if ordered or 2 <= len(labels) <= _MOST_NAMED else ()


_Signature: TypeAlias = tuple[int, ...]
"""Each arm's group number, in the order of asking. Arms with one number voted for the same label."""


def _canonical(names: Iterable[str | int]) -> _Signature:
    """Number the names in the order of their first appearance. SILENT and UNASKED stay as they are."""
    numbers: dict[str | int, int] = {}
    return tuple(
        name if isinstance(name, int) and name < 0 else numbers.setdefault(name, len(numbers))
        for name in names
    )


@dataclass(frozen=True, slots=True)
class VotePattern:
    """Which arms voted for the same label on one question.

    Attributes:
        arms: all arms that could have been asked.
        groups: the arms' group numbers in the order of ``arms``, numbered by first appearance. Arms with the
            same number voted for the same label. An arm with SILENT was asked and gave no vote, one with
            UNASKED was not asked.
        everyone: whether all models were asked independently of the votes, each by at least one of its arms,
            but for those that a draw spared.
        labels: the sorted labels, if group numbers are positions among them; empty if they are not kept.
    """

    arms: tuple[str, ...]
    groups: _Signature
    everyone: bool = False
    labels: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        arms: Sequence[str],
        votes: Mapping[str, str | None],
        *,
        everyone: bool = False,
        labels: tuple[str, ...] = (),
    ) -> VotePattern:
        """The pattern of a round's votes; it names the labels if it is given them, sorted.

        A vote is ``None`` if the arm gave none. Votes for other labels count as no vote, and arms that were
        not asked are absent.
        """
        if labels:
            position = {label: number for number, label in enumerate(labels)}
            numbers = (
                UNASKED if arm not in votes else position.get(votes[arm] or "", SILENT) for arm in arms
            )
            return cls(tuple(arms), tuple(numbers), everyone, labels)
        names: list[str | int] = []
        for arm in arms:
            vote = votes.get(arm)
            names.append((SILENT if arm in votes else UNASKED) if vote is None else vote)
        return cls(tuple(arms), _canonical(names), everyone)

    @property
    def asked(self) -> tuple[str, ...]:
        """The arms that were asked."""
        return tuple([arm for arm, group in zip(self.arms, self.groups, strict=True) if group != UNASKED])

    def among(self, order: Sequence[str], labels: Sequence[str]) -> _Signature | None:
        """The groups of the arms in ``order``, as if those that were not in the pool had not been asked.

        With two labels groups are positions among them, sorted; with more they are numbered by first
        appearance. Votes for other labels count as none. ``None`` for two labels that the pattern does not
        name.
        """
        if len(labels) == 2:
            return self.positions(order, sorted(labels))
        if self.labels:
            return _canonical(self.positions(order, sorted(labels)) or ())
        group_of = dict(zip(self.arms, self.groups, strict=True))
        return _canonical([group_of.get(arm, UNASKED) for arm in order])

    def positions(self, order: Sequence[str], labels: Sequence[str]) -> _Signature | None:
        """The same as positions among ``labels``, as they are ordered; ``None`` if the pattern names none."""
        if not self.labels:
            return None
        group_of = dict(zip(self.arms, self.groups, strict=True))
        place = {label: number for number, label in enumerate(labels)}
        number_of = [place.get(label, SILENT) for label in self.labels]
        groups = (group_of.get(arm, UNASKED) for arm in order)
        return tuple([group if group < 0 else number_of[group] for group in groups])

    def renamed(self, names: Mapping[str, str]) -> VotePattern:
        """The same pattern with other names (old → new) for some arms."""
        return replace(self, arms=tuple(names.get(arm, arm) for arm in self.arms))

    def relabelled(self, label: Callable[[str], str | None]) -> VotePattern:
        """The same pattern with other labels; votes for one that becomes ``None`` count as none."""
        if not self.labels:
            return self
        new = [label(each) for each in self.labels]
        votes = {
            arm: None if group < 0 else new[group]
            for arm, group in zip(self.arms, self.groups, strict=True)
            if group != UNASKED
        }
        # As many as before or fewer: a pattern of a long scale, which is named as it is ordered, stays named.
        names = {each for each in new if each is not None}
        named = named_labels(names, ordered=len(names) > 1)
        return VotePattern.of(self.arms, votes, everyone=self.everyone, labels=named)

    def to_list(self) -> list[Any]:
        """The value as plain JSON."""
        marks = [self.everyone, *self.labels] if self.labels else self.everyone
        return [list(self.arms), list(self.groups), marks]

    @classmethod
    def from_list(cls, data: list[Any]) -> VotePattern:
        """Inverse of :meth:`to_list`."""
        arms, groups, marks = data
        everyone, *labels = marks if isinstance(marks, list) else [marks]
        return cls(tuple(arms), tuple(groups), everyone, tuple(labels))


@dataclass(frozen=True, slots=True)
class ExplorationRound:
    """The evidence of one round.

    Attributes:
        pattern: the pattern of its votes.
        right: whether the plan, as it was before the round, would have stopped at the label of all arms that
            were asked; ``None`` if the round does not show it.
        promised: the probability with which the plan was to stop at another label, as it was said before the
            round; ``None`` if nothing was promised.
        places: where votes are spans, the marks at each place of the text, if the round asked everyone.
        chosen: whether its task was not drawn at random, so that it says nothing of a change.
    """

    pattern: VotePattern
    right: bool | None
    promised: float | None = None
    places: tuple[VotePattern, ...] = ()
    chosen: bool = False

    @property
    def witnesses(self) -> dict[str, int]:
        """Arm → its group in the pattern, for the arms that voted and were asked independently of the votes.

        The student is none of them: it learns, so how often it votes, and is right, changes by itself.
        """
        pattern = self.pattern
        if not pattern.everyone:
            return {}
        groups = zip(pattern.arms, pattern.groups, strict=True)
        return {arm: group for arm, group in groups if group not in (SILENT, UNASKED) and arm != STUDENT}

    def renamed(self, names: Mapping[str, str]) -> ExplorationRound:
        """The same round with other names (old → new) for some arms."""
        places = tuple([place.renamed(names) for place in self.places])
        return replace(self, pattern=self.pattern.renamed(names), places=places)

    def relabelled(self, label: Callable[[str], str | None]) -> ExplorationRound:
        """The same round with other labels."""
        return replace(self, pattern=self.pattern.relabelled(label))

    def to_list(self) -> list[Any]:
        """The value as plain JSON."""
        more: dict[str, Any] = {"chosen": True} if self.chosen else {}
        if self.places:  # a text may have a thousand, all of the same arms
            arms, _, marks = self.places[0].to_list()
            more["places"] = [arms, [list(place.groups) for place in self.places], marks]
        promise = [] if self.promised is None and not more else [self.promised]
        return [*self.pattern.to_list(), self.right, *promise, *([more] if more else [])]

    @classmethod
    def from_list(cls, data: list[Any]) -> ExplorationRound:
        """Inverse of :meth:`to_list`."""
        promised, more = data[4] if len(data) > 4 else None, data[5] if len(data) > 5 else {}
        arms, of_places, marks = more.get("places", ([], [], False))
        places = tuple([VotePattern.from_list([arms, groups, marks]) for groups in of_places])
        return cls(VotePattern.from_list(data[:3]), data[3], promised, places, more.get("chosen", False))


@dataclass(frozen=True, slots=True, eq=False)
class PatternCounts:
    """How often each pattern occurred. Hashed by identity, so that fits of it can be cached.

    Attributes:
        patterns: pattern → its number of exploration rounds.
        rounds: the number of exploration rounds.
        places: where votes are spans, marks at a place → how often they occurred.
    """

    patterns: Mapping[VotePattern, int] = field(default_factory=dict)
    rounds: int = 0
    places: Mapping[VotePattern, int] = field(default_factory=dict)


NO_PATTERNS: Final = PatternCounts()


@dataclass(slots=True)
class ExplorationSums:
    """Signed sums over exploration rounds, since stops were last forgotten.

    Attributes:
        tried: the number of rounds that tested a plan's stops; of all rounds, also those that are forgotten.
        right: the number of those in which they were right.
        patterns: pattern → its number of rounds.
        evidence: a copy of the patterns for fits, which is renewed when the rounds have grown by a fifth.
        places: where votes are spans, marks at a place → how often they occurred.
        explored: a copy of the patterns of rounds that asked everyone, renewed when these have grown by 30%.
    """

    tried: int = 0
    right: int = 0
    patterns: Counter[VotePattern] = field(default_factory=Counter)
    evidence: PatternCounts = field(default_factory=PatternCounts, compare=False)
    _forgot: bool = False
    places: Counter[VotePattern] = field(default_factory=Counter)
    explored: PatternCounts = field(default=NO_PATTERNS, compare=False)
    _pools: Counter[tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self._pools = Counter()
        for pattern, count in self.patterns.items():
            self._count_pool(pattern, count)

    def _count_pool(self, pattern: VotePattern, count: int) -> None:
        if pattern.everyone:
            self._pools[pattern.asked] += count

    def everyone_rounds(self, arms: Collection[str]) -> int:
        """How many rounds asked the models of all these arms, independently of the votes.

        A model was asked if at least one of its arms in ``arms`` was asked.
        """
        asks_each = asking_each(arms)
        return sum(count for pool, count in self._pools.items() if asks_each(pool))

    def add(self, round_: ExplorationRound, sign: int) -> None:
        """Add (+1) or take back (−1) one round. A round that is forgotten is not taken back."""
        self.tried += sign * (round_.right is not None)
        self.right += sign * bool(round_.right)
        pattern = round_.pattern
        if self._forgot and sign < 0 and self.patterns[pattern] <= 0:
            return
        self.patterns[pattern] += sign
        if not self.patterns[pattern]:
            del self.patterns[pattern]
        self._count_pool(pattern, sign)
        for place in round_.places:
            if self._forgot and sign < 0 and self.places[place] <= 0:
                continue  # of another round with the same pattern, which is forgotten
            self.places[place] += sign
            if not self.places[place]:
                del self.places[place]
        rounds = self.patterns.total()
        if not self.evidence.rounds <= rounds <= self.evidence.rounds * _GROWTH:
            self.evidence = PatternCounts(dict(self.patterns), rounds, dict(self.places))
        rounds = self._pools.total()
        if not self.explored.rounds <= rounds <= self.explored.rounds * _GROWTH_EXPLORED:
            self.explored = self._of_everyone()

    def _of_everyone(self) -> PatternCounts:
        patterns = {pattern: count for pattern, count in self.patterns.items() if pattern.everyone}
        return PatternCounts(patterns, sum(patterns.values()))

    def forget_stops(self) -> None:
        """From now on, fits learn from later rounds only."""
        self.patterns, self.evidence, self._pools = Counter(), PatternCounts(), Counter()
        self.places, self.explored = Counter(), NO_PATTERNS
        self._forgot = True

    def rename(self, names: Mapping[str, str]) -> None:
        """Give some arms other names (old → new)."""
        self.places = _changed(self.places, lambda place: place.renamed(names))
        self._change(lambda pattern: pattern.renamed(names))

    def relabel(self, label: Callable[[str], str | None]) -> None:
        """Give the votes other labels. A place does not name its label, so all of them stay."""
        self._change(lambda pattern: pattern.relabelled(label))

    def _change(self, change: Callable[[VotePattern], VotePattern]) -> None:
        self.patterns = patterns = _changed(self.patterns, change)
        self.evidence = PatternCounts(dict(patterns), patterns.total(), dict(self.places))
        self.explored = self._of_everyone()
        self.__post_init__()

    def to_list(self) -> list[Any]:
        """The sums as plain JSON, for a snapshot."""
        copies = self.evidence.patterns, self.explored.patterns
        patterns = [_table(self.patterns), *map(_table, copies)]
        places = [_table(self.places), _table(self.evidence.places)] if self.places else []
        return [self.tried, self.right, *patterns, self._forgot, *places]

    @classmethod
    def from_list(cls, data: list[Any]) -> ExplorationSums:
        """Inverse of :meth:`to_list`."""
        tried, right, patterns, evidence, explored, forgot, *of_places = data
        places, seen = map(_counts, of_places or [[], []])
        counts, drawn = _counts(evidence), _counts(explored)
        known = PatternCounts(dict(counts), counts.total(), dict(seen))
        everyone = PatternCounts(dict(drawn), drawn.total())
        return cls(tried, right, _counts(patterns), known, forgot, places, everyone)


def _changed(
    patterns: Counter[VotePattern], change: Callable[[VotePattern], VotePattern]
) -> Counter[VotePattern]:
    changed: Counter[VotePattern] = Counter()
    for pattern, count in patterns.items():
        changed[change(pattern)] += count
    return changed


def _table(patterns: Mapping[VotePattern, int]) -> list[list[Any]]:
    return [[*pattern.to_list(), count] for pattern, count in patterns.items()]


def _counts(rows: Iterable[list[Any]]) -> Counter[VotePattern]:
    return Counter({VotePattern.from_list(pattern): count for *pattern, count in rows})


_MOST_CONTEXTS: Final = 2000
"""How many rounds a view has: the latest ones, 3 MB at d = 384."""

_ROUNDS_GROWTH: Final = 1.2
"""The growth of the number of rounds after which a view is renewed, as costly fits need it."""


@dataclass(frozen=True, slots=True, eq=False)
class LatestContexts:
    """An immutable view of the rounds. Hashed by identity, so that fits of it can be cached.

    Attributes:
        patterns: the pattern of each round's votes, n of them, the oldest first.
        contexts: the rounds' contexts, shape (n, d), in float32.
    """

    patterns: tuple[VotePattern, ...] = ()
    contexts: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))


NO_CONTEXTS: Final = LatestContexts()


@dataclass(slots=True, eq=False)
class ContextRounds:
    """The rounds, in the order in which they were added.

    Attributes:
        patterns: the pattern of each round's votes, the oldest first.
        contexts: the rounds' contexts, shape (d,) each.
        latest: the view that fits read. It lags up to a fifth of the rounds behind.
    """

    patterns: list[VotePattern] = field(default_factory=list)
    contexts: list[NDArray[np.float32]] = field(default_factory=list)
    latest: LatestContexts = NO_CONTEXTS
    _added: int = 0
    """How many rounds were added or taken back since the view was renewed."""

    def add(self, pattern: VotePattern, context: Array, sign: int) -> None:
        """Add a round (+1) or take it back (−1). A round that is not kept any more has no effect then."""
        short = np.asarray(context, dtype=np.float32)
        if sign < 0:
            self._remove(pattern, short)
            return
        self.patterns.append(pattern)
        self.contexts.append(short)
        self._added += 1
        if self._added > (_ROUNDS_GROWTH - 1.0) * len(self.latest.patterns):
            self._renew()

    def _remove(self, pattern: VotePattern, context: NDArray[np.float32]) -> None:
        for position in reversed(range(len(self.patterns))):
            if self.patterns[position] == pattern and np.array_equal(self.contexts[position], context):
                del self.patterns[position], self.contexts[position]
                self._renew()
                return

    def _renew(self) -> None:
        """Renew the view, and drop rounds only now: a snapshot then holds all that the view has."""
        self._added = 0
        del self.patterns[:-_MOST_CONTEXTS], self.contexts[:-_MOST_CONTEXTS]
        self.latest = LatestContexts(tuple(self.patterns), np.array(self.contexts))

    def renamed(self, names: Mapping[str, str]) -> ContextRounds:
        """The same rounds with other names (old → new) for some arms."""
        rounds = ContextRounds([pattern.renamed(names) for pattern in self.patterns], [*self.contexts])
        rounds._renew()
        return rounds

    def relabelled(self, label: Callable[[str], str | None]) -> ContextRounds:
        """The same rounds with other labels."""
        rounds = ContextRounds([pattern.relabelled(label) for pattern in self.patterns], [*self.contexts])
        rounds._renew()
        return rounds

    def to_list(self) -> list[Any]:
        """The patterns, and how many of the latest rounds the view lacks, as plain JSON."""
        return [[pattern.to_list() for pattern in self.patterns], self._added]

    def to_array(self) -> NDArray[np.float32]:
        """The contexts, shape (n, d)."""
        return np.array(self.contexts, dtype=np.float32)

    @classmethod
    def from_parts(cls, data: list[Any], contexts: NDArray[np.float32]) -> ContextRounds:
        """Inverse of :meth:`to_list` and :meth:`to_array`."""
        patterns, added = data
        rounds = cls([VotePattern.from_list(row) for row in patterns], [*contexts], _added=added)
        seen = len(patterns) - added
        rounds.latest = LatestContexts(tuple(rounds.patterns[:seen]), contexts[:seen])
        return rounds
