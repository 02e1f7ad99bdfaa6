"""What marks in a text say: the model of votes where a vote is a set of spans.

The arms' spans of one label that mean the same stretch of text form a place (:mod:`camvo.votes.spans`). At
each place an arm has marked something or nothing. Four kinds of places make up a text:

- **easy** and **hard** ones are real: people mark a span there too. Each arm finds them with its own
  probability, and arms that find more of the easy ones find more of the hard ones;
- **misleading** ones, which each arm marks with another probability: errors that arms share;
- **made-up** ones, which one arm alone marks.

Of each kind a text has a Poisson number. A place that no arm marks is not seen, so the likelihood is that of
the places that are seen; EM adds the expected number of the others. No ground truth is needed: real places
are those that most arms mark. Where people have marked the text, it is known which places are real.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from camvo.joint.beliefs import Beliefs
from camvo.joint.lattice import most_arms, vote_lattice
from camvo.joint.votes import Rows, VoteRows, answering
from camvo.numerics.small import EPSILON
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import UNASKED, PatternCounts, VotePattern
from camvo.typing import Array
from camvo.votes.spans import Place, marked_places

_MARKS: Final = ("no", "yes")
"""The names of a mark in the pattern of a place, sorted: no mark, and a mark."""

_EASY, _HARD, _MISLEADING, _MADE_UP = range(4)
_REAL: Final = [_EASY, _HARD]

_PRIOR_PLACES: Final = 10.0
_PRIOR_MARKS: Final = np.array([0.85, 0.5, 0.25])
"""The prior of each arm's marks at easy, hard and misleading places counts as ten places."""

_PULL: Final = 300.0
"""By how many places an arm's marks at hard places are pulled towards their log-odds at easy ones, less a
difference that is the same for all arms."""

_STEPS: Final = 60
_FEWEST_UNSEEN: Final = 1e-3
_CERTAIN: Final = 0.995

_HUMAN: Final = "\0people"
"""The name under which people's spans are grouped with those of the arms."""

_LEAST_HARDER: Final = 1.0
_KINDS: Final = ("easy", "hard", "misleading", "made_up")

_SHOWN: Final = 4


def place_patterns(arms: Sequence[str], votes: Mapping[str, str | None]) -> tuple[VotePattern, ...]:
    """Which arms marked each place of a text.

    Args:
        arms: all arms, sorted.
        votes: arm → its vote on spans, ``None`` if it gave none. Arms that were not asked are absent.
    """
    cast = {arm: vote for arm, vote in votes.items() if vote is not None}
    return tuple(
        VotePattern.of(arms, {arm: _MARKS[arm in place] for arm in cast}, everyone=True, labels=_MARKS)
        for place in marked_places(cast)
    )


@dataclass(frozen=True, slots=True, eq=False)
class _PlaceModel:
    """A fitted model of the places of a text and of the marks of K arms.

    Attributes:
        texts: how many places of each kind a text has, marked or not, shape (4,).
        marks: how often each arm marks an easy, a hard and a misleading place, shape (K, 3).
        alone: each arm's share of the made-up places, shape (K,), which sums to 1.
    """

    texts: Array
    marks: Array
    alone: Array

    def among(self, positions: Sequence[int]) -> _PlaceModel:
        """The model of the marks of some arms."""
        return replace(self, marks=self.marks[[*positions]], alone=self.alone[[*positions]])

    def expected(self, rows: Rows) -> Array:
        """How many places of each kind a text has at which the arms have marked so, shape (P, 4).

        ``rows`` has shape (P, K): 1 for a mark, 0 for none, negative for an arm that was not asked.
        """
        marked, asked = (rows == 1).astype(np.float64), rows >= 0
        yes, no = np.log(self.marks), np.log1p(-self.marks)
        by_kind = np.exp(marked @ yes + (asked & (rows != 1)) @ no)
        count, own = marked.sum(axis=1), marked @ self.alone
        by_one = np.where(count == 0.0, (~asked) @ self.alone, np.where(count == 1.0, own, 0.0))
        return np.asarray(np.column_stack((by_kind, by_one)) * self.texts)

    def real(self, rows: Rows) -> Array:
        """The probability that a place with these marks is real, shape (P,)."""
        expected = self.expected(rows)
        return np.asarray(expected[:, _REAL].sum(axis=1) / np.maximum(expected.sum(axis=1), EPSILON**2))

    def beliefs(self) -> Beliefs:
        """What is believed of a place at each node of the lattice of all K arms: not real, or real."""
        lattice = vote_lattice(len(self.alone), 2)
        expected = self.expected(lattice.rows)
        total = np.maximum(expected.sum(axis=1), EPSILON**2)
        real = expected[:, _REAL].sum(axis=1) / total
        votes = tuple(tuple(_shares(total[step.following]) for step in level) for level in lattice.steps)
        return Beliefs(lattice, np.column_stack((1.0 - real, real)), votes)


