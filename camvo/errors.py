"""The errors that the algorithm raises, and the root of the backend's (:mod:`backend.errors` draws the tree).

A person reads ``str(error)``: what went wrong, where, and what to do about it. A program reads
``error.code``, which is stable.

::

    CamvoError
    ├── InvalidParameterError     a parameter or an array the algorithm cannot work with
    └── SnapshotError             bytes that are no snapshot of a state
"""

from __future__ import annotations


class CamvoError(Exception):
    """The root: ``message`` says what went wrong, ``where`` the file, key or task, ``fix`` what to do."""

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
    """A parameter or an array the algorithm cannot work with."""

    code = "invalid_parameter"


class SnapshotError(CamvoError):
    """Bytes that are no snapshot of a state, or one of another shape."""

    code = "snapshot_unreadable"
