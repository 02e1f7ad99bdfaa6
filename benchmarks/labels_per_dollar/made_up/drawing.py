"""Draw votes whose errors share each item's difficulty, and contexts with weak traces of the item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from camvo.replays.replay import VotesTable
from camvo.typing import Array

PRICES = (15.0, 10.0, 5.0, 3.5, 1.2, 0.9, 0.35)
SHARED = 0.8
"""The item's difficulty as a share of the latent variance."""
DECOY = 0.6
"""The share of wrong votes that name the item's decoy; the others name any wrong label."""
DIMENSION = 16


@dataclass(frozen=True, eq=False)
class MadeUp:
    """A drawn table, and what only some kinds have.

    Attributes:
        table: votes, truth, prices and contexts of n items and K models.
        confidences: what each model says of its own vote, in [0, 1], shape (n, K); NaN without a vote.
        texts: n texts.
        groups: the column of the data that skill depends on: each item's task or language, n names.
        change: the first item after the votes have changed; for kinds that are replayed in order.
    """

    table: VotesTable
    confidences: Array | None = None
    texts: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    change: int | None = None


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of table.

    Attributes:
        name: what is special about it.
        items: n, unless another number is asked for.
        labels: M.
        draw: draws n items.
        in_order: whether the order of the items matters, so that a replay must not shuffle them.
    """

    name: str
    items: int
    labels: int
    draw: Callable[[np.random.Generator, int], MadeUp]
    in_order: bool = False


def drawn(kind: Kind, seed: int, items: int | None = None) -> MadeUp:
    """Draw a table of that kind; the same seed and number of items draw the same table."""
    n = items or kind.items
    return kind.draw(np.random.default_rng([seed, n, kind.labels]), n)


def drawn_truth(rng: np.random.Generator, n: int, labels: int) -> NDArray[np.int64]:
    """Right labels, shape (n,); label j is 1/√j times as frequent as the first."""
    share = 1.0 / np.sqrt(np.arange(1, labels + 1))
    return rng.choice(labels, n, p=share / share.sum())


def drawn_latent(rng: np.random.Generator, ease: Array, models: int, shared: float = SHARED) -> Array:
    """How well each model does on each item, standard normal, shape (n, K)."""
    noise = rng.normal(size=(len(ease), models))
    return np.asarray(np.sqrt(shared) * ease[:, None] + np.sqrt(1.0 - shared) * noise)


def drawn_decoys(rng: np.random.Generator, truth: NDArray[np.int64], labels: int) -> NDArray[np.int64]:
    """A wrong label of each item, shape (n,)."""
    return (truth + rng.integers(1, labels, size=len(truth))) % labels


def cast_votes(
    rng: np.random.Generator,
    truth: NDArray[np.int64],
    right: NDArray[np.bool_],
    labels: int,
    *,
    decoys: NDArray[np.int64] | None = None,
    decoy: float = DECOY,
) -> NDArray[np.int64]:
    """The votes of models that are right or wrong, shape (n, K); wrong ones share the item's decoy."""
    decoys = drawn_decoys(rng, truth, labels) if decoys is None else decoys
    other = (truth[:, None] + rng.integers(1, labels, size=right.shape)) % labels
    wrong = np.where(rng.random(right.shape) < decoy, decoys[:, None], other)
    return np.where(right, truth[:, None], wrong)


def voted(
    rng: np.random.Generator,
    truth: NDArray[np.int64],
    accuracies: Sequence[float] | Array,
    labels: int,
    *,
    ease: Array | None = None,
    shared: float = SHARED,
) -> NDArray[np.int64]:
    """Draw votes, shape (n, K), of models with these accuracies, shape (K,) or (n, K)."""
    chances = np.asarray(accuracies, dtype=np.float64)
    ease = rng.normal(size=len(truth)) if ease is None else ease
    right = drawn_latent(rng, ease, chances.shape[-1], shared) > -ndtri(chances)
    return cast_votes(rng, truth, right, labels)


def drawn_contexts(rng: np.random.Generator, truth: NDArray[np.int64], labels: int, ease: Array) -> Array:
    """Unit vectors with weak traces of the difficulty and of the right label, shape (n, 16)."""
    contexts = rng.normal(size=(len(truth), DIMENSION))
    contexts += 0.5 * ease[:, None] * rng.normal(size=DIMENSION)
    contexts += 0.5 * rng.normal(size=(labels, DIMENSION))[truth]
    return np.asarray(contexts / np.linalg.norm(contexts, axis=1, keepdims=True))


def table_of(
    votes: NDArray[np.int64],
    truth: NDArray[np.int64],
    contexts: Array,
    labels: int,
    prices: Sequence[float] = PRICES,
) -> VotesTable:
    """The table of models that are called "model 1" to "model K"."""
    names = (f"model {number}" for number in range(1, len(prices) + 1))
    return VotesTable(
        tuple(f"{label:02d}" for label in range(labels)),
        dict(zip(names, prices, strict=True)),
        contexts,
        votes,
        truth,
    )
