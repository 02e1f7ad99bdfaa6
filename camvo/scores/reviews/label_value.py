"""What one more human label is worth, in right labels: what it corrects, and what it teaches.

A label corrects its own task's label, which is wrong with probability 1 − score. It also teaches, for all
tasks that are open. What n labels have taught puts right a share of the wrong labels among them:

    ρ(n) = ρ∞ · n / (n + n½)

so the next label puts right W · ρ∞ · n½ / (n + n½)², if W labels are expected to be wrong. Labels teach less
and less. ρ∞ begins with what was measured on real votes. What the project's own labels have changed corrects
it: whether labels that were counted again were right more often, on tasks that people labelled later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from camvo.errors import InvalidParameterError

SHARE: Final = 0.02
_SPREAD: Final = 0.03
"""The prior mean of ρ∞, which is what recounts gained on real votes (docs/review.md), and its deviation."""

HALF: Final = 100.0
"""n½: so many labels teach half of what all labels can teach."""

_IDLE: Final = 5.0
"""A lead time counts as at most so many times the median: people leave tasks open."""

_UNKNOWN_SECONDS, _UNKNOWN_LABELS = 20.0, 3
"""Before lead times are known, a label takes 20 seconds; three such labels are added to those that are."""


@dataclass(frozen=True, slots=True)
class TaughtBefore:
    """What labels have taught so far: seen on tasks that were labelled after their votes were counted again.

    Attributes:
        labels: how many labels had taught when they were counted again.
        wrong: the expected number of wrong labels among these tasks, by their first scores.
        gained: how many more labels were right as counted again than at first; may be negative.
        moved: how many labels became right or wrong when they were counted again.
    """

    labels: float = 0.0
    wrong: float = 0.0
    gained: float = 0.0
    moved: float = 0.0


NOTHING_SEEN: Final = TaughtBefore()


def taught_share(seen: TaughtBefore = NOTHING_SEEN) -> float:
    """Estimate ρ∞, the share of wrong labels that human labels on other tasks can put right.

    Args:
        seen: what labels have taught so far.

    Returns:
        The estimate, at least 0: the mean of the prior and of what was seen, each by its precision.
    """
    reached = seen.labels / (seen.labels + HALF)
    exposure = seen.wrong * reached
    if exposure <= 0.0:
        return SHARE
    observed = seen.gained / exposure
    variance = max(seen.moved, 1.0) / exposure**2
    precision = 1.0 / _SPREAD**2
    return max((SHARE * precision + observed / variance) / (precision + 1.0 / variance), 0.0)


def teaches(wrong: float, labels: int, seen: TaughtBefore = NOTHING_SEEN) -> float:
    """How many labels of other tasks one more human label is expected to put right.

    Args:
        wrong: W, the expected number of wrong labels on open tasks, at least 0.
        labels: n, the number of human labels that have taught already.
        seen: what labels have taught so far.

    Raises:
        InvalidParameterError: ``wrong`` or ``labels`` is negative.
    """
    if wrong < 0.0 or labels < 0:
        raise InvalidParameterError(f"wrong and labels must be at least 0, got {wrong} and {labels}")
    return wrong * taught_share(seen) * HALF / (labels + HALF) ** 2


def seconds_per_label(lead_times: Sequence[float]) -> float:
    """The seconds that a label takes: the mean of lead times, each counted as five times the median at most.

    Args:
        lead_times: seconds of past labels, positive.
    """
    longest = _IDLE * float(np.median(lead_times)) if len(lead_times) else 0.0
    total = sum(min(seconds, longest) for seconds in lead_times)
    return (total + _UNKNOWN_LABELS * _UNKNOWN_SECONDS) / (len(lead_times) + _UNKNOWN_LABELS)
