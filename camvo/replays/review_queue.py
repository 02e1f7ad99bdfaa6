"""The review queue of a replay: the decided items that a human may label, the least certain first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import TypeAlias

from camvo.errors import InvalidParameterError
from camvo.state.contribution import Contribution

Correction: TypeAlias = Callable[[], Contribution]


class ReviewQueue:
    """Items by their score. Humans label the lowest until they have labelled a given share of all items.

    Args:
        share: of the items added, in [0, 1]. With a share of 0 the queue keeps nothing.

    Raises:
        InvalidParameterError: the share is not in [0, 1].

    >>> queue = ReviewQueue(0.5)
    >>> for item, score in enumerate((0.9, 0.2, 0.7, 0.4)):
    ...     queue.add(item, score, lambda: None)
    >>> [item for item, _ in queue.due()]
    [1, 3]
    """

    def __init__(self, share: float) -> None:
        if not 0.0 <= share <= 1.0:
            raise InvalidParameterError(f"reviewed must be in [0, 1], got {share}")
        self._share = share
        self._waiting: list[tuple[float, int, Correction]] = []
        self._added = self._labelled = 0

    def add(self, item: int, score: float, correct: Correction) -> None:
        """Queue an item.

        Args:
            item: its position; of equal scores, the lower position comes first. Each may be added once.
            score: the score that the queue is sorted by.
            correct: makes the contribution of its human label.
        """
        if self._share:
            self._added += 1
            heapq.heappush(self._waiting, (score, item, correct))

    def due(self) -> Iterator[tuple[int, Correction]]:
        """Take out the items that humans label now, the lowest score first."""
        while self._waiting and self._labelled + 1 <= self._share * self._added:
            self._labelled += 1
            _, item, correct = heapq.heappop(self._waiting)
            yield item, correct
