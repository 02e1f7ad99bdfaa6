"""Calibration: a map from scores to probabilities of being right, learnt from human labels.

There are two families of maps. Both are monotone, so the order of the scores (and of the review queue) never
changes.

- Few labels: Beta calibration (Kull, Silva Filho and Flach, 2017), logit p = a·ln s − b·ln(1 − s) + c with
  a, b ≥ 0. Platt scaling of the logits is the special case a = b. A normal prior is centred on the identity,
  a = b = 1 and c = 0, so the map changes nothing without labels. Its covariance is that of the maps
  fitted to many kinds of synthetic tables. A few labels therefore move the map in the directions in which
  such maps differ.
- Many labels: isotonic regression (PAVA), which can take any monotone shape. The Beta map contributes
  observations worth :data:`_ANCHOR_LABELS` labels in all, spread over the scores. A range of scores without
  an error is therefore not mapped to certainty.

The isotonic map is used if its log loss over five folds is lower than the Beta map's by more than one
standard error of the difference.

**The panel**: the probability of each label if models' errors are correlated, learnt without ground truth.

Lemma 1 and :func:`.label_posterior` assume that errors are independent. Real errors are correlated: a hard
text is hard for all models, and models tend to make the same errors. Under independence, labels with a score
of 0.99 were right in only 85% of the cases. In the panel every task has its own distribution p of answers,
and the truth is one more answer:

- p is drawn from a symmetric Dirichlet distribution over the M labels with total ν. If ν is near 0, one label
  has all the probability. With a larger ν several labels are plausible to all models. ν varies between tasks
  log-normally.
- A model slips with its own probability ε and then names a label at random. Otherwise its vote is drawn from
  p.
- The truth is drawn from p too, like the vote of a model that slips in 6% of the tasks (:data:`SLIP`).

If models make errors independently, ν is estimated near 0, and the panel is the one-coin posterior with
estimated accuracies. The more errors are correlated, the less agreement counts. The likelihood of a vote
pattern is exact. A vote depends on p and the model's slip alone, and integrating
p out leaves sums over how many of a label's votes were not slips. Which models are asked may depend on
earlier votes, as in a plan that asks one after another; the likelihood remains correct.

Votes cannot reveal an error that all models share, such as misreading a convention of the annotators.
:data:`SLIP` accounts for it: between 3% and 6% of the labels of published test sets are contestable, and
overconfidence does more harm than underconfidence. Calibration learns the rest from human labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit, gammaln, logit, logsumexp, psi

from camvo.errors import InvalidParameterError
from camvo.numerics.small import EPSILON, clopper_pearson, upper_bound
from camvo.typing import Array
from camvo.votes.aggregation import Decision

_APART = 0.01
"""Near-copies disagree on at most this share of the items, with confidence :data:`_LEVEL`."""

_RATIO = 0.1
"""Near-copies disagree at most this many times as often as either disagrees with any third model."""

_LEVEL = 0.95
"""The confidence that a pair disagrees rarely: some 300 common rounds without a difference (70 at ½)."""


def _near_copies(shared: Array, apart: Array, level: float = _LEVEL) -> tuple[int, ...]:
    """Assign a seat to each model; near-copies share one."""
    arms = len(shared)
    rate = np.where(shared > 0.0, apart / np.maximum(shared, 1.0), 1.0)
    most = upper_bound(apart, shared, level)
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


def _near_copies_in(votes: NDArray[np.int64], level: float = _LEVEL) -> tuple[int, ...]:
    """Assign seats by :func:`_near_copies` from votes, shape (n, K), −1 for no vote."""
    voted = votes >= 0
    shared = voted.astype(np.float64).T @ voted
    apart = np.zeros_like(shared)
    for arm in range(votes.shape[1]):
        apart[arm] = (voted & voted[:, [arm]] & (votes != votes[:, [arm]])).sum(axis=0)
    return _near_copies(shared, apart, level)


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


SLIP = 0.06
"""The probability that the truth is a random label instead of a draw from the task's answers."""

_PRIOR_SLIP, _PRIOR_DOUBT, _PRIOR_SPREAD = 0.1, 0.3, 1.0
"""The prior medians of ε, ν and σ, typical of real vote tables."""


