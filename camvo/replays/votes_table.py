"""A table of the votes of every model on every item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class VotesTable:
    """The votes of K models on n items.

    Attributes:
        labels: the label set, M labels.
        prices: model → the cost of asking it about one item. All prices have the same unit.
        contexts: the embeddings of the items, shape (n, d).
        votes: the position of each vote in ``labels``, shape (n, K) in the order of ``prices``; −1 where a
            model gave no vote.
        truth: the position of the right label in ``labels``, shape (n,); −1 if it is unknown.

    Raises:
        InvalidParameterError: the shapes do not agree in n or K.

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
                f"{n} items and {len(self.prices)} models need votes of shape ({n}, {len(self.prices)}) and"
                f" contexts of shape ({n}, d), got {self.votes.shape} and {self.contexts.shape}"
            )

    @property
    def full_cost(self) -> float:
        """The cost of asking every model about one item, in the unit of the prices."""
        return float(sum(self.prices.values()))
