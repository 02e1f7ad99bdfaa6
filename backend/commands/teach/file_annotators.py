"""Who gave the labels of a file: numbers as Label Studio has them, or names."""

from __future__ import annotations

import hashlib

from backend.errors import DatasetError

_FIRST, _NAMES = 10**9, 9 * 10**9
"""Numbers of names have ten digits, far from those that Label Studio gives to users."""


def annotator_number(said: object, place: str) -> int | None:
    """The number of an annotator; ``None`` for nobody in particular.

    A name gets a number of its own, the same every time. The ledger holds the number alone.

    Args:
        said: a number or a name; blank for nobody.
        place: where it stands.

    Raises:
        DatasetError: it is a number that no user can have.
    """
    name = str(int(said) if isinstance(said, float) and said.is_integer() else said or "").strip()
    if not name:
        return None
    if not _is_number(name):
        digest = hashlib.sha256(name.encode()).digest()
        return _FIRST + int.from_bytes(digest[:8], "big") % _NAMES
    if not 0 < int(name) < 2**63:
        raise DatasetError("is not the number of an annotator", where=place, fix="give a number or a name")
    return int(name)


def annotation_number(task: int, annotator: int | None) -> int:
    """The number of somebody's annotation of a task in [0, 2⁶³); without an annotator the task's own."""
    if annotator is None:
        return task
    return int.from_bytes(hashlib.sha256(f"{task}:{annotator}".encode()).digest()[:8], "big") >> 1


def _is_number(name: str) -> bool:
    return name.removeprefix("-").isdecimal() and name.isascii() and len(name) < 20
