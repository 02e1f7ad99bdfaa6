"""Maximum likelihood for a Beta distribution from its sufficient statistics (Appendix B of the paper).

The paper's system, divided by the number of observations::

    ψ(α) − ψ(α+β) = mean ln q            ψ(β) − ψ(α+β) = mean ln(1−q)

The log-likelihood is strictly concave, so there is one solution at most; there is one as soon as the
observations differ.
"""

from __future__ import annotations

import math

from scipy.special import psi, zeta

MOST_STEPS = 30
"""Newton's method needs at most 7 on anything that was tried; beyond this it is not converging."""

_STEP = 1e-8
"""Relative. Convergence is quadratic: after a step this small what is left is below rounding."""


def fit_beta(log_q: float, log_complement: float) -> tuple[float, float] | None:
    """(α, β) that makes the observations fit_beta, or ``None`` where Newton's method does not get there.

    The solution depends on the two means alone, not on an earlier solution, so that two processes that hold
    the same sums hold the same estimate.

    Args:
        log_q: the mean of ln q.
        log_complement: the mean of ln(1−q).

    >>> alpha, beta = fit_beta(-1.0, -1.0)  # ψ(1) − ψ(2) = −1: the uniform distribution
    >>> round(alpha, 9), round(beta, 9)
    (1.0, 1.0)
    """
    geometric, complement = math.exp(log_q), math.exp(log_complement)
    gap = 1.0 - geometric - complement
    if gap <= 0.0:
        return None
    # ψ(x) ≈ ln(x − ½) turns the system into a linear one: closer than the moments where q piles up at 0 or 1.
    alpha, beta = 0.5 + geometric / (2.0 * gap), 0.5 + complement / (2.0 * gap)
    for _ in range(MOST_STEPS):
        alpha_step, beta_step = _newton(alpha, beta, log_q, log_complement)
        alpha, beta = _moved(alpha, alpha_step), _moved(beta, beta_step)
        if not (math.isfinite(alpha) and math.isfinite(beta)):
            return None
        if abs(alpha_step) <= _STEP * alpha and abs(beta_step) <= _STEP * beta:
            return alpha, beta
    return None


def _newton(alpha: float, beta: float, log_q: float, log_complement: float) -> tuple[float, float]:
    """Newton's step: the score over the Fisher information, both per observation; ψ′(x) is ζ(2, x)."""
    both = alpha + beta
    alpha_score = log_q - float(psi(alpha) - psi(both))
    beta_score = log_complement - float(psi(beta) - psi(both))
    curve_alpha, curve_beta, curve_both = (
        float(zeta(2.0, alpha)),
        float(zeta(2.0, beta)),
        float(zeta(2.0, both)),
    )
    determinant = curve_alpha * curve_beta - curve_both * (curve_alpha + curve_beta)
    if determinant <= 0.0:
        return math.nan, math.nan
    return (
        ((curve_beta - curve_both) * alpha_score + curve_both * beta_score) / determinant,
        ((curve_alpha - curve_both) * beta_score + curve_both * alpha_score) / determinant,
    )


def _moved(value: float, step: float) -> float:
    """The parameter after a step; a downward step is taken in 1/x, which keeps it positive."""
    return value + step if step > 0.0 else value / (1.0 - step / value)
