"""From the ``policy`` section of the settings to a policy."""

from __future__ import annotations

from backend.settings import PolicySettings
from camvo.baselines import Baseline, Majority, Single
from camvo.policy import CaMVo, CCaMVo, Policy


def policy_of(settings: PolicySettings) -> Policy:
    """The policy that the settings name; its parameters were validated with them."""
    alpha, lambda_r, estimator = settings.alpha, settings.lambda_r, settings.estimator
    delta, k_min, n0 = settings.delta, settings.k_min, settings.n0
    match settings.name:
        case "camvo":
            return CaMVo(
                alpha=alpha,
                lambda_r=lambda_r,
                estimator=estimator,
                delta=delta,
                k_min=k_min,
                n0=n0,
                confidence=settings.confidence,
            )
        case "ccamvo":
            return CCaMVo(
                alpha=alpha, lambda_r=lambda_r, estimator=estimator, delta=delta, k_min=k_min, n0=n0
            )
        case "baseline":
            return Baseline(alpha=alpha, lambda_r=lambda_r, estimator=estimator)
        case "majority":
            return Majority(alpha=alpha, lambda_r=lambda_r, estimator=estimator)
        case "single":
            return Single(alpha=alpha, lambda_r=lambda_r, estimator=estimator, model=settings.model or "")
