"""The gate before every model call of a process.

It is shut for good when the process stops, and held while paid answers wait for the database.
"""

from __future__ import annotations

from collections.abc import Callable

from backend.errors import StoppingError


class CallGate:
    """Whether model calls may start. It is shut by a signal handler, so shutting it takes no lock."""

    def __init__(self) -> None:
        self._is_shut = False
        self._check_ledger: Callable[[], None] = lambda: None

    def hold_by(self, check: Callable[[], None]) -> None:
        """Let no call start while ``check`` raises an error."""
        self._check_ledger = check

    def shut(self) -> None:
        """Let no further call start; those in flight are not affected."""
        self._is_shut = True

    def admit(self) -> None:
        """Return if a call may start at this moment.

        Raises:
            StoppingError: the process stops.
            LedgerError: paid answers wait for the database, so the answer could not be stored either.
        """
        self.check()
        self._check_ledger()

    def check(self) -> None:
        """Return unless the process stops.

        Raises:
            StoppingError: the process stops.
        """
        if self._is_shut:
            raise stopping()


def stopping() -> StoppingError:
    """Return the error of a call that does not start because the process stops."""
    return StoppingError("the server stops and asks no further model", fix="ask again when it has started")
