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
from scipy.special import expit, logit

from camvo.errors import InvalidParameterError
from camvo.numerics.beta_likelihood import fit_beta
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


@dataclass(slots=True)
class ClassSums:
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
        return fit_beta(self.log_q / self.n, self.log_complement / self.n) or moments

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

    Est need not be monotonic in θ, because the two Beta densities may cross twice.

    Args:
        theta: the estimates, shape (…, K); clipped to [ε, 1−ε] here.
        mu: the priors in [0, 1], shape (K,).
        evidence: the three numbers of :meth:`BetaSums.evidence` for all arms, each of shape (K,).

    Returns:
        The probabilities, shape (…, K).
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

    correct: ClassSums = field(default_factory=ClassSums)
    wrong: ClassSums = field(default_factory=ClassSums)

    def add(self, q: float, reward: float, sign: int) -> None:
        """Add (+1) or withdraw (−1) one round.

        Args:
            q: the arm's estimate when the round was planned.
            reward: the arm's reward, in [0, 1].
            sign: +1 or −1.

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
        return cls(ClassSums(*correct), ClassSums(*wrong))