@dataclass(frozen=True, slots=True)
class Panel:
    """The parameters of the panel, estimated from votes.

    Attributes:
        arms: the names of the K models.
        seats: the seat of each model; near-copies share one (:mod:`camvo.scores.calibration`). Shape (K,).
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
        """The probability of each label in n rounds, shape (n, M), given votes, (n, K), −1 for no vote.

        Raises:
            InvalidParameterError: the votes have another shape, or a vote is outside the label set.
        """
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
        chances = (1.0 - SLIP) * chances + SLIP / labels
        return np.asarray(chances / chances.sum(axis=1, keepdims=True), dtype=np.float64)

    def posterior(self, votes: Mapping[str, str], labels: Sequence[str]) -> dict[str, float]:
        """:meth:`chances` of one round, label → probability. Arms that the panel does not know are ignored.

        Raises:
            InvalidParameterError: a vote is outside the label set.
        """
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
        models depended on votes alone.

        Args:
            votes: label positions, shape (n, K); −1 for no vote.
            arms: the names of the K models.
            labels: M, the number of labels.
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


_PRIOR_MEAN = np.array((1.0, 1.0, 0.0))
_PRIOR_COVARIANCE = np.array(((1.2, -0.64, 1.1), (-0.64, 0.64, -0.9), (1.1, -0.9, 1.44)))
"""The prior of a, b and c. The deviation of the map's logit is 0.4 at a score of 0.5, and 0.9 at 0.9."""

_GATE = 1.0
"""The isotonic map has to be better by this many standard errors."""

_ANCHOR_LABELS, _ANCHOR_POINTS = 20.0, 50
"""The Beta map's weight in the isotonic map, in labels, and the number of scores it is spread over."""

_FOLDS = 5
_FEWEST_ISOTONIC = 200
"""The isotonic map is not tried with fewer labels than this."""


@dataclass(frozen=True, slots=True)
class _Calibration:
    """A monotone map of [0, 1] into itself."""

    knots: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    slopes: tuple[float, float] = (1.0, 1.0)
    shift: float = 0.0
    labels: int = 0

    def __call__(self, scores: ArrayLike) -> Array:
        """Map scores of any shape to probabilities of the same shape; scores are clipped to [0, 1]."""
        inside = np.clip(np.asarray(scores, dtype=np.float64), 0.0, 1.0)
        if self.knots:
            return np.asarray(np.interp(inside, self.knots, self.values), dtype=np.float64)
        return np.asarray(expit(_features(inside) @ np.array((*self.slopes, self.shift))), dtype=np.float64)


IDENTITY = _Calibration()
"""The calibration before the first label."""


def fit_calibration(scores: ArrayLike, right: ArrayLike) -> _Calibration:
    """Fit the Beta map or the isotonic map to human labels; without labels it is the identity.

    A score in [0, 1] was fixed before a human saw the label; ``right`` is the label's reward by the human's
    answer. The same labels in the same order give the same map.

    Raises:
        InvalidParameterError: the shapes differ, or a value is outside [0, 1].
    """
    s, r = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if s.ndim != 1 or s.shape != r.shape or not (_inside(s) and _inside(r)):
        raise InvalidParameterError(
            f"need as many scores as outcomes, all in [0, 1], got shapes {s.shape} and {r.shape}"
        )
    beta = _fit_beta_map(s, r)
    if len(s) < _FEWEST_ISOTONIC:
        return beta
    gain = _isotonic_gains(s, r)
    return _fit_isotonic(s, r, beta) if gain.mean() > _GATE * gain.std() / np.sqrt(len(s)) else beta


def _isotonic_gains(scores: Array, right: Array) -> Array:
    """How much lower the isotonic map's log loss on each held-out label is, in nats, shape (n,)."""
    fold_of = np.arange(len(scores)) % _FOLDS
    gain = np.zeros(len(scores))
    for fold in range(_FOLDS):
        others, held = fold_of != fold, fold_of == fold
        beta = _fit_beta_map(scores[others], right[others])
        isotonic = _fit_isotonic(scores[others], right[others], beta)
        beta_loss = _log_loss(beta(scores[held]), right[held])
        gain[held] = beta_loss - _log_loss(isotonic(scores[held]), right[held])
    return gain


def _fit_beta_map(scores: Array, right: Array) -> _Calibration:
    """The Beta map with the highest posterior density (maximum a posteriori)."""
    features, precision = _features(scores), np.linalg.inv(_PRIOR_COVARIANCE)

    def loss(x: Array) -> tuple[float, Array]:
        eta, pull = features @ x, precision @ (x - _PRIOR_MEAN)
        value = (np.logaddexp(0.0, eta) - right * eta).sum() + 0.5 * pull @ (x - _PRIOR_MEAN)
        return float(value), features.T @ (expit(eta) - right) + pull

    bounds = [(0.0, None), (0.0, None), (None, None)]
    a, b, shift = minimize(loss, _PRIOR_MEAN, jac=True, method="L-BFGS-B", bounds=bounds).x.tolist()
    return _Calibration(slopes=(a, b), shift=shift, labels=len(scores))


