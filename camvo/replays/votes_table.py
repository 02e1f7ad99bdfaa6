"""A table of the votes of every model on every item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.twins.same_model import once_each
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
        confidences: how sure each model says it is of its vote, in [0, 1], shape (n, K); NaN where it says
            nothing. ``None`` if no model does.
        texts: the text of each item, n of them, for the student; ``None`` if there are none.

    Raises:
        InvalidParameterError: the shapes do not agree in n or K, or a confidence is outside [0, 1].

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
    confidences: Array | None = None
    texts: Sequence[str] | None = None

    def __post_init__(self) -> None:
        n = len(self.truth)
        if self.votes.shape != (n, len(self.prices)) or self.contexts.ndim != 2 or len(self.contexts) != n:
            raise InvalidParameterError(
                f"{n} items and {len(self.prices)} models need votes of shape ({n}, {len(self.prices)}) and"
                f" contexts of shape ({n}, d), got {self.votes.shape} and {self.contexts.shape}"
            )
        if self.texts is not None and len(self.texts) != n:
            raise InvalidParameterError(f"{n} items need {n} texts, got {len(self.texts)}")
        if self.confidences is not None:
            if self.confidences.shape != self.votes.shape:
                raise InvalidParameterError(
                    f"confidences must have the shape of the votes, {self.votes.shape};"
                    f" got {self.confidences.shape}"
                )
            given = self.confidences[~np.isnan(self.confidences)]
            if not ((given >= 0.0) & (given <= 1.0)).all():
                raise InvalidParameterError("a confidence must be in [0, 1], or NaN where there is none")

    def take(self, items: NDArray[np.int64]) -> VotesTable:
        """The table of these items, given as positions, in their order."""
        return replace(
            self,
            contexts=self.contexts[items],
            votes=self.votes[items],
            truth=self.truth[items],
            confidences=None if self.confidences is None else self.confidences[items],
            texts=None if self.texts is None else [self.texts[item] for item in items.tolist()],
        )

    @property
    def full_cost(self) -> float:
        """The cost of asking every model about one item, by its cheaper arm, in the unit of the prices."""
        return float(sum(once_each(self.prices).values()))
