"""The sums of one model on one question, to which rewards are added and from which they are withdrawn.

**Est_i**: the probability that an arm is right, given its estimate (§3 and Appendix B of the paper).

The estimates q of an arm's past rounds are modelled as Beta-distributed, with one distribution for the rounds
in which the arm was right (h = 1) and one for those in which it was wrong (h = 0); Bayes' rule turns a new
estimate into a posterior. The parameters come from sums alone, by the method of moments or by maximum
likelihood, so a round can be withdrawn again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.linalg.blas import dgemm, dsymm, dsymv, dsyr, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf
from scipy.special import expit, logit, psi, zeta

from camvo.errors import InvalidParameterError
from camvo.numerics.small import EPSILON, within
from camvo.state.contribution import Change
from camvo.typing import Array


def _clip(value: float) -> float:
    """Clip an estimate to [0, 1], so that it is a probability."""
    return 0.0 if value <= 0.0 else 1.0 if value >= 1.0 else value


EstimatorName: TypeAlias = Literal["moments", "mle"]
"""How the Beta parameters are estimated: by the method of moments, or by maximum likelihood."""


_NO_BETA_SPREAD = 1e-12
"""The largest variance that counts as 0: thousands of equal estimates may reach it by rounding."""


def _inside(value: float) -> float:
    return EPSILON if value <= EPSILON else 1.0 - EPSILON if value >= 1.0 - EPSILON else value


_Density: TypeAlias = tuple[float, float, float]
"""α, β and ln B(α, β) of a Beta distribution."""


_MAX_STEPS = 30
"""Newton's method needed at most 7 steps in every case tried. After this many it is not converging."""

_RELATIVE_STEP = 1e-8
"""Convergence is quadratic: after a relative step this small the remaining error is below rounding."""


def _fit_beta(log_q: float, log_complement: float) -> tuple[float, float] | None:
    """The maximum-likelihood (α, β) of a Beta distribution, from the means of ln q and ln(1−q) (Appendix B).

    The paper's system, divided by the number of observations::

        ψ(α) − ψ(α+β) = mean ln q            ψ(β) − ψ(α+β) = mean ln(1−q)

    The log-likelihood is strictly concave, so there is at most one solution, and there is one as soon as the
    observations differ. It depends on the two means alone, so two processes that hold the same sums hold the
    same estimate. ``None`` if Newton's method does not converge.
    """
    geometric, complement = math.exp(log_q), math.exp(log_complement)
    gap = 1.0 - geometric - complement
    if gap <= 0.0:
        return None
    # ψ(x) ≈ ln(x − ½) makes the system linear. Where q piles up at 0 or 1, this start is better than moments.
    alpha, beta = 0.5 + geometric / (2.0 * gap), 0.5 + complement / (2.0 * gap)
    for _ in range(_MAX_STEPS):
        alpha_step, beta_step = _newton_step(alpha, beta, log_q, log_complement)
        alpha, beta = _apply_step(alpha, alpha_step), _apply_step(beta, beta_step)
        if not (math.isfinite(alpha) and math.isfinite(beta)):
            return None
        if abs(alpha_step) <= _RELATIVE_STEP * alpha and abs(beta_step) <= _RELATIVE_STEP * beta:
            return alpha, beta
    return None


def _newton_step(alpha: float, beta: float, log_q: float, log_complement: float) -> tuple[float, float]:
    """Newton's step: the score over the Fisher information, both per observation; ψ′(x) is ζ(2, x)."""
    total = alpha + beta
    alpha_score = log_q - float(psi(alpha) - psi(total))
    beta_score = log_complement - float(psi(beta) - psi(total))
    curve_alpha, curve_beta, curve_total = (
        float(zeta(2.0, alpha)),
        float(zeta(2.0, beta)),
        float(zeta(2.0, total)),
    )
    determinant = curve_alpha * curve_beta - curve_total * (curve_alpha + curve_beta)
    if determinant <= 0.0:
        return math.nan, math.nan
    return (
        ((curve_beta - curve_total) * alpha_score + curve_total * beta_score) / determinant,
        ((curve_alpha - curve_total) * beta_score + curve_total * alpha_score) / determinant,
    )


