"""Est_i(·): the probability that an arm is right, given its estimate (§3 and Appendix B of the paper).

The estimates q of an arm's past rounds are modelled as Beta-distributed, with one distribution for the rounds
in which the arm was right (h = 1) and one for those in which it was wrong (h = 0); Bayes' rule turns a new
estimate into a posterior. The parameters come from sums alone, by the method of moments or by maximum
likelihood, so a round can be withdrawn again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import expit, logit, psi, zeta

from camvo.errors import InvalidParameterError
from camvo.numerics.small import EPSILON, clip
from camvo.typing import Array

EstimatorName: TypeAlias = Literal["moments", "mle"]
"""How the Beta parameters are estimated: by the method of moments, or by maximum likelihood."""


NO_SPREAD = 1e-12
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
        q = clip(q)
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
        if variance <= NO_SPREAD or ceiling <= EPSILON:
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

NO_EVIDENCE: _Evidence = (0.0, 0.0, 0.0)
"""The evidence of two equal densities."""


def posterior(theta: Array, mu: Array, evidence: Sequence[Array]) -> Array:
    """Est(θ) = P(h = 1 | θ) with prior μ (§3, "Bayesian Estimation of Label Correctness"), in [0, 1].

    ``theta`` has shape (…, K), and ``evidence`` holds the three numbers of :meth:`BetaSums.evidence` for all
    arms. Est need not be monotonic in θ, because the two Beta densities may cross twice.
    """
    inside = np.minimum(np.maximum(theta, EPSILON), 1.0 - EPSILON)
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
            return NO_EVIDENCE
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
