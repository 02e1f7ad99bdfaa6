"""From the ``policy`` section of the settings to a policy."""

from __future__ import annotations

from backend.settings import PolicySettings
from camvo.baselines import Baseline, Majority, Single
from camvo.policy import CaMVo, CCaMVo, Policy
from camvo.sequential import Sequential


def policy_of(settings: PolicySettings, *, alone: bool = False) -> Policy:
    """The policy that the settings name; its parameters were validated with them.

    Args:
        settings: the section ``policy``.
        alone: whether somebody may wait for this one task: whoever is asked is then asked at once.
    """
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
        case "sequential":
            return Sequential(
                alpha=alpha,
                lambda_r=lambda_r,
                estimator=estimator,
                agreement=settings.agreement,
                max_stages=1 if alone else settings.max_stages,
            )
        case "baseline":
            return Baseline(alpha=alpha, lambda_r=lambda_r, estimator=estimator)
        case "majority":
            return Majority(alpha=alpha, lambda_r=lambda_r, estimator=estimator)
        case "single":
            return Single(alpha=alpha, lambda_r=lambda_r, estimator=estimator, model=settings.model or "")
