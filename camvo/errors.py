"""The errors of the algorithm; :mod:`backend.errors` has the others.

``str(error)`` is for people: what went wrong, where, and what to do. ``error.code`` is for programs and never
changes.
"""

from __future__ import annotations


class CamvoError(Exception):
    """Base class of every error that CaMVo raises on purpose.

    Attributes:
        message: what went wrong.
        where: the file, key or task; ``None`` if it is obvious.
        fix: what to do; ``None`` if nothing can be said.
        code: a stable name for programs.

    >>> str(CamvoError("no price", where="models[2]", fix="write input_price: 0"))
    'models[2]: no price (write input_price: 0)'
    """

    code = "camvo_error"

    def __init__(self, message: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        text = self.message if self.where is None else f"{self.where}: {self.message}"
        return text if self.fix is None else f"{text} ({self.fix})"


class InvalidParameterError(CamvoError, ValueError):
    """A parameter, a vote or an array that the algorithm cannot work with. It is a ``ValueError`` too.

    >>> import camvo
    >>> camvo.CaMVo(delta=1.5)
    Traceback (most recent call last):
    camvo.errors.InvalidParameterError: δ must be in [0, 1], got 1.5
    """

    code = "invalid_parameter"


class SnapshotError(CamvoError):
    """Bytes that are not a snapshot of a state, or a snapshot of another format.

    >>> import camvo
    >>> try:
    ...     camvo.State.restore(b"something else")
    ... except camvo.SnapshotError as error:
    ...     print(error.code)
    snapshot_unreadable
    """

    code = "snapshot_unreadable"
