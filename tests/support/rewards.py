"""Rewards counted from the events' contributions, without the code under test."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from camvo.state.state import Contribution


def rewards(contributions: Iterable[bytes]) -> dict[str, tuple[int, float]]:
    """Arm → (N, Σr) over all changes; arms whose changes cancel out stay."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for packed in contributions:
        for change in Contribution.unpack(packed).changes:
            for reward, sign in ((change.removed, -1), (change.added, 1)):
                if reward is not None:
                    sums[change.arm][0] += sign
                    sums[change.arm][1] += sign * reward
    return {arm: (int(count), total) for arm, (count, total) in sorted(sums.items())}
