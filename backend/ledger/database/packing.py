"""Compact forms of a ledger's most frequent contents: JSON, contexts, and the lessons of rounds."""

from __future__ import annotations

import json
import zlib
from typing import Any, Final

import numpy as np
from sqlalchemy import Dialect, LargeBinary
from sqlalchemy.types import TypeDecorator

from camvo.numerics.small import is_known, unknown_context
from camvo.student import Ngrams
from camvo.typing import Array

_BRACE: Final = b"{"
"""The first byte of a contribution that holds its context."""

_FIRST: Final = b"\x01"
"""The first byte of data compressed with the first dictionary."""

_DICTIONARY: Final = (
    b'"spans":"numbers":"rankings":"texts":"sets":"confidences":{"examples":["studied":[["taught":["un'
    b'taught":["histories":{"restarts":1,"restart":{"sure":[["dropped":[[["kept":[[["agreements":{"wor'
    b'th":{"families":[["kinds":[0.3333333333333333,0.6666666666666666]},"effective_votes":"shortlist"'
    b':["everyone":0.0,"accuracy":{"stages":{"order":["first":2,"kept":false},"kept":true},"coin":"eve'
    b'ryone","propensity":0.18,"coin":"nobody","propensity":1.0,"joint":{"aggregation":{"name":"labels'
    b'"},"score":0.9"versions":{"labels":["subset":["confidence":null,"complete":true,"arms":{":{"cost'
    b'":0.000"propensity":1.0,"rewards":10.0,"agreement":0.8"q":0.5,"lower":0.7"weight":0.4"correctnes'
    b's":0.7},"propensity":0.18,"rewards":100.0,"agreement":0.9"q":0.5,"lower":0.8"weight":0.4"correct'
    b'ness":0.9},{"dtype":"<f4","rounds":1,"changes":[],"probe":[[","versions":{"[0,1,1,0,0],false,nul'
    b'l]{"dtype":"<f4","rounds":1,"changes":[[",0.5,null,1.0],[",0.5,null,0.0],[",0.5,0.0,1.0],['
)
"""Text that plans and contributions have in common, the most frequent last.

Ledgers depend on every byte of it. Data compressed with another dictionary begins with another byte, and this
dictionary is kept for reading."""

_DTYPES: Final = ("<f2", "<f4", "<f8")
_UNKNOWN: Final = b"nil"
TEXT: Final = b"txt"
"""The first bytes of a context that is stored with n-grams."""

_LENGTH: Final = 2
"""Bytes for the length of a text's n-grams, which are 4 kB at most."""


class PackedJson(TypeDecorator[Any]):
    """A JSON object as compressed bytes."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes | None:
        """The bytes to store."""
        if value is None:
            return None
        return _compress(json.dumps(value, separators=(",", ":")).encode())

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """The stored object."""
        return None if value is None else json.loads(_decompress(bytes(value)))


def _compress(data: bytes) -> bytes:
    """Compress bytes that begin with a brace."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY)
    return _FIRST + compressor.compress(data) + compressor.flush()


def _decompress(data: bytes) -> bytes:
    """Inverse of :func:`_compress`."""
    return zlib.decompressobj(-15, _DICTIONARY).decompress(data[1:])


def pack_context(context: Array, text: Ngrams = b"") -> bytes:
    """Serialise a context: three letters of the shortest dtype that loses nothing, then the numbers.

    Of an unknown context only its length is kept. The n-grams of a text that teaches the student come first,
    after three letters of their own and their length.
    """
    if text:
        return TEXT + len(text).to_bytes(_LENGTH, "little") + text + pack_context(context)
    if not is_known(context):
        return _UNKNOWN + len(context).to_bytes(4, "little")
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
    data = _halves(data)[1]
    if data.startswith(_UNKNOWN):
        return unknown_context(int.from_bytes(data[len(_UNKNOWN) :], "little"))
    return np.frombuffer(data[3:], data[:3].decode()).astype(np.float64)


def unpack_text(data: bytes | None) -> Ngrams:
    """The n-grams that are stored before a context; empty if there are none."""
    return b"" if data is None else _halves(data)[0]


def _halves(data: bytes) -> tuple[Ngrams, bytes]:
    """What :func:`pack_context` made: the n-grams, and the context alone."""
    if not data.startswith(TEXT):
        return b"", data
    start = len(TEXT) + _LENGTH
    end = start + int.from_bytes(data[len(TEXT) : start], "little")
    return data[start:end], data[end:]


def without_context(contribution: bytes) -> bytes:
    """A packed contribution without its context and n-grams, which are stored once beside the round."""
    return _compress(contribution.partition(b"\n")[0])


def with_context(stored: bytes, context: bytes | None) -> bytes:
    """Inverse of :func:`without_context`; a contribution that holds its context is returned as it is.

    If the n-grams have been sealed since, the contribution has the seal.
    """
    if stored.startswith(_BRACE) or context is None:
        return stored
    header = _decompress(stored)
    fields = json.loads(header)
    text = unpack_text(context) if "text" in fields else b""
    if len(text) != fields.get("text", 0):
        header = json.dumps(fields | {"text": len(text)}, separators=(",", ":")).encode()
    return header + b"\n" + unpack_context(context).astype(fields["dtype"]).tobytes() + text
