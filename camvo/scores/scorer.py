"""The shown score: the panel and the decision's own score, which complement each other.

- The **panel** (:class:`Panel`) knows how far errors are correlated, so how sure votes can make
  one. To it all labels and errors are alike: where two services lean to one label, it may believe them.
- The decision's **own score**, by the policy's model of votes, knows which models are right, on which label
  and in which context. It takes what models say together for right, so it is too high.

So the own score is tempered: its log-odds are multiplied by one exponent, with which own scores are on
average as high as the panel's surest label. The shown score is the mean of both. Where the panel finds
another label more probable than the decided one, and the own score is at least ½, the panel counts the models
otherwise, and its probability does not say how sure the votes are; there the tempered score is shown alone.

Human labels correct both: the panel's probability by :mod:`camvo.scores.calibration`, and the own score in
the policy's model (:mod:`camvo.joint.human_terms`). The more they taught the own score, the less it is
tempered, and the larger is its share: they correct the order of own scores too, but of the panel's only the
level. That is the prior. A policy's model with few labels can also deceive itself, so the shares follow, by
Bayes' rule, which of the two predicted later answers of people better.

The panel is the probability of each label if models' errors are correlated, learnt without ground truth.
Lemma 1 and :func:`.label_posterior` assume that errors are independent. Real errors are correlated: a hard
text is hard for all models, and models tend to make the same errors. Under independence, labels with a score
of 0.99 were right in only 85% of the cases. In the panel every task has its own distribution p of answers,
and the truth is one more answer:

- p is drawn from a symmetric Dirichlet distribution over the M labels with total ν. If ν is near 0, one label
  has all the probability. With a larger ν several labels are plausible to all models. ν varies between tasks
  log-normally.
- A model slips with its own probability ε and then names a label at random. Otherwise its vote is drawn from
  p.
- The truth is drawn from p too, like the vote of a model that slips in 6% of the tasks (:data:`_SLIP`).

If models make errors independently, ν is estimated near 0, and the panel is the one-coin posterior with
estimated accuracies. The more errors are correlated, the less agreement counts. The likelihood of a vote
pattern is exact. A vote depends on p and the model's slip alone, and integrating
p out leaves sums over how many of a label's votes were not slips. Which models are asked may depend on
earlier votes, as in a plan that asks one after another; the likelihood remains correct.

Votes cannot reveal an error that all models share, such as misreading a convention of the annotators.
:data:`_SLIP` accounts for it: between 3% and 6% of the labels of published test sets are contestable, and
overconfidence does more harm than underconfidence. Calibration learns the rest from human labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit, gammaln, logit, psi

from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE, upper_bound
from camvo.scores.calibration import IDENTITY, Calibration, fit_calibration
from camvo.typing import Array
from camvo.votes.aggregation import Decision

_APART = 0.01
"""Near-copies disagree on at most this share of the items, with confidence :data:`_LEVEL`."""

_RATIO = 0.1
"""Near-copies disagree at most this many times as often as either disagrees with any third model."""

_LEVEL = 0.95
"""The confidence that a pair disagrees rarely: some 300 common rounds without a difference (70 at ½)."""


def _near_copies(shared: Array, apart: Array) -> tuple[int, ...]:
    """Assign a seat to each model; near-copies share one."""
    arms = len(shared)
    rate = np.where(shared > 0.0, apart / np.maximum(shared, 1.0), 1.0)
    most = upper_bound(apart, shared, _LEVEL)
    close = (shared > 0.0) & (most <= _APART)
    seats = list(range(arms))
    for left in range(arms):
        for right in range(left + 1, arms):
            third = ~(close[left] | close[right])
            third[[left, right]] = False
            if not (close[left, right] and third.any()):
                continue
            if rate[left, right] <= _RATIO * rate[[left, right]][:, third].min():
                first, second = sorted((seats[left], seats[right]))
                seats = [first if seat == second else seat for seat in seats]
    return tuple(seats)


def _near_copies_in(votes: NDArray[np.int64]) -> tuple[int, ...]:
    """Assign seats by :func:`_near_copies` from votes, shape (n, K), −1 for no vote."""
    voted = votes >= 0
    shared = voted.astype(np.float64).T @ voted
    apart = np.zeros_like(shared)
    for arm in range(votes.shape[1]):
        apart[arm] = (voted & voted[:, [arm]] & (votes != votes[:, [arm]])).sum(axis=0)
    return _near_copies(shared, apart)


def _merge_copies(votes: NDArray[np.int64], seats: Sequence[int]) -> NDArray[np.int64]:
    """Merge the votes of near-copies into one vote per seat.

    If copies disagree, the label with most votes among them counts; ties go to the first copy's label.
    """
    columns = []
    for seat in sorted(set(seats)):
        members = votes[:, [position for position, taken in enumerate(seats) if taken == seat]]
        backing = (members[:, :, None] == members[:, None, :]).sum(axis=2)
        best = np.where(members >= 0, backing, -1).argmax(axis=1)
        columns.append(np.take_along_axis(members, best[:, None], axis=1))
    return np.concatenate(columns, axis=1)


_POINTS = 7
_NODES, _AREAS = np.polynomial.hermite_e.hermegauss(_POINTS)
_WEIGHTS: Array = _AREAS / np.sqrt(2.0 * np.pi)
"""Gauss–Hermite quadrature over the standard normal distribution of (ln ν − median)/σ; shapes (7,)."""


class _PatternLikelihood:
    """The likelihood of the P patterns of a :class:`_PatternTable`.

    In the shapes below, N = K + 1 and Z is the number of values of ν. A *rank* is the rank of a label in its
    pattern, and D is the largest number of votes that any pattern has at a rank.
    """

    def __init__(self, rows: NDArray[np.int64], labels: int) -> None:
        self._rows, self._labels = rows, labels
        self._ranks = range(int(rows.max(initial=-1)) + 1)
        self._degrees = [int((rows == rank).sum(axis=1).max(initial=0)) for rank in self._ranks]
        self._n = np.arange(rows.shape[1] + 1, dtype=np.float64)

    def next_answer(self, slips: Array, doubts: Array, weights: Array) -> Array:
        """The probability that one more answer without a slip is the label at each rank, shape (P, K)."""
        alphas = doubts / self._labels
        scaled = self._scaled([self._polynomials(slips, rank)[-1] for rank in self._ranks], alphas)
        ahead, falling = self._products(scaled), self._falling(doubts)
        total = np.einsum("zpn,zn,z->p", ahead[-1], falling, weights)
        adjoints = self._adjoints(scaled, ahead, falling / (doubts[:, None] + self._n))
        named = np.zeros(self._rows.shape)
        for rank in self._ranks:
            more = alphas[:, None] + self._n[: self._degrees[rank] + 1]
            named[:, rank] = np.einsum("zpn,zpn,zn,z->p", adjoints[rank], scaled[rank], more, weights)
        has_rank = np.arange(self._rows.shape[1]) <= self._rows.max(axis=1, initial=-1)[:, None]
        return np.where(has_rank, named / total[:, None], 0.0)

    def gradient(self, slips: Array, doubts: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Compute the likelihood, shape (P,), and its derivatives by ε, shape (P, K), and by ν, shape (P, Z).

        The arguments are those of :meth:`next_answer`.
        """
        alphas = doubts / self._labels
        stages = [self._polynomials(slips, rank) for rank in self._ranks]
        scaled = self._scaled([stage[-1] for stage in stages], alphas)
        ahead, falling = self._products(scaled), self._falling(doubts)
        value = np.einsum("zpn,zn,z->p", ahead[-1], falling, weights)
        slower = falling * (psi(doubts)[:, None] - psi(doubts[:, None] + self._n))
        by_doubt = np.einsum("zpn,zn,z->pz", ahead[-1], slower, weights)
        by_slip = np.zeros(self._rows.shape)
        adjoints = self._adjoints(scaled, ahead, falling)
        for rank in self._ranks:
            n = self._n[: self._degrees[rank] + 1]
            by_form = np.einsum("zpn,zn,z->pn", adjoints[rank], _rising(alphas, n), weights)
            self._backpropagate(slips, rank, stages[rank], by_form, by_slip)
            faster = psi(alphas[:, None] + n) - psi(alphas)[:, None]
            changed = np.einsum("zpn,zpn,zn,z->pz", adjoints[rank], scaled[rank], faster, weights)
            by_doubt += changed / self._labels
        return value, by_slip, by_doubt

    def _falling(self, doubts: Array) -> Array:
        """1 / ν(ν+1)…(ν+n−1), shape (Z, N)."""
        ratio = gammaln(doubts)[:, None] - gammaln(doubts[:, None] + self._n)
        return np.asarray(np.exp(ratio), dtype=np.float64)

    def _polynomials(self, slips: Array, rank: int) -> list[Array]:
        """The polynomial Π(ε/M + (1−ε)x) of a rank before each voter and after all, each (P, D + 1)."""
        current: Array = np.zeros((len(self._rows), self._degrees[rank] + 1))
        current[:, 0] = 1.0
        stages = [current]
        for voter, slip in enumerate(slips):
            longer = slip / self._labels * current
            longer[:, 1:] += (1.0 - slip) * current[:, :-1]
            current = np.where(self._rows[:, voter, None] == rank, longer, current)
            stages.append(current)
        return stages

    def _backpropagate(
        self, slips: Array, rank: int, stages: list[Array], adjoint: Array, by_slip: Array
    ) -> None:
        """Backpropagate the adjoint of a rank's polynomial to the slips; adds to ``by_slip``, (P, K)."""
        for voter in reversed(range(len(slips))):
            voted = self._rows[:, voter] == rank
            before = stages[voter]
            level = (before * adjoint).sum(axis=1)
            shift = (before[:, :-1] * adjoint[:, 1:]).sum(axis=1)
            by_slip[:, voter] += np.where(voted, level / self._labels - shift, 0.0)
            earlier = slips[voter] / self._labels * adjoint
            earlier[:, :-1] += (1.0 - slips[voter]) * adjoint[:, 1:]
            adjoint = np.where(voted[:, None], earlier, adjoint)

    def _scaled(self, forms: list[Array], alphas: Array) -> list[Array]:
        """The polynomial of each rank, coefficients times rising factorials, each (Z, P, D + 1)."""
        return [form * _rising(alphas, self._n[: form.shape[1]])[:, None, :] for form in forms]

    def _products(self, scaled: list[Array]) -> list[Array]:
        """The products of the first 0, 1, … polynomials, each of shape (Z, P, N)."""
        shape = scaled[0].shape[:2] if scaled else (1, len(self._rows))
        current: Array = np.zeros((*shape, len(self._n)))
        current[..., 0] = 1.0
        products = [current]
        for form in scaled:
            following = current * form[..., :1]
            for k in range(1, form.shape[2]):
                following[..., k:] += current[..., :-k] * form[..., k, None]
            current = following
            products.append(current)
        return products

    def _adjoints(self, scaled: list[Array], ahead: list[Array], falling: Array) -> list[Array]:
        """The derivative of the product's linear form ``falling`` by each polynomial, each (Z, P, D + 1)."""
        behind = np.repeat(falling[:, None, :], len(self._rows), axis=1)
        adjoints = []
        for form, product in zip(reversed(scaled), ahead[-2::-1], strict=True):
            adjoint = np.zeros_like(form)
            adjoint[..., 0] = np.einsum("zpn,zpn->zp", product, behind)
            earlier = behind * form[..., :1]
            for k in range(1, form.shape[2]):
                adjoint[..., k] = np.einsum("zpn,zpn->zp", product[..., :-k], behind[..., k:])
                earlier[..., :-k] += behind[..., k:] * form[..., k, None]
            adjoints.append(adjoint)
            behind = earlier
        return adjoints[::-1]