def _fit_isotonic(scores: Array, right: Array, beta: _Calibration) -> _Calibration:
    """The isotonic map of the labels and the Beta map's observations: constant blocks, linear in between."""
    anchors = np.quantile(scores, np.linspace(0.0, 1.0, _ANCHOR_POINTS))
    s, r = np.concatenate((scores, anchors)), np.concatenate((right, beta(anchors)))
    weights = np.concatenate((np.ones(len(scores)), np.full(_ANCHOR_POINTS, _ANCHOR_LABELS / _ANCHOR_POINTS)))
    s, group = np.unique(s, return_inverse=True)
    weight = np.bincount(group, weights)
    fitted = isotonic_regression(np.bincount(group, weights * r) / weight, weights=weight)
    edges = np.unique(np.concatenate((fitted.blocks[:-1], fitted.blocks[1:] - 1)))
    return _Calibration(
        tuple(s[edges].tolist()), tuple(fitted.x[edges].tolist()), beta.slopes, beta.shift, beta.labels
    )


def _features(scores: Array) -> Array:
    """The features ln s, −ln(1 − s) and 1, with s clipped to [ε, 1 − ε]; shape (…, 3)."""
    inside = np.clip(scores, EPSILON, 1.0 - EPSILON)
    return np.stack((np.log(inside), -np.log1p(-inside), np.ones_like(inside)), axis=-1)


def _log_loss(chances: Array, right: Array) -> Array:
    """The log loss of each label in nats, shape (n,), from probabilities and rewards, each of shape (n,)."""
    inside = np.clip(chances, EPSILON, 1.0 - EPSILON)
    return np.asarray(-(right * np.log(inside) + (1.0 - right) * np.log1p(-inside)), dtype=np.float64)


def _inside(values: Array) -> bool:
    """Whether all values are in [0, 1]."""
    return bool(np.all((values >= 0.0) & (values <= 1.0)))


BINS = 15
"""The number of bins of a reliability diagram and of the ECE."""


@dataclass(frozen=True, slots=True, eq=False)
class _Reliability:
    """The data of a reliability diagram: B bins of equal width over the scores in [0, 1]."""

    counts: NDArray[np.int64]
    score: Array
    accuracy: Array


