"""Compact forms of what a ledger holds most of: JSON, contexts, and what rounds teach.

Every form can be told from what earlier versions stored, which stays as it is: JSON and contributions begin
with a brace there, and compressed data never does.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Final

import numpy as np
from sqlalchemy import Dialect, LargeBinary
from sqlalchemy.types import TypeDecorator

from camvo.typing import Array

_BRACE: Final = b"{"
_LEVEL: Final = 9
_DTYPES: Final = ("<f2", "<f4", "<f8")


class PackedJson(TypeDecorator[Any]):
    """A JSON object as compressed bytes; reads uncompressed ones too."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes | None:
        """The bytes to store."""
        if value is None:
            return None
        return compress(json.dumps(value, separators=(",", ":")).encode())

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """The stored object."""
        return None if value is None else json.loads(decompress(_bytes(value)))


def compress(data: bytes) -> bytes:
    """Compress bytes that begin with a brace."""
    return zlib.compress(data, _LEVEL)


def decompress(data: bytes) -> bytes:
    """Inverse of :func:`compress`; data that begins with a brace is returned as it is."""
    return data if data.startswith(_BRACE) else zlib.decompress(data)


def pack_context(context: Array) -> bytes:
    """Serialise a context: three letters of the shortest dtype that loses nothing, then the numbers."""
    for dtype in _DTYPES:
        with np.errstate(over="ignore"):  # a number too large for a dtype does not come back equal
            short = context.astype(dtype)
        if np.array_equal(short.astype(np.float64), context):
            break
    return dtype.encode() + short.tobytes()


def unpack_context(data: bytes | None) -> Array:
    """The stored context as float64, shape (d,); shape (0,) where there is none any more."""
    if data is None:
        return np.zeros(0)
    return np.frombuffer(data[3:], data[:3].decode()).astype(np.float64)


def without_context(contribution: bytes) -> bytes:
    """A packed contribution without its context, which is stored once beside the round."""
    return compress(contribution.partition(b"\n")[0])


def with_context(stored: bytes, context: bytes | None) -> bytes:
    """Inverse of :func:`without_context`; a contribution that holds its context is returned as it is.

    Args:
        stored: the event's column.
        context: the round's context as :func:`pack_context` made it; ``None`` if the event has none.
    """
    if stored.startswith(_BRACE) or context is None:
        return stored
    header = zlib.decompress(stored)
    return header + b"\n" + unpack_context(context).astype(json.loads(header)["dtype"]).tobytes()


def _bytes(value: Any) -> bytes:
    """SQLite hands back the texts of earlier versions as they are."""
    return value.encode() if isinstance(value, str) else bytes(value)