def _apply_step(value: float, step: float) -> float:
    """The parameter after a step. Downward steps are taken in 1/x, which keeps the parameter positive."""
    return value + step if step > 0.0 else value / (1.0 - step / value)


@dataclass(slots=True)
class _ClassSums:
    """Signed sums over the estimates of one class: n, Σq, Σq², Σln q, Σln(1−q).

    Maximum likelihood needs the logarithms, with q clipped to [ε, 1−ε]. The method of moments needs the other
    sums.
    """

    n: float = 0.0
    q: float = 0.0
    q_squared: float = 0.0
    log_q: float = 0.0
    log_complement: float = 0.0
    _densities: dict[EstimatorName, _Density | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def add(self, q: float, weight: float) -> None:
        """Add ``weight`` observations of the estimate ``q``; a negative weight withdraws them."""
        self._densities.clear()
        q = _clip(q)
        inside = _inside(q)
        self.n += weight
        self.q += weight * q
        self.q_squared += weight * q * q
        self.log_q += weight * math.log(inside)
        self.log_complement += weight * math.log1p(-inside)

    def moments(self) -> tuple[float, float] | None:
        """(α, β) of Proposition B.1, or ``None`` with fewer than two observations or without spread.

        The variance is clipped to [ε, m(1−m)): below, α and β would overflow; above, they would be negative.
        """
        if self.n < 2.0:
            return None
        mean = self.q / self.n
        variance = self.q_squared / self.n - mean * mean
        ceiling = mean * (1.0 - mean)
        if variance <= _NO_BETA_SPREAD or ceiling <= EPSILON:
            return None
        nu = ceiling / min(max(variance, EPSILON), ceiling * (1.0 - EPSILON)) - 1.0
        return mean * nu, (1.0 - mean) * nu

    def likeliest(self) -> tuple[float, float] | None:
        """(α, β) of maximum likelihood (Appendix B), or ``None`` if :meth:`moments` is ``None``.

        Two cases fall back to :meth:`moments`: a variance below ε, and a fit by Newton's method that does not
        converge. The result depends on the sums alone, so a withdrawn round has no lasting effect.
        """
        moments = self.moments()
        if moments is None:
            return None
        mean = self.q / self.n
        if self.q_squared / self.n - mean * mean < EPSILON:
            return moments
        return _fit_beta(self.log_q / self.n, self.log_complement / self.n) or moments

    def density(self, estimator: EstimatorName) -> _Density | None:
        """The density fitted by an estimator, or ``None`` if there is nothing to fit.

        The fit is cached until the sums change.
        """
        if estimator not in self._densities:
            shape = self.moments() if estimator == "moments" else self.likeliest()
            self._densities[estimator] = None if shape is None else (*shape, _log_beta(*shape))
        return self._densities[estimator]


_Evidence: TypeAlias = tuple[float, float, float]
"""The log-ratio of two Beta densities at θ: the coefficients of ln θ and ln(1−θ), and the constant."""

_NO_EVIDENCE: _Evidence = (0.0, 0.0, 0.0)
"""The evidence of two equal densities."""


def posterior(theta: Array, mu: Array, evidence: Sequence[Array]) -> Array:
    """Est(θ) = P(h = 1 | θ) with prior μ (§3, "Bayesian Estimation of Label Correctness"), in [0, 1].

    ``theta`` has shape (…, K), and ``evidence`` holds the three numbers of :meth:`BetaSums.evidence` for all
    arms. Est need not be monotonic in θ, because the two Beta densities may cross twice.
    """
    inside = within(theta, EPSILON, 1.0 - EPSILON)
    on_theta, on_complement, constant = evidence
    log_odds = np.log(inside) * on_theta
    log_odds += np.log1p(-inside) * on_complement
    log_odds += constant + logit(mu)
    probabilities: Array = expit(log_odds)
    return probabilities


def _log_beta(alpha: float, beta: float) -> float:
    """The logarithm of the Beta function."""
    return math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)