def _rising(alphas: Array, n: Array) -> Array:
    """α(α+1)…(α+n−1), shape (Z, len(n))."""
    return np.asarray(np.exp(gammaln(alphas[:, None] + n) - gammaln(alphas)[:, None]), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _PatternTable:
    """The P distinct patterns among n rounds with K voters."""

    rows: NDArray[np.int64]
    counts: Array
    index: NDArray[np.int64]
    ranked: NDArray[np.int64]


def _tabulate_patterns(votes: NDArray[np.int64]) -> _PatternTable:
    """The distinct patterns of n rounds, from label positions, shape (n, K), −1 for no vote."""
    n, arms = votes.shape
    voted = votes >= 0
    same = (votes[:, :, None] == votes[:, None, :]) & voted[:, :, None]
    size, first = same.sum(axis=2), same.argmax(axis=2)
    leads = voted & (first == np.arange(arms))
    larger = size[:, None, :] > size[:, :, None]
    earlier = (size[:, None, :] == size[:, :, None]) & (first[:, None, :] < first[:, :, None])
    rank = (leads[:, None, :] & (larger | earlier)).sum(axis=2)
    named = np.where(voted, rank, -1)
    rows, index, counts = np.unique(named, axis=0, return_inverse=True, return_counts=True)
    ranked = np.full((n, arms), -1)
    item, voter = np.nonzero(leads)
    ranked[item, named[item, voter]] = votes[item, voter]
    return _PatternTable(rows, counts.astype(np.float64), index.reshape(-1), ranked)


_SLIP = 0.06
"""The probability that the truth is a random label instead of a draw from the task's answers."""

_PRIOR_SLIP, _PRIOR_DOUBT, _PRIOR_SPREAD = 0.1, 0.3, 1.0
"""The prior medians of ε, ν and σ, typical of real vote tables."""


@dataclass(frozen=True, slots=True)
class Panel:
    """The parameters of the panel, estimated from votes.

    Attributes:
        arms: the names of the K models.
        seats: the seat of each model; near-copies share one. Shape (K,).
        slips: ε of each seat, seats ascending.
        doubt: the median of ν over tasks.
        spread: σ, the standard deviation of ln ν over tasks.
    """

    arms: tuple[str, ...]
    seats: tuple[int, ...]
    slips: tuple[float, ...]
    doubt: float
    spread: float

    @classmethod
    def prior(cls, arms: Sequence[str]) -> Panel:
        """The panel before any vote: every parameter at its prior median."""
        seats = tuple(range(len(arms)))
        return cls(tuple(arms), seats, (_PRIOR_SLIP,) * len(seats), _PRIOR_DOUBT, _PRIOR_SPREAD)

    def chances(self, votes: NDArray[np.int64], labels: int) -> Array:
        """The probability of each label in n rounds, shape (n, M), given votes, (n, K), −1 for no vote."""
        _check_panel_votes(votes, self.arms, labels)
        if labels == 1:
            return np.ones((len(votes), 1))
        table = _tabulate_patterns(_merge_copies(votes, self.seats))
        named = self._next_answer(table.rows, labels)[table.index]
        is_named = table.ranked >= 0
        rest = np.maximum(1.0 - named.sum(axis=1), 0.0) / np.maximum(labels - is_named.sum(axis=1), 1)
        chances = np.repeat(rest[:, None], labels, axis=1)
        item, rank = np.nonzero(is_named)
        chances[item, table.ranked[item, rank]] = named[item, rank]
        chances = (1.0 - _SLIP) * chances + _SLIP / labels
        return np.asarray(chances / chances.sum(axis=1, keepdims=True), dtype=np.float64)

    def posterior(self, votes: Mapping[str, str], labels: Sequence[str]) -> dict[str, float]:
        """:meth:`chances` of one round, label → probability; arms unknown to the panel are ignored."""
        for arm, vote in votes.items():
            if vote not in labels:
                raise InvalidParameterError(f"the vote of {arm!r} is outside the label set")
        row = tuple([labels.index(votes[arm]) if arm in votes else -1 for arm in self.arms])
        return dict(zip(labels, _chances_of(self, row, len(labels)), strict=True))

    def _next_answer(self, rows: NDArray[np.int64], labels: int) -> Array:
        """The probability that an answer without a slip is the label at each rank, shape (P, K)."""
        likelihood = _PatternLikelihood(rows, labels)
        doubts = self.doubt * np.exp(self.spread * _NODES)
        return likelihood.next_answer(np.array(self.slips), doubts, _WEIGHTS)

    @classmethod
    def fit(cls, votes: NDArray[np.int64], arms: Sequence[str], labels: int) -> Panel:
        """Fit the panel with the highest posterior density; near-copies share a seat.

        Without votes, or with a single label, the result is :meth:`prior`. The order of the rounds does not
        matter, up to rounding. Rounds in which only some models were asked may be included, if the choice of
        models depended on votes alone. Votes are label positions, shape (n, K); −1 for no vote.
        """
        _check_panel_votes(votes, arms, labels)
        votes = votes[(votes >= 0).sum(axis=1) > 1]
        if not len(votes) or labels < 2:
            return Panel.prior(arms)
        seats = _near_copies_in(votes)
        table = _tabulate_patterns(_merge_copies(votes, seats))
        likelihood, voters = _PatternLikelihood(table.rows, labels), table.rows.shape[1]
        centre = np.append(np.full(voters, logit(_PRIOR_SLIP)), (np.log(_PRIOR_DOUBT), np.log(_PRIOR_SPREAD)))
        scale = np.append(np.full(voters, _SLIP_SCALE), (_DOUBT_SCALE, _SPREAD_SCALE))

        def loss(x: Array) -> tuple[float, Array]:
            slips, doubts = expit(x[:voters]), np.exp(x[voters] + np.exp(x[-1]) * _NODES)
            value, by_slip, by_doubt = likelihood.gradient(slips, doubts, _WEIGHTS)
            share = table.counts / value
            by_log_doubt = (share @ by_doubt) * doubts
            slope = np.concatenate(
                (
                    (share @ by_slip) * slips * (1.0 - slips),
                    (by_log_doubt.sum(), by_log_doubt @ _NODES * np.exp(x[-1])),
                )
            )
            deviation = (x - centre) / scale
            penalty = float(0.5 * deviation @ deviation - table.counts @ np.log(value))
            return penalty, deviation / scale - slope

        radius = _SEARCH_RADIUS * scale
        bounds = list(zip(centre - radius, centre + radius, strict=True))
        x = minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds).x
        slips = expit(x[:voters]).tolist()
        return cls(tuple(arms), seats, tuple(slips), float(np.exp(x[voters])), float(np.exp(x[-1])))


