"""Maximum likelihood for a Beta distribution from its sufficient statistics (Appendix B of the paper).

The paper's system, divided by the number of observations::

    ψ(α) − ψ(α+β) = mean ln q            ψ(β) − ψ(α+β) = mean ln(1−q)

The log-likelihood is strictly concave, so there is at most one solution. There is one as soon as the
observations differ.
"""

from __future__ import annotations

import math

from scipy.special import psi, zeta

_MAX_STEPS = 30
"""Newton's method needed at most 7 steps in every case tried. After this many it is not converging."""

_RELATIVE_STEP = 1e-8
"""Convergence is quadratic: after a relative step this small the remaining error is below rounding."""


def fit_beta(log_q: float, log_complement: float) -> tuple[float, float] | None:
    """Compute the maximum-likelihood (α, β) of a Beta distribution.

    The solution depends on the two means alone, never on an earlier solution. Two processes that hold the
    same sums therefore hold the same estimate.

    Args:
        log_q: the mean of ln q over the observations.
        log_complement: the mean of ln(1−q).

    Returns:
        (α, β), or ``None`` if Newton's method does not converge.

    >>> alpha, beta = fit_beta(-1.0, -1.0)  # ψ(1) − ψ(2) = −1: the uniform distribution
    >>> round(alpha, 9), round(beta, 9)
    (1.0, 1.0)
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
