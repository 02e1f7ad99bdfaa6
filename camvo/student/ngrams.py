"""What the student sees of a text: which character n-grams occur in it, as hashed numbers.

Character n-grams need no tokenizer and serve every language. A hash maps them to 2¹⁵ numbers, so a text
becomes a small set of 16-bit numbers, from which it cannot be read back.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

FEATURES: Final = 2**15
"""The number of different features."""

LONGEST: Final = 1000
"""How many characters of a text are read. Topics show early, and rows of long texts would fill the memory."""

_LENGTHS: Final = (1, 2, 3, 4)
_MULTIPLIER, _MIXER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_SHIFT, _HALF = np.uint64(64 - 15), np.uint64(32)

Ngrams: TypeAlias = bytes
"""The features of a text: distinct numbers below :data:`FEATURES`, ascending, as 16-bit little-endian."""


def hashed_ngrams(text: str) -> Ngrams:
    """The features of a text's first characters; case and the kind of blanks do not matter.

    >>> hashed_ngrams("Soup,  cold") == hashed_ngrams("soup, COLD")
    True
    """
    words = " ".join(text.lower().split())[:LONGEST]
    codes = np.frombuffer(f" {words} ".encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    hashes = [_buckets(codes, length) for length in _LENGTHS if len(codes) >= length]
    distinct = np.unique(np.concatenate(hashes)) if hashes else np.zeros(0)
    return distinct.astype("<u2").tobytes()


def numbers_in(ngrams: Ngrams) -> NDArray[np.int64]:
    """The features as numbers, shape (f,)."""
    return np.frombuffer(ngrams, "<u2").astype(np.int64)


def _buckets(codes: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
    """The hash of each n-gram of one length: a polynomial of its characters modulo 2⁶⁴, mixed."""
    count = len(codes) - length + 1
    hashes: NDArray[np.uint64] = np.full(count, length, dtype=np.uint64)
    for offset in range(length):
        hashes += codes[offset : offset + count]
        hashes *= _MULTIPLIER
    hashes ^= hashes >> _HALF
    hashes *= _MIXER
    hashes >>= _SHIFT
    return hashes
