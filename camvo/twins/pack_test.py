"""Does a packed arm say what its model says when it is asked about a task alone?

A coin that knows no vote re-asks some packed tasks singly. The test bets that the two differ more often than
:data:`MOST_DISAGREEMENT`. It may be looked at after every comparison: where they differ no more often than
that, it ever says otherwise with a probability of at most :data:`LEVEL`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from camvo.numerics.promises import PromiseTest

MOST_DISAGREEMENT: Final = 0.15
"""How often two votes of one model may differ. Models asked twice in other words differ that often on hard
tasks, so a smaller number would blame packing for it."""

LEVEL: Final = 0.05
"""The probability of ever unpacking an arm that differs no more often, for each question."""


@dataclass(frozen=True, slots=True)
class PackVerdict:
    """What comparisons of packed and single votes say.

    Attributes:
        compared: how many there were.
        differed: in how many of them the votes differed.
        unpacked: whether they differ significantly too often, so that the arm is asked no more.
    """

    compared: int
    differed: int
    unpacked: bool

    @property
    def share(self) -> float | None:
        """The share that differed; ``None`` without a comparison."""
        return self.differed / self.compared if self.compared else None


def judge_pack(agreed: Iterable[bool]) -> PackVerdict:
    """Judge a packed arm by its comparisons, in the order in which they were made.

    >>> judge_pack([True] * 50).unpacked, judge_pack([False] * 10).unpacked
    (False, True)
    """
    test, needed, unpacked = PromiseTest(), math.log(1.0 / LEVEL), False
    for same in agreed:
        test.add(MOST_DISAGREEMENT, right=same)
        unpacked = unpacked or test.evidence >= needed
    return PackVerdict(test.tried, test.tried - test.right, unpacked)