def reliability(
    labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64], bins: int = BINS
) -> _Reliability:
    """Sort items into the bins of a reliability diagram.

    The ECE is the mean of |accuracy − score| weighted by the counts. A score on the edge of two bins belongs
    to the lower one. Items without an answer (label −1) or a known truth (−1) are ignored. All arrays have
    shape (n,).
    """
    counted = (truth >= 0) & (labels >= 0)
    score, right = scores[counted], labels[counted] == truth[counted]
    bin_of = np.clip(np.ceil(score * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(bin_of, minlength=bins)
    divisor = np.where(counts > 0, counts, np.nan)
    return _Reliability(
        counts,
        np.bincount(bin_of, score, minlength=bins) / divisor,
        np.bincount(bin_of, right, minlength=bins) / divisor,
    )


def risk_curve(labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64]) -> Array:
    """The error rate among the m items with the highest scores, for m = 1 … n items with known truth.

    Its mean is the AURC. Items with equal scores are averaged over all their orders. Items without an answer
    are wrong, and come last. Labels and truth are positions, shape (N,), −1 for none.
    """
    known = truth >= 0
    doubt = np.where(labels[known] >= 0, -scores[known], np.inf)
    wrong = (labels[known] != truth[known]).astype(np.float64)
    _, group, sizes = np.unique(doubt, return_inverse=True, return_counts=True)
    rates = np.bincount(group, wrong) / sizes
    errors: Array = np.cumsum(np.repeat(rates, sizes)) / np.arange(1, len(wrong) + 1)
    return errors


LEVEL = 0.02
"""α, the probability of ever raising a false alarm about a question, over both directions."""

TOLERANCE = 0.05
"""By how much a score may differ from the share right without an alarm."""

LEAST = 10
"""The fewest labels for an alarm."""

_LATEST = 100
"""The number of labels that decide whether an alarm is over."""

_BETS = np.array([0.4, 0.8, 1.6, 3.2])
"""|λ|: the odds are e^0.4 to e^3.2 times as high, or as low, as promised."""


@dataclass(frozen=True, slots=True)
class ScoreCheck:
    """The scores of the latest labels, and whether people found these labels right.

    Attributes:
        count: the number of these labels.
        score: their mean score.
        share: how many of them were right.
        low: the lower bound of the 95% interval of that (Clopper and Pearson).
        high: the upper bound.
        off: whether scores are too ``high`` or too ``low``; ``None`` if nothing says so.
    """

    count: int
    score: float
    share: float
    low: float
    high: float
    off: Literal["high", "low"] | None

    @classmethod
    def of(cls, labels: Sequence[tuple[float, float]]) -> ScoreCheck | None:
        """Check scores against people's answers; ``None`` without a label.

        Args:
            labels: the score that was fixed before the answer, and the reward, each in [0, 1], in the order
                in which labels were predicted.
        """
        if not labels:
            return None
        scores, rewards = np.asarray(labels, dtype=np.float64).T
        latest_scores, latest_rewards = scores[-_LATEST:], rewards[-_LATEST:]
        low, high = clopper_pearson(float(latest_rewards.sum()), len(latest_rewards))
        mean = float(latest_scores.mean())
        needed = math.log(2.0 / LEVEL)
        off: Literal["high", "low"] | None = None
        if len(labels) >= LEAST:
            if mean - TOLERANCE > high and _evidence(scores - TOLERANCE, rewards, -_BETS) >= needed:
                off = "high"
            elif mean + TOLERANCE < low and _evidence(scores + TOLERANCE, rewards, _BETS) >= needed:
                off = "low"
        return cls(len(latest_rewards), mean, float(latest_rewards.mean()), low, high, off)


def _evidence(promised: Array, rewards: Array, bets: Array) -> float:
    """The logarithm of the wealth, spread evenly over the bets."""
    share = np.clip(promised, 0.0, 1.0)[:, None]
    factors = rewards[:, None] * bets - np.log(1.0 - share + share * np.exp(bets))
    return float(logsumexp(factors.sum(axis=0)) - math.log(len(bets)))


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
    """

    votes: Mapping[str, str | None]
    label: str
    confirmed: float | None = None


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores the decisions on one question.

    Attributes:
        labels: the label set.
        panel: the model of correlated errors.
        calibration: the map from the panel's probability to the score; the identity without human labels.

    >>> from camvo.scores.calibration import Panel
    >>> scorer = Scorer(("neg", "pos"), Panel.prior(("a", "b", "c")))
    >>> round(scorer.score({"a": "pos", "b": "pos", "c": "neg"}, "pos"), 2)
    0.71
    """

    labels: tuple[str, ...]
    panel: Panel
    calibration: _Calibration = IDENTITY

    def score(self, votes: Mapping[str, str], label: str) -> float:
        """Compute the calibrated probability that ``label`` is right, given arm → vote.

        Raises:
            InvalidParameterError: a vote is outside the label set.
        """
        return float(self.calibration(self.panel.posterior(votes, self.labels)[label]))

    def score_decision(self, votes: Mapping[str, str], decision: Decision) -> float:
        """Compute the score of a decision: :func:`blend_scores` of :meth:`score` and the decision's own."""
        return float(blend_scores(self.score(votes, decision.label), decision.score, decision.trust))

    @classmethod
    def fit(cls, rounds: Iterable[FinishedRound], arms: Sequence[str], labels: Sequence[str]) -> Scorer:
        """Fit a scorer: the panel to all votes, the calibration to human labels.

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
        checked = [at for at, finished in enumerate(known) if finished.confirmed is not None]
        decided = [position[known[at].label] for at in checked]
        chances = panel.chances(votes[checked], len(labels))[np.arange(len(checked)), decided]
        right = [known[at].confirmed for at in checked]
        return cls(tuple(labels), panel, fit_calibration(chances, np.array(right, dtype=np.float64)))


def blend_scores(scores: ArrayLike, own: ArrayLike, trust: ArrayLike) -> Array:
    """Blend the scorer's score with the decision's own score, which human labels or contexts taught.

    ``trust`` is the share of the decisions' own scores, in [0, 1]; all arguments have one shape. The two
    complement each other: the panel models how errors are correlated, and the fitted vote models which models
    are right and the effect of the task's context.
    """
    share = np.asarray(trust, dtype=np.float64)
    return share * np.asarray(own, dtype=np.float64) + (1.0 - share) * np.asarray(scores, dtype=np.float64)