@dataclass(slots=True)
class BetaSums:
    """The sums of both classes of one arm. A reward r counts r times for h = 1 and 1 − r times for h = 0."""

    correct: _ClassSums = field(default_factory=_ClassSums)
    wrong: _ClassSums = field(default_factory=_ClassSums)

    def add(self, q: float, reward: float, sign: int) -> None:
        """Add (+1) or withdraw (−1) one round with the estimate q of its plan.

        Raises:
            InvalidParameterError: the reward is outside [0, 1].
        """
        if not 0.0 <= reward <= 1.0:
            raise InvalidParameterError(f"a reward must be in [0, 1], got {reward}")
        if reward > 0.0:
            self.correct.add(q, sign * reward)
        if reward < 1.0:
            self.wrong.add(q, sign * (1.0 - reward))

    def evidence(self, estimator: EstimatorName = "moments") -> _Evidence:
        """Ln f(θ | h = 1) − ln f(θ | h = 0) of the fitted densities, as coefficients.

        If either class has fewer than two observations or no spread, both densities count as 1.
        """
        correct, wrong = self.correct.density(estimator), self.wrong.density(estimator)
        if correct is None or wrong is None:
            return _NO_EVIDENCE
        return correct[0] - wrong[0], correct[1] - wrong[1], wrong[2] - correct[2]

    def to_list(self) -> list[list[float]]:
        """The ten sums, for a snapshot."""
        return [
            [sums.n, sums.q, sums.q_squared, sums.log_q, sums.log_complement]
            for sums in (self.correct, self.wrong)
        ]

    @classmethod
    def from_list(cls, sums: list[list[float]]) -> BetaSums:
        """Inverse of :meth:`to_list`."""
        correct, wrong = sums
        return cls(_ClassSums(*correct), _ClassSums(*wrong))


_VECTORS_DIVISOR = 4
"""Up to d/4 vectors are stored. Solving with them takes at most half the operations of a matrix."""


