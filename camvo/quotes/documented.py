"""What a policy costs by what is documented of other projects: a wide range, for a project without rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from camvo.policies.joint import FIRST, MOST_FIRST

_SHARES: Final[Mapping[str, tuple[float, float]]] = {
    "joint": (0.1, 0.6),
    "baseline": (1.0, 1.0),
    "majority": (1.0, 1.0),
}
"""Policy → the lowest and the highest share of the price of asking everyone that its rounds cost.

For ``joint`` they hold every table of docs/results.md, rounds that ask everyone left out. Policies that are
not here may cost anything.
"""

_WITH_AGREEMENT: Final = (0.15, 0.9)
"""The same for ``joint`` where an agreement is required."""


_WITH_STUDENT: Final = 0.12
"""The same, all rounds counted, where a student votes: it may spare every model."""


def documented_share(
    policy: str,
    tasks: int,
    prices: Sequence[float],
    asked: int = 1,
    *,
    student: bool = False,
    agreement: bool = False,
) -> tuple[float, float]:
    """The range of a policy's cost, in prices of asking everyone.

    Args:
        policy: its name.
        tasks: how many tasks the project has.
        prices: the price of asking each arm.
        asked: the fewest arms that it asks (``k_min``).
        student: whether a student votes too.
        agreement: whether an agreement is required.
    """
    total = sum(prices)
    least = sum(sorted(prices)[:asked]) / total if total > 0.0 else 0.0
    low, high = _WITH_AGREEMENT if agreement else _SHARES.get(policy, (least, 1.0))
    if policy != "joint":
        return low, high
    everyone, low = _everyone(tasks, MOST_FIRST if agreement else FIRST) / max(tasks, 1), max(low, least)
    lowest, highest = (everyone + (1.0 - everyone) * share for share in (low, max(low, high)))
    return (max(everyone, min(lowest, _WITH_STUDENT)) if student else lowest), highest


def _everyone(tasks: int, first: int) -> float:
    """How many rounds of a project ask everyone: so many at first, and later ones by a draw."""
    return float(tasks) if tasks <= first else math.sqrt(first**2 + FIRST * (tasks - first))
