"""The gate before every model call of a process: it is shut for good when the process stops."""

from __future__ import annotations

from backend.errors import StoppingError


class CallGate:
    """Whether model calls may start. It is shut by a signal handler, so shutting it takes no lock."""

    def __init__(self) -> None:
        self._is_shut = False

    def shut(self) -> None:
        """Let no further call start; those in flight are not affected."""
        self._is_shut = True

    def check(self) -> None:
        """Return if a call may start now.

        Raises:
            StoppingError: the process stops.
        """
        if self._is_shut:
            raise StoppingError(
                "the server stops and asks no further model", fix="ask again when it has started"
            )
