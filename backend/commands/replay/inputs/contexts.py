"""The items' contexts: a file of embeddings, or the embedded texts, cached beside the table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from backend.commands.progress import Advance
from backend.commands.replay.inputs.votes_file import TEXT, VotesFile
from backend.commands.replay.writing import atomic_write, require_writable_file
from backend.errors import ReplayError
from backend.models.embedder.embedder import Embedder
from camvo.numerics.categories import with_category
from camvo.typing import Array

_PORTION = 256
"""Texts embedded between two progress updates."""

_DIMENSION = 384
"""The dimension of contexts that know only categories: that of the default embedder."""


def read_embeddings(path: Path, table: VotesFile) -> Array:
    """Read a ``.npy`` file of embeddings as float64, shape (n, d); row i belongs to the table's item i.

    Raises:
        ReplayError: the file is not such an array, has another shape or dtype, or holds NaN or infinity.
    """
    try:
        contexts = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ReplayError(f"cannot be read ({error.strerror or error})", where=str(path)) from error
    except (ValueError, EOFError) as error:
        raise ReplayError("is not an array in NumPy's .npy format", where=str(path)) from error
    n = len(table.truth)
    if not isinstance(contexts, np.ndarray) or contexts.ndim != 2 or len(contexts) != n or not contexts.size:
        shape = getattr(contexts, "shape", "a file of several arrays")
        raise ReplayError(
            f"{shape} does not fit the {n} items of {table.path}: needs ({n}, d)", where=str(path)
        )
    if contexts.dtype.kind != "f":
        raise ReplayError(f"{contexts.dtype} is not a type of embeddings: needs floats", where=str(path))
    if not (finite := np.isfinite(contexts).all(axis=1)).all():
        row = int(np.argmin(finite))
        raise ReplayError(
            f"row {row} (of 0 to {n - 1}; line {table.lines[row]} of {table.path}) holds NaN or infinity",
            where=str(path),
        )
    return contexts.astype(np.float64)


def embed_texts(table: VotesFile, embedder: Embedder, advance: Advance) -> Array:
    """Return the texts' embeddings, shape (n, d), from the cache beside the table if it exists.

    The cache's name ends in a hash of the texts and the embedder, so a cache is never out of date.

    Args:
        table: a table with texts.
        embedder: the embedder; it is not loaded if the cache exists.
        advance: called with the number of texts embedded since the last call.

    Raises:
        ReplayError: the table has no texts, one is blank, or the cache is damaged or cannot be written.
        EmbedderError: the embedding model is not available.
    """
    texts = _texts(table)
    cache = _cache(table.path, texts, embedder)
    if cache.exists():
        return read_embeddings(cache, table)
    require_writable_file(cache, "the embeddings' cache")
    rows = []
    for start in range(0, len(texts), _PORTION):
        rows.append(embedder.embed(texts[start : start + _PORTION]))
        advance(len(rows[-1]))
    contexts = np.concatenate(rows)
    with atomic_write(cache) as stream:
        np.save(stream, contexts.astype(np.float32))  # lossless: the embedder returns float32
    return contexts


def with_categories(contexts: Array, categories: Sequence[str]) -> Array:
    """Contexts with each item's category, as the server makes them of ``camvo_context``, shape (n, d)."""
    rows = zip(contexts, categories, strict=True)
    return np.array([with_category(context, category) for context, category in rows])


def only_categories(categories: Sequence[str]) -> Array:
    """Contexts that know nothing but each item's category, for tables without texts, shape (n, 384)."""
    return with_categories(np.zeros((len(categories), _DIMENSION)), categories)


def _texts(table: VotesFile) -> Sequence[str]:
    if table.texts is None:
        raise ReplayError(
            f"no column {TEXT!r} to embed", where=str(table.path), fix="add it, or give --embeddings FILE.npy"
        )
    for line, text in zip(table.lines, table.texts, strict=True):
        if not text.strip():
            raise ReplayError(f"a blank {TEXT} cannot be embedded", where=f"{table.path}, line {line}")
    return table.texts


def _cache(path: Path, texts: Sequence[str], embedder: Embedder) -> Path:
    digest = hashlib.sha256(embedder.identity.encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8")).digest())
    return path.with_name(f"{path.stem}.{digest.hexdigest()[:16]}.npy")