@lru_cache(maxsize=4096)
def _chances_of(panel: Panel, row: tuple[int, ...], labels: int) -> tuple[float, ...]:
    """The chances of one round, cached: most rounds repeat earlier ones."""
    return tuple(panel.chances(np.array([row], dtype=np.int64), labels)[0].tolist())


def _check_panel_votes(votes: NDArray[np.int64], arms: Sequence[str], labels: int) -> None:
    """Check that votes have shape (n, K) for the K ``arms`` and are below ``labels``."""
    if votes.ndim != 2 or votes.shape[1] != len(arms) or labels < 1 or votes.max(initial=-1) >= labels:
        raise InvalidParameterError(
            f"votes of shape {votes.shape} with a maximum of {votes.max(initial=-1)} do not fit"
            f" {len(arms)} models and {labels} labels"
        )


_SLIP_SCALE, _DOUBT_SCALE, _SPREAD_SCALE = 1.5, 0.7, 0.5
"""The standard deviations of the normal priors of logit ε, ln ν and ln σ."""

_SEARCH_RADIUS = 3.0
"""The search is limited to this many prior standard deviations: a very large σ would explain any votes."""


GROWTH: Final = 0.1
"""A scorer is refitted when the number of rounds or of human labels has changed by this share."""

MOST_ROUNDS: Final = 2000
"""A scorer is fitted to this many of the latest rounds; more would hardly change a score."""

