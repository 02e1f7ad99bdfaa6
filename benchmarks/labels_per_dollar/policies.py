"""The policies that are compared and their parameters: name of the row → policy."""

from __future__ import annotations

from camvo.policies.camvo import CaMVo, CCaMVo
from camvo.policies.ensemble import Majority, Random, Single
from camvo.policies.joint import Joint
from camvo.policies.policy import Policy
from camvo.policies.rivals import BestSingle, Cascade, Router

AGREEMENTS = (1.0, 0.995, 0.99, 0.98, 0.97, 0.95, 0.93)
DELTAS = {3: (0.9, 0.93, 0.95, 0.97, 0.99), 1: (0.9, 0.95, 0.98)}
FEW_DELTAS = (0.9, 0.95, 0.97, 0.99)
CCAMVO_DELTAS = (0.9, 0.95, 0.97)
THRESHOLDS = (0.9, 0.99, 0.999)
LEARNED_THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SHARES = (0.2, 0.35, 0.5)
GAINS = (-0.05, 0.0, 0.05, 0.1, 0.2, 0.4)
"""Thresholds of the router: the gain from which on the dearest model is asked."""
WORTHS = (5.0, 10.0, 15.0, 20.0, 40.0)
LABELLED = 0.05
SHOWN = (
    "joint 15",
    "joint 15, 500 labels",
    "joint, agreement 0.99",
    "camvo 0.97, k_min 3",
    "majority",
)
"""Rows whose calibrated scores are measured as well."""


def agreeing(agreements: tuple[float, ...] = AGREEMENTS, labels: str = "") -> dict[str, Policy]:
    """The joint policy with an agreement; ``labels`` says in the name how many human labels there are."""
    return {
        f"joint, agreement {agreement:g}{labels and f', {labels}'}": Joint(agreement=agreement)
        for agreement in agreements
    }


def camvo(deltas: dict[int, tuple[float, ...]]) -> dict[str, Policy]:
    return {
        f"camvo {delta:g}, k_min {k_min}": CaMVo(delta=delta, k_min=k_min)
        for k_min, row in deltas.items()
        for delta in row
    }


def ccamvo() -> dict[str, Policy]:
    return {f"ccamvo {delta:g}, k_min 3": CCaMVo(delta=delta, k_min=3) for delta in CCAMVO_DELTAS}


def joint(worths: tuple[float, ...] = WORTHS, labels: str = "") -> dict[str, Policy]:
    """The joint policy; ``labels`` says in the name how many human labels there are."""
    return {f"joint {worth:g}{labels and f', {labels}'}": Joint(worth=worth) for worth in worths}


def labelled_rivals(items: int) -> dict[str, Policy]:
    """Rivals that learn from the first 5% of the items, which humans label."""
    first = round(LABELLED * items)
    return {
        "best-single, same labels": BestSingle(first=first),
        **{f"router {gain:g}": Router(threshold=gain, first=first) for gain in GAINS},
    }


def others(best: str) -> dict[str, Policy]:
    """The policies that need no context."""
    return {
        **{f"cascade {threshold:g}": Cascade(threshold=threshold) for threshold in THRESHOLDS},
        **{f"random {share:.2g}": Random(share=share) for share in SHARES},
        "best single model": Single(model=best),
        "majority": Majority(),
    }
