"""A table of votes, as if every model had been asked about every item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class VotesTable:
    """The votes of K models on n items, as if all of them had been asked.

    Attributes:
        labels: the label set, M labels.
        prices: model → what asking it about one item costs, in any one unit.
        contexts: the items' embeddings, shape (n, d).
        votes: the position of each vote in ``labels``, shape (n, K) in the order of ``prices``; −1 where a
            model gave no answer.
        truth: the position of the right label, shape (n,).

    >>> table = VotesTable(
    ...     labels=("neg", "pos"),
    ...     prices={"small": 1.0, "large": 9.0},
    ...     contexts=np.ones((2, 3)),
    ...     votes=np.array([[1, 1], [1, 0]]),
    ...     truth=np.array([1, 0]),
    ... )
    >>> table.full_cost
    10.0
    """

    labels: tuple[str, ...]
    prices: Mapping[str, float]
    contexts: Array
    votes: NDArray[np.int64]
    truth: NDArray[np.int64]

    def __post_init__(self) -> None:
        n = len(self.truth)
        if self.votes.shape != (n, len(self.prices)) or self.contexts.ndim != 2 or len(self.contexts) != n:
            raise InvalidParameterError(
                f"{n} items and {len(self.prices)} models, but votes {self.votes.shape}"
                f" and contexts {self.contexts.shape}"
            )

    @property
    def full_cost(self) -> float:
        """What asking every model about one item costs."""
        return float(sum(self.prices.values()))