MOST_CONFIRMED: Final = 5000
"""A scorer is also fitted to this many of the latest rounds with a human label."""


@dataclass(frozen=True, slots=True)
class FinishedRound:
    """A finished round on one question.

    Attributes:
        votes: arm → vote, or ``None`` if the arm gave no vote.
        label: the label that was decided.
        confirmed: the reward of the label by a human's answer, in [0, 1]; ``None`` without one.
        own: the decision's own score, in [0, 1]; ``None`` if it is not known.
        trust: the trust in it, in [0, 1] (:class:`camvo.votes.aggregation.Decision`).
    """

    votes: Mapping[str, str | None]
    label: str
    confirmed: float | None = None
    own: float | None = None
    trust: float = 0.0


_HIGHEST: Final = 0.999
"""No own score is higher, or lower than the rest: beyond it scores say what a model assumes."""

_LOWEST_EXPONENT, _USUAL_EXPONENT = 0.02, 0.5
"""The lowest exponent, and the one before any round."""


def _fit_exponent(own: Array, surest: Array, weights: Array) -> float:
    """The exponent in (0, 1] with which own scores are on average the panel's surest probabilities."""
    if not weights.sum() > 0.0:
        return _USUAL_EXPONENT
    odds, share = _log_odds(own), weights / weights.sum()

    def excess(exponent: float) -> float:
        return float(share @ (expit(np.minimum(exponent * odds, odds)) - surest))

    if excess(1.0) <= 0.0:
        return 1.0
    if excess(_LOWEST_EXPONENT) >= 0.0:
        return _LOWEST_EXPONENT
    return float(brentq(excess, _LOWEST_EXPONENT, 1.0))