def _shares(expected: Array) -> Array:
    return np.asarray(expected / expected.sum(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """The places that were seen, and how many texts were searched for them.

    Attributes:
        rows: the marks, shape (P, K).
        counts: how often they were seen, shape (P,).
        known: whether the place is real; −1 where nobody has said, shape (P,).
        pools: which arms voted on a text, shape (A, K), as rows without a mark.
        texts: the number of such texts that people have not marked, shape (A,).
        checked: the number of those that they have, shape (A,).
    """

    rows: Rows
    counts: Array
    known: Rows
    pools: Rows
    texts: Array
    checked: Array

    @classmethod
    def of(cls, evidence: PatternCounts, latest: LatestRounds, arms: tuple[str, ...]) -> _Seen:
        """The places of the rounds that asked everyone, and of those with a human label."""
        seen: Counter[tuple[tuple[int, ...], int]] = Counter()
        texts: Counter[tuple[int, ...]] = Counter()
        checked: Counter[tuple[int, ...]] = Counter()
        for pattern, count in evidence.patterns.items():
            if pattern.everyone:
                texts[_row(arms, _voters(pattern), {})] += count
        for pattern, count in evidence.places.items():
            row = pattern.positions(arms, _MARKS) or ()
            if 1 in row:  # a place that only arms of the past marked is none that these arms show
                seen[row, -1] += count
        for kept in latest.rounds:
            cast = {
                vote.arm: vote.label for vote in kept.votes if vote.label is not None and vote.arm in arms
            }
            pool, votes = _row(arms, cast, {}), tuple(sorted(cast.items()))
            checked[pool] += 1
            seen.update(_checked_places(arms, votes, kept.label))
            if kept.everyone and texts[pool] > 0:  # its text is among those that nobody has marked, too
                texts[pool] -= 1
                seen.subtract((row, -1) for row in _marked_rows(arms, votes) if seen[row, -1] > 0)
        pools = sorted(texts.keys() | checked.keys())
        keys = sorted(key for key, count in seen.items() if count > 0)
        return cls(
            np.array([row for row, _ in keys], dtype=np.int64).reshape(-1, len(arms)),
            np.array([seen[key] for key in keys], dtype=np.float64),
            np.array([known for _, known in keys], dtype=np.int64),
            np.array(pools, dtype=np.int64).reshape(-1, len(arms)),
            np.array([texts[pool] for pool in pools], dtype=np.float64),
            np.array([checked[pool] for pool in pools], dtype=np.float64),
        )


@lru_cache(maxsize=5000)
def _checked_places(
    arms: tuple[str, ...], cast: tuple[tuple[str, str], ...], label: str
) -> tuple[tuple[tuple[int, ...], int], ...]:
    """The marks at each place of a text that people have marked, and whether it is real.

    Cached, because a fit reads thousands of such texts, of which few are new.
    """
    votes = dict(cast)
    places = marked_places({**votes, _HUMAN: label}, first=_HUMAN)
    return tuple([(_row(arms, votes, place), int(_HUMAN in place)) for place in places])


@lru_cache(maxsize=5000)
def _marked_rows(arms: tuple[str, ...], cast: tuple[tuple[str, str], ...]) -> tuple[tuple[int, ...], ...]:
    """The marks at each place that the arms have marked in a text."""
    votes = dict(cast)
    return tuple([_row(arms, votes, place) for place in marked_places(votes)])


def _row(arms: Sequence[str], voters: Collection[str], place: Place) -> tuple[int, ...]:
    """1 for the arms that marked a place, 0 for those that did not, negative for those that did not vote."""
    return tuple([int(arm in place) if arm in voters else UNASKED for arm in arms])


def _voters(pattern: VotePattern) -> set[str]:
    return {arm for arm, group in zip(pattern.arms, pattern.groups, strict=True) if group >= 0}


def _fit_places(seen: _Seen) -> _PlaceModel:
    """Fit the model by EM, from the places that most arms mark."""
    marked, asked = (seen.rows == 1).sum(axis=1), np.maximum((seen.rows >= 0).sum(axis=1), 1)
    share = marked / asked
    easy, hard = 0.8 * (share > 0.75) + 0.1, 0.6 * (share > 0.5) * (share <= 0.75) + 0.1
    started = np.column_stack((easy, hard, np.full(len(share), 0.1), 0.4 * (marked == 1)))
    model = _by(_among_known(started, seen), np.zeros((len(seen.pools), 4)), seen, None)
    texts = (seen.texts + seen.checked)[:, None]
    # people have marked all real places of a checked text
    open_share = np.ones((len(seen.pools), 4))
    open_share[:, _REAL] = seen.texts[:, None] / np.maximum(texts, 1.0)
    for _ in range(_STEPS):
        unseen = model.expected(seen.pools) * texts * open_share
        model = _by(_among_known(model.expected(seen.rows), seen), unseen, seen, model)
    return model


def _among_known(expected: Array, seen: _Seen) -> Array:
    """The probability of each kind, without those that people have ruled out, shape (P, 4)."""
    real = np.isin(np.arange(4), _REAL)
    possible = (seen.known[:, None] < 0) | (real == (seen.known[:, None] == 1))
    left = np.where(possible, np.maximum(expected, EPSILON**2), 0.0)
    return np.asarray(left / left.sum(axis=1, keepdims=True))


def _by(chances: Array, unseen: Array, seen: _Seen, before: _PlaceModel | None) -> _PlaceModel:
    """The model if places were of these kinds, shapes (P, 4), and (A, 4) for those that nobody marked."""
    weight = chances * seen.counts[:, None]
    texts = max(float((seen.texts + seen.checked).sum()), 1.0)
    yes = (seen.rows == 1).T @ weight[:, :_MADE_UP]
    met = (seen.rows >= 0).T @ weight[:, :_MADE_UP] + (seen.pools >= 0).T @ unseen[:, :_MADE_UP]
    marks = (yes + _PRIOR_PLACES * _PRIOR_MARKS) / (met + _PRIOR_PLACES)
    if before is not None:
        odds = logit(marks)
        harder = np.average(odds[:, _EASY] - odds[:, _HARD], weights=met[:, _HARD] + 1.0)
        pulled = expit(odds[:, _EASY] - max(harder, _LEAST_HARDER))
        marks[:, _HARD] = (yes[:, _HARD] + _PULL * pulled) / (met[:, _HARD] + _PULL)
    alone = (seen.rows == 1).T @ weight[:, _MADE_UP] + 1.0
    per_text = (weight.sum(axis=0) + unseen.sum(axis=0) + _FEWEST_UNSEEN) / texts
    return _PlaceModel(per_text, np.clip(marks, 1.0 - _CERTAIN, _CERTAIN), alone / alone.sum())


@dataclass(frozen=True, slots=True, eq=False)
class SpanFit:
    """What votes on spans say. Hashed by identity.

    Attributes:
        arms: all K arms, sorted by name.
        everyone: the number of rounds that asked all arms.
        human_labels: the number of human labels that the fit knows.
        model: the model of the marks of all arms.
        shortlist: the arms that plans ask, sorted by name; all of them unless they are many.
        beliefs: the beliefs about a place at the nodes of the shortlist's lattice.
        answering: arm → how often it votes if it is asked. So a vote costs the arm's price over this share.
    """

    arms: tuple[str, ...]
    everyone: float
    human_labels: int
    model: _PlaceModel
    shortlist: tuple[str, ...]
    beliefs: Beliefs
    answering: Mapping[str, float]

    reads_context = False

    @property
    def weights(self) -> dict[str, float]:
        """Arm → the weight of its boundaries: how well its marks tell real places from misleading ones."""
        odds = logit(self.model.marks)
        tells = np.maximum(odds[:, _EASY] - odds[:, _MISLEADING], 0.1)
        return dict(zip(self.arms, tells.tolist(), strict=True))

    def chances(self, voters: Iterable[str], places: Sequence[Place]) -> list[float]:
        """The probability that each place is real, by the marks of the arms that voted."""
        voted = set(voters)
        rows = [_row(self.arms, voted, place) for place in places]
        return [*self.model.real(np.array(rows, dtype=np.int64).reshape(-1, len(self.arms))).tolist()]

    def unmarked(self, voters: Iterable[str]) -> tuple[float, float]:
        """How many places of a text none of the arms that voted marks, and how many of these are real."""
        expected = self.model.expected(np.array([_row(self.arms, set(voters), {})], dtype=np.int64))[0]
        return float(expected.sum()), float(expected[_REAL].sum())

    def unmarked_by(self, asked: NDArray[np.bool_]) -> tuple[Array, Array]:
        """The same for many texts, by which arms of the shortlist have voted, shape (n, K)."""
        rows = np.full((len(asked), len(self.arms)), UNASKED, dtype=np.int64)
        rows[:, [self.arms.index(arm) for arm in self.shortlist]] = np.where(asked, 0, UNASKED)
        expected = self.model.expected(rows)
        return expected.sum(axis=1), expected[:, _REAL].sum(axis=1)

    def drawn(self, rng: np.random.Generator) -> Rows:
        """The shortlist's marks at the places of a text that is drawn from the model, shape (n, K)."""
        model = self.model
        counts = rng.poisson(model.texts).tolist()
        shared = [
            rng.random((count, len(self.arms))) < model.marks[:, kind]
            for kind, count in enumerate(counts[:_MADE_UP])
        ]
        alone = rng.multinomial(1, model.alone, size=counts[_MADE_UP])
        marks = np.concatenate([*shared, alone]).astype(np.int64)
        return marks[:, [self.arms.index(arm) for arm in self.shortlist]]

    def node(self, voters: Iterable[str], place: Place) -> int:
        """The lattice node of the shortlist's marks at a place."""
        return self.beliefs.lattice.node_of[_row(self.shortlist, set(voters), place)]

    def describe(self) -> dict[str, Any]:
        """The fit as plain JSON, stored with a round's plan."""
        easy, hard, misled = self.model.marks.T.round(_SHOWN).tolist()
        per_text = self.model.texts.round(_SHOWN).tolist()
        return {
            "everyone": self.everyone,
            "shortlist": list(self.shortlist),
            "places": dict(zip(_KINDS, per_text, strict=True)),
            "found": {arm: list(found) for arm, *found in zip(self.arms, easy, hard, strict=True)},
            "misled": dict(zip(self.arms, misled, strict=True)),
            **({"human": {"count": self.human_labels}} if self.human_labels else {}),
        }

    @classmethod
    def fit(cls, evidence: PatternCounts, latest: LatestRounds, prices: Mapping[str, float]) -> SpanFit:
        """Fit the model of marks and the beliefs.

        Args:
            evidence: the places and patterns of past rounds.
            latest: the latest rounds with a human label.
            prices: arm → its price in right labels, to choose the arms that plans ask where arms are many.
        """
        arms = tuple(sorted(prices))
        model = _model_of(evidence, latest, arms)
        shortlist = _shortlist(model, arms, prices)
        beliefs = model.among([arms.index(arm) for arm in shortlist]).beliefs()
        everyone = sum(count for pattern, count in evidence.patterns.items() if pattern.everyone)
        shares = answering(VoteRows.of(evidence.patterns, arms, ()))
        voting = dict(zip(arms, shares.tolist(), strict=True))
        return cls(arms, float(everyone), len(latest.rounds), model, shortlist, beliefs, voting)


@lru_cache(maxsize=32)
def _model_of(evidence: PatternCounts, latest: LatestRounds, arms: tuple[str, ...]) -> _PlaceModel:
    return _fit_places(_Seen.of(evidence, latest, arms))


def _shortlist(model: _PlaceModel, arms: tuple[str, ...], prices: Mapping[str, float]) -> tuple[str, ...]:
    """The arms that plans ask: those whose marks tell most for their price."""
    most = most_arms(2)
    if len(arms) <= most:
        return arms
    odds = logit(model.marks)
    tells = dict(zip(arms, (odds[:, _EASY] - odds[:, _MISLEADING]).tolist(), strict=True))
    best = sorted(arms, key=lambda arm: (-tells[arm] / max(prices[arm], EPSILON) ** 0.5, arm))
    return tuple(sorted(best[:most]))