class Inverse:
    """A⁻¹ = (λ_L·I + Σ eeᵀ)⁻¹, shape (d, d), over the contexts e of an arm's rewards."""

    __slots__ = ("_count", "_matrix", "_scale", "_signs", "_vectors")

    def __init__(self, dimension: int, lambda_l: float) -> None:
        self._scale = 1.0 / lambda_l
        self._vectors: Array = np.empty((dimension // _VECTORS_DIVISOR, dimension))
        self._signs: Array = np.empty(dimension // _VECTORS_DIVISOR)
        self._count = 0
        self._matrix: Array | None = None  # in Fortran order; BLAS would silently work on a copy otherwise

    def solve(self, contexts: Array, out: Array) -> None:
        """Write A⁻¹e of every context e, shape (m, d), into ``out``, shape (m, d), C order."""
        if self._matrix is None:
            vectors, signs = self._vectors[: self._count], self._signs[: self._count]
            np.multiply(contexts, self._scale, out=out)
            if self._count:
                shares = contexts @ vectors.T * signs
                dgemm(1.0, vectors.T, shares.T, beta=1.0, c=out.T, overwrite_c=1)
        elif len(contexts) == 1:
            out[0] = dsymv(1.0, self._matrix, contexts[0], lower=1)
        else:
            dsymm(1.0, self._matrix, contexts.T, c=out.T, overwrite_c=1, lower=1)

    def update(self, contexts: Array, solved: Array, sign: int) -> None:
        """Turn A⁻¹ into (A ± Σ eeᵀ)⁻¹: ``sign`` +1 adds the contexts, −1 withdraws them.

        ``solved`` is the result of :meth:`solve` for the contexts, shape (m, d). It may be overwritten.

        Raises:
            InvalidParameterError: a withdrawn context was never added, so that A would not stay positive
                definite. A⁻¹ is unchanged.
        """
        if len(contexts) == 1:
            pivot = 1.0 + sign * float(solved[0].dot(contexts[0]))
            if pivot <= 0.0:
                raise InvalidParameterError(_NEVER_ADDED)
            self._add(solved / math.sqrt(pivot), -sign)
            return
        capacitance = sign * (contexts @ solved.T)
        capacitance.flat[:: len(capacitance) + 1] += 1.0
        root, failed = dpotrf(capacitance, lower=0)
        if failed:
            raise InvalidParameterError(_NEVER_ADDED)
        self._add(dtrsm(1.0, root, solved.T, side=1, lower=0, overwrite_b=1).T, -sign)

    def full(self) -> Array:
        """A copy of A⁻¹ as a full matrix, shape (d, d)."""
        lower = self._dense() if self._matrix is None else self._matrix
        return np.tril(lower) + np.tril(lower, -1).T

    def to_arrays(self) -> tuple[Array, Array]:
        """A⁻¹ as two arrays, for a snapshot.

        They are the vectors u, shape (n, d), and their signs, shape (n,), with n < d. In matrix form, they
        are the lower triangle, shape (d, d), and an empty array.
        """
        if self._matrix is not None:
            return self._matrix, self._signs
        return self._vectors[: self._count], self._signs[: self._count]

    @classmethod
    def from_arrays(cls, stored: Array, signs: Array, lambda_l: float) -> Inverse:
        """Inverse of :meth:`to_arrays`."""
        inverse = cls(stored.shape[1], lambda_l)
        if len(stored) == stored.shape[1]:
            inverse._use_matrix(np.array(stored, dtype=np.float64, order="F"))
        else:
            inverse._append(stored, signs)
        return inverse

    def with_ridge(self, before: float, after: float) -> Inverse:
        """The same contexts with another ridge strength: A⁻¹ of λ ``before`` becomes that of λ ``after``."""
        full = np.linalg.inv(self.full())
        full.flat[:: len(full) + 1] += after - before
        return Inverse.from_arrays(np.linalg.inv(full), self._signs[:0], after)

    def _add(self, vectors: Array, sign: int) -> None:
        """Add ± Σ uuᵀ to A⁻¹, over the rows u of ``vectors``."""
        if self._matrix is None and self._count + len(vectors) <= len(self._vectors):
            self._append(vectors, np.array(sign))
            return
        if self._matrix is None:
            self._use_matrix(self._dense())
        if len(vectors) == 1:
            dsyr(sign, vectors[0], a=self._matrix, overwrite_a=1, lower=1)
        else:
            dsyrk(sign, vectors.T, beta=1.0, c=self._matrix, overwrite_c=1, lower=1)

    def _append(self, vectors: Array, signs: Array) -> None:
        end = self._count + len(vectors)
        self._vectors[self._count : end] = vectors
        self._signs[self._count : end] = signs
        self._count = end

    def _use_matrix(self, matrix: Array) -> None:
        self._matrix, self._count = matrix, 0
        # Copies, since a view would keep the whole array in memory.
        self._vectors, self._signs = self._vectors[:0].copy(), self._signs[:0].copy()

    def _dense(self) -> Array:
        vectors, signs = self._vectors[: self._count], self._signs[: self._count]
        matrix = np.asfortranarray((vectors.T * signs) @ vectors)
        matrix.flat[:: len(matrix) + 1] += self._scale
        return matrix


_NEVER_ADDED = "cannot withdraw a context that was never added: A would become indefinite"


def score(solved: Array, b: Array, contexts: Array) -> Array:
    """Estimates q = eᵀA⁻¹b and squared widths eᵀA⁻¹e of K arms, shape (K, 2, m) (lines 6–7, before α).

    ``solved`` is A⁻¹e of every arm and context, shape (K, m, d); b has shape (K, d) and contexts (m, d).
    """
    estimates = np.empty((len(solved), 2, len(contexts)))
    np.vecdot(solved, b[:, None], out=estimates[:, 0])
    np.vecdot(solved, contexts, out=estimates[:, 1])
    return estimates


Standing: TypeAlias = tuple[float, float, float, float, float, float]
"""What is known of an arm regardless of the context.

N, μ as it counts in a weight (1 before the first reward), μ as the prior of Est (½ before it), and the three
coefficients of the Beta mixture's evidence.
"""

NEWCOMER: Standing = (0.0, 1.0, 0.5, *_NO_EVIDENCE)
"""The standing of an arm without rewards."""

NOT_LINEAR = "the state keeps no linear models of the context; make it with linear=True"
"""The message of the error for reading A⁻¹ or b of such a state."""

Update: TypeAlias = tuple[Array, bool, float]
"""A context e of shape (d,), whether A becomes A + eeᵀ, and the factor s by which b becomes b + s·e."""


class Arm:
    """The sums of one model on one question.

    Attributes:
        inverse: LinUCB's A⁻¹.
        b: LinUCB's b, shape (d,).
        linear: whether the arm has A⁻¹ and b at all.
        rewards: N, the number of rewards.
        reward_sum: Σr.
        mixture: the sums of the Beta mixture.
    """

    __slots__ = ("_b", "_inverse", "mixture", "reward_sum", "rewards")

    def __init__(
        self,
        inverse: Inverse | None,
        b: Array | None,
        rewards: int = 0,
        reward_sum: float = 0.0,
        mixture: BetaSums | None = None,
    ) -> None:
        self._inverse = inverse
        self._b = b
        self.rewards = rewards
        self.reward_sum = reward_sum
        self.mixture = BetaSums() if mixture is None else mixture

    @property
    def inverse(self) -> Inverse:
        """LinUCB's A⁻¹."""
        if self._inverse is None:
            raise InvalidParameterError(NOT_LINEAR)
        return self._inverse

    @property
    def b(self) -> Array:
        """LinUCB's b, shape (d,)."""
        if self._b is None:
            raise InvalidParameterError(NOT_LINEAR)
        return self._b

    @property
    def linear(self) -> bool:
        """Whether the arm has A⁻¹ and b; without them it learns nothing from contexts."""
        return self._inverse is not None

    @property
    def mu(self) -> float | None:
        """μ = Σr / N, or ``None`` before the first reward (Algorithm 1, line 20)."""
        return self.reward_sum / self.rewards if self.rewards else None

    def standing(self, estimator: EstimatorName) -> Standing:
        """The arm's standing: what is known of it regardless of the context."""
        mu = self.mu
        if mu is None:
            return NEWCOMER
        return float(self.rewards), mu, _clip(mu), *self.mixture.evidence(estimator)

    def learn(self, lessons: Sequence[tuple[Array, Change]]) -> None:
        """Apply changes (Algorithm 1, lines 17–21). A reward that replaces another leaves A unchanged.

        Raises:
            InvalidParameterError: a withdrawn context was never added.
        """
        updates: list[Update] = []
        withdrawn: list[Array] = []
        for context, change in lessons:
            added, removed = change.added, change.removed
            if removed is not None:
                self.rewards -= 1
                self.mixture.add(change.q, removed, -1)
            if added is not None:
                self.rewards += 1
                self.mixture.add(change.q, added, +1)
            elif removed is not None:
                withdrawn.append(context)
            shift = (added or 0.0) - (removed or 0.0)
            self.reward_sum += shift
            updates.append((context, added is not None and removed is None, shift))
        self._learn_contexts(updates, withdrawn)

    def _learn_contexts(self, updates: Sequence[Update], withdrawn: Sequence[Array]) -> None:
        """Update A⁻¹ and b for all changes at once (line 18), and reverse it for withdrawn contexts."""
        if self._inverse is None or self._b is None:
            return
        _add_contexts(self._inverse, [context for context, grows, _ in updates if grows], +1)
        _add_contexts(self._inverse, withdrawn, -1)
        contexts, _, shifts = zip(*updates, strict=True)
        self._b += np.array(shifts) @ np.array(contexts)


def _add_contexts(inverse: Inverse, contexts: Sequence[Array], sign: int) -> None:
    if contexts:
        rows = np.array(contexts, dtype=np.float64)
        solved = np.empty_like(rows)
        inverse.solve(rows, solved)
        inverse.update(rows, solved, sign)


_RUN = 20
"""How many answers in a row must report another version before the arm continues with another history.

While a provider rolls out a version, two versions alternate. Neither of them starts a history until it has
given this many answers in a row.
"""

_MOST_VERSIONS = 8
"""How many versions of an arm may start a history. If a provider keeps reporting new versions, only a test of
the arm's votes starts another."""

_SEPARATOR = "\x1f"


@dataclass(slots=True)
class _Versions:
    """The versions of one arm: the current one, a run of answers by another, and version → its history."""

    current: str
    known: dict[str, int] = field(default_factory=dict)
    other: str | None = None
    run: int = 0


@dataclass(slots=True)
class Histories:
    """Which history of each arm is current.

    Attributes:
        current: arm → the number of its current history; arms that never changed, with number 0, are absent.
        begun: arm → the number of the history that was begun last; absent like those in ``current``.
    """

    current: dict[str, int] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    _versions: dict[str, _Versions] = field(default_factory=dict)

    def name(self, arm: str, number: int) -> str:
        """The name under which the sums of an arm's history are kept."""
        return arm if number == self.current.get(arm, 0) else f"{arm}{_SEPARATOR}{number}"

    def names(self, arms: Mapping[str, int], among: set[str]) -> dict[str, str]:
        """Arm → the name of its history, for those in ``among`` whose history in ``arms`` is not current."""
        return {
            arm: self.name(arm, arms.get(arm, 0))
            for arm in among & (self.current.keys() | arms.keys())
            if arms.get(arm, 0) != self.current.get(arm, 0)
        }

    def current_of(self, arms: Iterable[str]) -> dict[str, int]:
        """Arm → the number of its current history, for those of ``arms`` where it is not 0."""
        return {arm: number for arm in arms if (number := self.current.get(arm, 0))}

    def next(self, arm: str) -> int:
        """The number of the next new history of an arm."""
        return self.begun.get(arm, 0) + 1

    def switch(self, arm: str, number: int, version: str | None) -> dict[str, str]:
        """Make a history current; the result is old → new name of the two histories that change places.

        ``version`` is the arm's version in it; ``None`` if its version stays as it is.
        """
        before = self.current.get(arm, 0)
        self.current[arm] = number
        self.begun[arm] = max(self.begun.get(arm, 0), number)
        if (versions := self._versions.get(arm)) is not None:
            versions.current = version or versions.current
            versions.known[versions.current] = number
            versions.other, versions.run = None, 0
        return {arm: self.name(arm, before), f"{arm}{_SEPARATOR}{number}": arm}

    def note_version(self, arm: str, version: str) -> None:
        """Note the version that an answer of the arm reports. Its first version starts no new history."""
        versions = self._versions.get(arm)
        if versions is None:
            self._versions[arm] = _Versions(version, {version: self.current.get(arm, 0)})
        elif version == versions.current:
            versions.other, versions.run = None, 0
        else:
            versions.run = versions.run + 1 if version == versions.other else 1
            versions.other = version

    @property
    def versions(self) -> dict[str, str]:
        """Arm → the version of its current history, for the arms whose provider reports one."""
        return {arm: versions.current for arm, versions in self._versions.items()}

    def version(self, arm: str) -> str | None:
        """The version of the arm's current history; ``None`` if its provider reports none."""
        return versions.current if (versions := self._versions.get(arm)) is not None else None

    def changed_version(self) -> tuple[str, str, int] | None:
        """An arm whose version has changed, its new version, and the number of the history for it."""
        for arm, versions in self._versions.items():
            other, known = versions.other, versions.known
            if other is not None and versions.run >= _RUN and (other in known or len(known) < _MOST_VERSIONS):
                return arm, other, known.get(other, self.next(arm))
        return None

    def to_list(self) -> list[Any]:
        """The histories as plain JSON, for a snapshot."""
        versions = {arm: asdict(each) for arm, each in self._versions.items()}
        return [self.current, self.begun, versions]

    @classmethod
    def from_list(cls, data: list[Any]) -> Histories:
        """Inverse of :meth:`to_list`."""
        current, begun, versions = data
        return cls(current, begun, {arm: _Versions(**each) for arm, each in versions.items()})


_COUNT, _REWARD, _SQUARE, _PRODUCT = range(4)
_WAITING = 64
"""How many rounds are summed together. Adding them one by one would take longer than the rest of learning."""
_NO_SPREAD = 1e-9
"""The largest n²·variance that counts as 0: equal rewards may reach it by rounding."""


class PairSums:
    """Signed sums over the rounds that rewarded both arms of a pair: n, Σr_i, Σr_i², Σr_i·r_j.

    With rewards of 0 and 1 all sums are counts, so that taking a round back is exact. Only fractional rewards
    need the squares.

    Args:
        names: the K arms in the order of ``sums``.
        sums: shape (4, K, K); zeros by default. Entry [:, i, j] is over the common rounds of i and j. Row i
            holds r_i and r_i², so Σr_j is at [1, j, i].
    """

    def __init__(self, names: Iterable[str] = (), sums: Array | None = None) -> None:
        self._index = {name: position for position, name in enumerate(names)}
        self._sums: Array = np.zeros((4, len(self._index), len(self._index))) if sums is None else sums
        self._waiting: list[tuple[int, Mapping[str, float]]] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The arms in the order of the sums."""
        self._settle()
        return tuple(self._index)

    @property
    def sums(self) -> Array:
        """The sums of all rounds, shape (4, K, K)."""
        self._settle()
        return self._sums

    def add(self, rounds: Iterable[Mapping[str, float]], sign: int) -> None:
        """Add (+1) or take back (−1) rounds. Each counts for every pair of the arms that it rewards.

        Rounds are collected and added up together, at the latest when the sums are read.
        """
        self._waiting.extend([(sign, rewards) for rewards in rounds if len(rewards) > 1])
        if len(self._waiting) >= _WAITING:
            self._settle()

    def rename(self, names: Mapping[str, str]) -> None:
        """Give some arms other names (old → new)."""
        self._settle()
        self._index = {names.get(name, name): position for name, position in self._index.items()}

    def _settle(self) -> None:
        """Add up the rounds that were collected."""
        if not self._waiting:
            return
        named = dict.fromkeys(chain(*(rewards for _, rewards in self._waiting)))
        missing = [arm for arm in named if arm not in self._index]
        if missing:
            self._index |= {arm: len(self._index) + position for position, arm in enumerate(missing)}
            self._sums = np.pad(self._sums, ((0, 0), (0, len(missing)), (0, len(missing))))
        rewarded, r = np.zeros((2, len(self._index), len(self._waiting)))
        entries = [
            (self._index[arm], column, reward)
            for column, (_, rewards) in enumerate(self._waiting)
            for arm, reward in rewards.items()
        ]
        row, column, rewards = zip(*entries, strict=True)
        rewarded[row, column], r[row, column] = 1.0, rewards
        signs = np.array([sign for sign, _ in self._waiting])
        self._sums[:_PRODUCT] += np.array((rewarded, r, r * r)) * signs @ rewarded.T
        self._sums[_PRODUCT] += r * signs @ r.T
        self._waiting.clear()

    def correlation(self, arms: Sequence[str]) -> Array:
        """ρ_ij = cov_ij / (σ_i·σ_j) over the common rounds of each pair of K arms, shape (K, K).

        ρ_ij is 0 in three cases: an arm has no history, there are fewer than two common rounds, or one of the
        two arms always got the same reward. Pairs are estimated on different rounds, so the matrix need not
        be positive semi-definite (:class:`camvo.subsets.confidence.Copula`).
        """
        self._settle()
        rho = np.eye(len(arms))
        known = [position for position, arm in enumerate(arms) if arm in self._index]
        if not known:
            return rho
        at = np.array([self._index[arms[position]] for position in known])
        n, total, square, product = self._sums[:, at[:, None], at]
        spread = n * square - total * total
        varies = (spread > _NO_SPREAD) & (spread.T > _NO_SPREAD) & (n > 1.0)
        scale = np.sqrt(np.where(varies, spread * spread.T, 1.0))
        correlation = np.where(varies, (n * product - total * total.T) / scale, 0.0)
        np.fill_diagonal(correlation, 1.0)
        rho[np.ix_(known, known)] = np.clip(correlation, -1.0, 1.0)
        return rho
