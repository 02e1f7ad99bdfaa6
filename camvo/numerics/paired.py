"""Two ways of labelling the same tasks, compared by how right each is on each task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_Z: Final = 1.959963984540054
"""The two-sided 95% quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Paired:
    """A paired comparison.

    Attributes:
        tasks: how many tasks both ways labelled.
        before: the mean reward of the first way.
        after: that of the second.
        difference: ``after`` − ``before``.
        low: the lower end of the 95% interval of the difference.
        high: the upper end.
        more: how many further tasks would tell the two apart, if the difference stays what it is; 0 if they
            are told apart already, ``None`` if there is no difference at all.
    """

    tasks: int
    before: float
    after: float
    difference: float
    low: float
    high: float
    more: int | None


def compare_paired(rewards: Sequence[tuple[float, float]]) -> Paired | None:
    """Compare two ways by their rewards in [0, 1], one pair for each task; ``None`` without any task.

    The interval is the adjusted Wald interval of Bonett and Price (2012) for paired proportions, which adds
    one task to each kind of discordant pairs. A fractional difference counts by its square.
    """
    tasks = len(rewards)
    if not tasks:
        return None
    total = math.fsum(after - before for before, after in rewards)
    squares = math.fsum((after - before) ** 2 for before, after in rewards)
    larger = tasks + 2.0
    centre = total / larger
    half = _Z * math.sqrt(max((squares + 2.0) / larger - centre**2, 0.0) / larger)
    low, high = max(centre - half, -1.0), min(centre + half, 1.0)
    more: int | None = 0
    if low <= 0.0 <= high:
        more = max(math.ceil(_Z**2 * squares * tasks / total**2) - tasks, 1) if abs(total) > 1e-9 else None
    before = math.fsum(pair[0] for pair in rewards) / tasks
    after = math.fsum(pair[1] for pair in rewards) / tasks
    return Paired(tasks, before, after, total / tasks, low, high, more)
