"""From the ``policy`` section of the settings to a policy."""

from __future__ import annotations

from backend.settings import PolicySettings
from camvo.baselines import Baseline, Majority, Single
from camvo.policy import CaMVo, Policy


def policy_of(settings: PolicySettings) -> Policy:
    """The policy that the settings name; its parameters were validated with them."""
    shared = {"alpha": settings.alpha, "lambda_r": settings.lambda_r}
    match settings.name:
        case "camvo":
            return CaMVo(
                **shared,
                delta=settings.delta,
                k_min=settings.k_min,
                n0=settings.n0,
                confidence=settings.confidence,
            )
        case "baseline":
            return Baseline(**shared)
        case "majority":
            return Majority(**shared)
        case "single":
            return Single(**shared, model=settings.model or "")