def _tempered(own: ArrayLike, trust: Array, exponent: float) -> Array:
    """Own scores, tempered by the exponent as far as nothing but votes taught them; none gets higher."""
    taught = _taught(trust)
    odds = _log_odds(np.asarray(own, dtype=np.float64))
    lowered = np.minimum((exponent + (1.0 - exponent) * taught) * odds, odds)
    return np.asarray(expit(lowered), dtype=np.float64)


def _taught(trust: Array) -> Array:
    """How far human labels or contexts taught own scores, in [0, 1], by the trust in them."""
    return np.maximum(2.0 * trust - 1.0, 0.0)


def _log_odds(scores: Array) -> Array:
    return np.asarray(logit(np.clip(scores, 1.0 - _HIGHEST, _HIGHEST)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores the decisions on one question.

    Attributes:
        labels: the label set.
        panel: the model of correlated errors.
        calibration: the map from the panel's probability to the score; the identity without human labels.
        exponent: what the log-odds of own scores are multiplied by, in (0, 1].
        evidence: by how much better own scores predicted people's answers than the panel, in nats. An answer
            counts as far as earlier ones had taught the own score.

    >>> from camvo.scores.scorer import Panel
    >>> scorer = Scorer(("neg", "pos"), Panel.prior(("a", "b", "c")))
    >>> round(scorer.score({"a": "pos", "b": "pos", "c": "neg"}, "pos"), 2)
    0.71
    """

    labels: tuple[str, ...]
    panel: Panel
    calibration: Calibration = IDENTITY
    exponent: float = _USUAL_EXPONENT
    evidence: float = 0.0

    def score(self, votes: Mapping[str, str], label: str) -> float:
        """Compute the calibrated probability by the panel that ``label`` is right, given arm → vote.

        Raises:
            InvalidParameterError: a vote is outside the label set.
        """
        return float(self.calibration(self.panel.posterior(votes, self.labels)[label]))

    def score_decision(self, votes: Mapping[str, str], decision: Decision) -> float:
        """Compute the score of a decision: that of :meth:`score` and the decision's own, as far as trusted.

        Raises:
            InvalidParameterError: a vote is outside the label set.
        """
        chances = self.panel.posterior(votes, self.labels)
        row, decided = np.array([[*chances.values()]]), np.array([self.labels.index(decision.label)])
        return float(self.blend(row, decided, decision.score, decision.trust)[0])

    def blend(self, chances: Array, decided: NDArray[np.int64], own: ArrayLike, trust: ArrayLike) -> Array:
        """Compute the scores of n decisions, shape (n,).

        Args:
            chances: the panel's probability of each label, shape (n, M).
            decided: the positions of the decided labels, shape (n,).
            own: the decisions' own scores, shape (n,).
            trust: the trust in each, shape (n,) (:class:`camvo.votes.aggregation.Decision`).
        """
        chance, prior = chances[np.arange(len(decided)), decided], np.asarray(trust, dtype=np.float64)
        share = expit(logit(prior) + self.evidence)
        own = np.asarray(own, dtype=np.float64)
        otherwise = (chance < chances.max(axis=1) - TIE) & (own >= 0.5)
        share = np.where(otherwise, np.minimum(2.0 * share, 1.0), share)
        tempered = _tempered(own, prior, self.exponent)
        return np.asarray(share * tempered + (1.0 - share) * self.calibration(chance), dtype=np.float64)

    @classmethod
    def fit(cls, rounds: Iterable[FinishedRound], arms: Sequence[str], labels: Sequence[str]) -> Scorer:
        """Fit a scorer: panel and exponent to all rounds, calibration and evidence to human labels.

        Args:
            rounds: finished rounds, including those in which only some models were asked. Rounds whose label
                is not in the label set are ignored.
            arms: the names of the K models. Votes of other models, and votes outside the label set, are
                ignored.
            labels: the label set.
        """
        position = {label: at for at, label in enumerate(labels)}
        known = [finished for finished in rounds if finished.label in position]
        rows = [[position.get(finished.votes.get(arm) or "", -1) for arm in arms] for finished in known]
        votes = np.array(rows, dtype=np.int64).reshape(len(known), len(arms))
        panel = Panel.fit(votes, arms, len(labels))
        chances = panel.chances(votes, len(labels))
        decided = np.array([position[finished.label] for finished in known], dtype=np.int64)
        chance, right = chances[np.arange(len(known)), decided], _numbers(each.confirmed for each in known)
        own, trust = _numbers(each.own for each in known), _numbers(each.trust for each in known)
        checked, scored = ~np.isnan(right), ~np.isnan(own) & (trust > 0.0)
        calibration = fit_calibration(chance[checked], right[checked])
        surest = chances[scored].max(axis=1, initial=0.0)
        exponent = _fit_exponent(own[scored], surest, 1.0 - _taught(trust[scored]))
        both = checked & scored
        tempered = _tempered(own[both], trust[both], exponent)
        # This map knows the answers, which own scores do not. Maps that do not, of ten folds, made the ECE no
        # lower: 0.0398 → 0.0408 with 100 labels on five tables, 0.0386 → 0.0388 with 50.
        better = _log_loss(calibration(chance[both]), right[both]) - _log_loss(tempered, right[both])
        evidence = float(_taught(trust[both]) @ better)
        return cls(tuple(labels), panel, calibration, exponent, evidence)


def _log_loss(scores: Array, right: Array) -> Array:
    """The log loss of each score in nats; no score is taken for certain."""
    odds = _log_odds(scores)
    return np.asarray(np.logaddexp(0.0, odds) - right * odds, dtype=np.float64)


def _numbers(values: Iterable[float | None]) -> Array:
    """The values, NaN for none."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
