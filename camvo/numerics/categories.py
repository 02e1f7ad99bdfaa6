"""A category, such as a task's language, as part of its context, without a list of all categories."""

from __future__ import annotations

import hashlib

import numpy as np

from camvo.typing import Array


def category_vector(category: str, dimension: int) -> Array:
    """The unit vector of a category: ±1/√d by the bits of its SHAKE-256 hash, shape (d,).

    Vectors of different categories are nearly orthogonal: their inner product is 0 with a standard deviation
    of 1/√d. A new category therefore needs no new coordinate, as it would as one-hot.

    >>> category_vector("de", 4).tolist() == category_vector("de", 4).tolist()
    True
    """
    stream = hashlib.shake_256(category.encode("utf-8", "surrogatepass")).digest((dimension + 7) // 8)
    bits = np.unpackbits(np.frombuffer(stream, dtype=np.uint8))[:dimension]
    return np.asarray((2.0 * bits - 1.0) / np.sqrt(dimension), dtype=np.float64)


def with_category(embedding: Array, category: str) -> Array:
    """A unit vector with an embedding and a category in equal parts, shape (d,).

    Args:
        embedding: the embedding of the task's text, a unit vector of shape (d,).
        category: the category; the embedding is returned unchanged if it is blank.

    Returns:
        The context, rounded to float32, in which the ledger stores contexts.
    """
    if not category.strip():
        return embedding
    both = embedding + category_vector(category.strip(), len(embedding))
    length = float(np.linalg.norm(both))
    return np.asarray(both / length if length > 0.0 else both).astype(np.float32).astype(np.float64)
