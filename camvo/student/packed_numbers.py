"""Sets of small numbers in few bytes: a Golomb–Rice code of the gaps between them.

A gap is split into its low bits, whose number follows from how full the set is, and a quotient, which is
written as that many zeros and a one. The n-grams of a text take some 2% more than the entropy of a random
set of as many numbers. Equal sets have equal bytes, so the bytes can be compared instead of the sets.

Source: Rice and Plaunt 1971; the number of low bits is Kiely's (2004), which is best for gaps that are
geometrically distributed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

BOUND: Final = 2**15
"""The numbers are below it."""

_COUNT: Final = np.dtype("<u2")


def pack_numbers(numbers: NDArray[np.integer]) -> bytes:
    """The bytes of a set of numbers.

    Args:
        numbers: distinct numbers in [0, :data:`BOUND`), ascending, shape (f,).

    >>> pack_numbers(np.array([3, 4, 20000])).hex()
    '0300c00000361d90'
    """
    if not len(numbers):
        return b""
    low = _low_bits(len(numbers))
    gaps = np.diff(numbers.astype(np.int64), prepend=-1) - 1
    ends = np.cumsum((gaps >> low) + 1)
    bits = np.zeros(low * len(gaps) + ends[-1], np.uint8)
    bits[: low * len(gaps)] = (gaps[:, None] >> np.arange(low) & 1).ravel()
    bits[low * len(gaps) + ends - 1] = 1
    return np.array(len(gaps), _COUNT).tobytes() + np.packbits(bits).tobytes()


def unpack_numbers(packed: bytes) -> NDArray[np.int64]:
    """Inverse of :func:`pack_numbers`: the numbers, ascending, shape (f,)."""
    if not packed:
        return np.zeros(0, np.int64)
    count = int.from_bytes(packed[: _COUNT.itemsize], "little")
    low = _low_bits(count)
    bits = np.unpackbits(np.frombuffer(packed, np.uint8, offset=_COUNT.itemsize))
    quotients = np.diff(np.flatnonzero(bits[low * count :]), prepend=-1) - 1
    gaps = (quotients << low) + bits[: low * count].reshape(count, low) @ (1 << np.arange(low))
    return np.cumsum(gaps + 1) - 1


def _low_bits(count: int) -> int:
    """How many bits of a gap are written as they are, 0 to 13: from the logarithm of 0.48 of the mean gap."""
    return (BOUND * 48 // (100 * count)).bit_length()
