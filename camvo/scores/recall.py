"""How much of a label is found: tasks with at least some score of it hold 95% of all that have it.

Each task has a score of the label, such as its probability, fixed before anybody answered. Blind tasks that
people gave the label are a random sample of all tasks with it, and a threshold t finds those with a score of
at least t. So each of them is a trial that succeeds with the probability that is sought: the *recall* of t. A
betting test (:mod:`camvo.scores.guarantee`) of "the recall is at most the target" is valid at every look.

Choosing t among all thresholds needs no correction. The recall falls as t rises, and so does the number of
tasks found at every look, and with it the wealth. Let t* be the lowest threshold whose recall is too low. A
higher one is only certified if t* is too, which has a probability of at most 1 − confidence.

Nothing is assumed of the scores: models may be wrong, related or silent. But the blind tasks must be a random
sample, and people must not have seen the scores. Later tasks are covered once blind tasks among them are
labelled. Only tasks with the label say anything: at 95%, 74 of them are needed if all are found. Blind tasks
chosen where the label is probable would show more of it, but nothing of what is missed elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.scores.guarantee import log_wealth
from camvo.typing import Array

CONFIDENCE: Final = 0.95

_BISECTIONS: Final = 40


@dataclass(frozen=True, slots=True)
class LabelFound:
    """What a threshold finds of a label.

    Attributes:
        threshold: tasks with at least this score are found.
        bound: at least this share of the tasks with the label is found, with the confidence.
        blind: the number of blind tasks with the label, and of those that are neither known nor found.
        found: how many of them are found.
    """

    threshold: float
    bound: float
    blind: int
    found: int


def label_found(
    blind: Sequence[tuple[float, bool | None]], target: float, confidence: float = CONFIDENCE
) -> LabelFound | None:
    """The highest threshold that finds a share ``target`` of a label; ``None`` if none is certified.

    Args:
        blind: the score of each blind task, in [0, 1], and whether people say that it has the label; ``None``
            if that is not known. Such a task counts as missed wherever it is not found.
        target: the share to find, in (0, 1).
        confidence: 1 − α, in (0, 1).

    Raises:
        InvalidParameterError: a parameter is out of range.

    >>> label_found([(0.9, True)] * 60 + [(0.2, True)] * 20 + [(0.1, False)] * 500, 0.95).threshold
    0.2
    """
    if not (0.0 < target < 1.0 and 0.0 < confidence < 1.0):
        raise InvalidParameterError(f"target and confidence must be in (0, 1), got {target} and {confidence}")
    has: Array = np.sort(np.array([score for score, label in blind if label], dtype=np.float64))
    unknown = np.sort([score for score, label in blind if label is None])
    at_or_above, below = np.arange(len(has), 0, -1), np.arange(len(has)) + np.searchsorted(unknown, has)
    found, missed = at_or_above.astype(np.float64), below.astype(np.float64)
    required = -np.log(1.0 - confidence)
    certified = log_wealth(missed, found, np.full(len(has), target)) >= required
    if not certified.any():
        return None
    at = int(np.flatnonzero(certified)[-1])
    at = int(np.searchsorted(has, has[at]))  # equal scores are found together
    low, high = target, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        holds = log_wealth(missed[[at]], found[[at]], np.array([middle]))[0] >= required
        low, high = (middle, high) if holds else (low, middle)
    return LabelFound(float(has[at]), low, int(missed[at] + found[at]), int(found[at]))


def labels_to_find(target: float, confidence: float = CONFIDENCE) -> int:
    """The fewest blind tasks with a label that certify its recall, if every one of them is found.

    >>> labels_to_find(0.95)
    74
    """
    count = 1
    while log_wealth(np.zeros(1), np.full(1, float(count)), np.array([target]))[0] < -np.log(
        1.0 - confidence
    ):
        count += 1
    return count
