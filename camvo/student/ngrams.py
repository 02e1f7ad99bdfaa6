"""What the student sees of a text: which character n-grams occur in it, as hashed numbers.

Character n-grams need no tokenizer and serve every language. A hash maps them to 2¹⁵ numbers, so a text
becomes a small set of numbers. Parts of a short text could be put together from them, so they are deleted
like texts. Each text that teaches keeps its set for as long as it teaches, so sets are packed wherever they
are kept.
"""

from __future__ import annotations

from base64 import b64decode, b85decode, b85encode
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from camvo.student.packed_numbers import BOUND, pack_numbers, unpack_numbers

FEATURES: Final = BOUND
"""The number of different features."""

LONGEST: Final = 1000
"""How many characters of a text are read. Topics show early, and rows of long texts would fill the memory:
1,000 characters of English take 1.1 kB."""

_LENGTHS: Final = (1, 2, 3, 4)
_MULTIPLIER, _MIXER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_SHIFT, _HALF = np.uint64(64 - 15), np.uint64(32)

Ngrams: TypeAlias = bytes
"""The features of a text: distinct numbers below :data:`FEATURES`, packed. Equal sets have equal bytes."""

_SEAL: Final = b"\xff\xff"
"""Begins what is left of a text's features. No packed set does: its first two bytes are its size."""

_DIGEST: Final = 8
"""Bytes of a digest. Among 20,000 texts, two have the same with a probability of 10⁻¹¹."""

_PACKED: Final = "."
"""Begins the JSON form. Older versions wrote the numbers in base64, which has no point."""


def hashed_ngrams(text: str) -> Ngrams:
    """The features of a text's first characters; case and the kind of blanks do not matter.

    >>> hashed_ngrams("Soup,  cold") == hashed_ngrams("soup, COLD")
    True
    """
    words = " ".join(text.lower().split())[:LONGEST]
    codes = np.frombuffer(f" {words} ".encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    hashes = [_buckets(codes, length) for length in _LENGTHS if len(codes) >= length]
    return pack_numbers(np.unique(np.concatenate(hashes)).astype(np.int64))


def numbers_in(ngrams: Ngrams) -> NDArray[np.int64]:
    """The features as numbers, ascending, shape (f,); none where only their seal is left."""
    return unpack_numbers(b"" if is_sealed(ngrams) else ngrams)


def sealed(ngrams: Ngrams) -> Ngrams:
    """The seal of features, which takes their place where they must be forgotten: a digest of them.

    It says which lesson of the student is taken back, and nothing of the text but whether a guess of the
    whole is right.

    >>> numbers_in(sealed(hashed_ngrams("soup"))).tolist()
    []
    """
    return ngrams if is_sealed(ngrams) else _SEAL + blake2b(ngrams, digest_size=_DIGEST).digest()


def is_sealed(ngrams: Ngrams) -> bool:
    """Whether only the seal is left of the features."""
    return ngrams.startswith(_SEAL)


def to_json(ngrams: Ngrams) -> str:
    """The features as a string of JSON."""
    return _PACKED + b85encode(ngrams).decode()


def from_json(data: str) -> Ngrams:
    """Inverse of :func:`to_json`; it also reads what older versions wrote: 16-bit numbers in base64."""
    if data.startswith(_PACKED):
        return b85decode(data.removeprefix(_PACKED))
    return pack_numbers(np.frombuffer(b64decode(data), "<u2"))


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
