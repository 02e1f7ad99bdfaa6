"""The label of several people, each weighed by how often they are right."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

LEAST_ODDS: Final = 2.0
"""The label must be so many times as likely as any other."""


def log_odds(right: float, labels: int) -> float:
    """Compute what a label of such an annotator weighs: ln p(M − 1)/(1 − p), at least 0.

    Args:
        right: p, how often the annotator is right, in (0, 1).
        labels: M, the number of labels.
    """
    return max(math.log(right) - math.log1p(-right) + math.log(max(labels - 1, 1)), 0.0)


def weighed_label(answers: Iterable[tuple[str, float]], labels: int) -> str | None:
    """The most likely label, if it is :data:`LEAST_ODDS` times as likely as any other label.

    All labels are equally likely before the answers. People of equal accuracy are thus counted as by a
    majority, and equal numbers for two labels decide nothing. Neither does an answer by somebody who is right
    no more often than by chance.

    Args:
        answers: the label and the accuracy, in (0, 1), of each person.
        labels: M, the number of labels.

    >>> weighed_label([("yes", 0.95), ("no", 0.6)], 2)
    'yes'
    >>> weighed_label([("yes", 0.85), ("no", 0.8)], 2)
    """
    odds: dict[str, float] = {}
    for label, right in sorted(answers):
        odds[label] = odds.get(label, 0.0) + log_odds(right, labels)
    leader = max(odds, key=odds.__getitem__, default=None)
    if leader is None:
        return None
    others = [value for label, value in odds.items() if label != leader] or [0.0]
    return leader if odds[leader] - max(others) >= math.log(LEAST_ODDS) else None
