"""The reception: connections whose clients are to send something, all in one thread with a selector."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ, BaseSelector
from typing import Any

import structlog

from backend.errors import BusyError, RequestError, SlowRequestError
from backend.server.front.connection import Connection, Stage
from backend.server.front.incoming import IncomingRequest
from backend.server.front.lanes import endpoint_of
from backend.server.front.refusal import refusal

_READ, _READ_BODY = 16 * 1024, 256 * 1024
"""Bytes received at once: between two bodies, and of a body."""
_LOOK_SECONDS = 0.2
"""Between two looks for connections that have waited too long."""
_UNCOUNTED = 64 * 1024
"""Bytes of a request that the bound on all buffered bytes leaves out: a webhook always has room."""
_BODIES = 10
"""The bound on all buffered bytes, in bodies of the greatest length."""

_log = structlog.get_logger(__name__)


class Reception:
    """Receives requests until they are complete, refuses and closes, without a thread of its own.

    Args:
        poller: the selector; each connection's callback is its data.
        config: gunicorn's configuration, for the limits of a header.
        max_body_mb: the longest body in megabytes.
        admit: called with a connection and its complete request; raises ``BusyError`` if it has no place.
        closed: called when a connection is closed.

    Attributes:
        buffered: bytes of all requests that have arrived and not been answered, as far as they count.
    """

    def __init__(
        self,
        poller: BaseSelector,
        config: Any,
        max_body_mb: int,
        *,
        admit: Callable[[Connection, IncomingRequest], None],
        closed: Callable[[], None],
    ) -> None:
        self.buffered = 0
        self._poller, self._config, self._max_body_mb = poller, config, max_body_mb
        self._admit, self._closed = admit, closed
        self._polled: dict[Connection, None] = {}  # as a set that remembers the order
        self._looked_at = 0.0

    def welcome(self, connection: Connection, sent: bytes = b"") -> None:
        """Receive from a connection, beginning with bytes of it that are here already."""
        self._poll(connection)
        if sent:
            self._take_in(connection, sent)
        elif connection.stage is Stage.HEADER:
            self._receive(connection)  # the request has often come with the connection

    def hand_over(self, connection: Connection) -> None:
        """Receive no more from a connection, because its request is to be answered."""
        self._polled.pop(connection)
        self._poller.unregister(connection.sock)

    def forget(self, connection: Connection) -> None:
        """Drop the bytes of a connection's request."""
        if connection.incoming is not None:
            self.buffered -= _counted(connection.incoming)
            connection.incoming = None

    def dismiss(self, connection: Connection) -> None:
        """Close a connection after its client has done so, or after some seconds."""
        self.forget(connection)
        try:
            connection.await_close()
        except OSError:
            self._close(connection)
            return
        if connection not in self._polled:
            self._poll(connection)

    def evict(self) -> None:
        """Close the connection that has waited longest for its client."""
        if self._polled:
            self._close(next(iter(self._polled)))

    def close_expired(self) -> None:
        """Refuse or close the connections that have waited too long for their client."""
        now = time.monotonic()
        if now < self._looked_at + _LOOK_SECONDS:
            return
        self._looked_at = now
        for connection in [*self._polled]:
            if connection.expires_at <= now:
                self._expire(connection)

    def close_all(self) -> None:
        """Close all connections that wait for their client."""
        for connection in [*self._polled]:
            self._close(connection)

    def expect_no_more(self, deadline: float) -> None:
        """Close connections without a complete header at ``deadline``, in monotonic seconds."""
        for connection in self._polled:
            if connection.stage in {Stage.IDLE, Stage.HEADER}:
                connection.expires_at = min(connection.expires_at, deadline)

    def _poll(self, connection: Connection) -> None:
        self._polled[connection] = None
        self._poller.register(connection.sock, EVENT_READ, partial(self._receive, connection))

    def _receive(self, connection: Connection, _: object = None) -> None:
        if connection not in self._polled:
            return  # closed since the selector returned
        try:
            data = connection.sock.recv(_READ_BODY if connection.stage is Stage.BODY else _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(connection)
        elif connection.stage is not Stage.CLOSE:
            self._take_in(connection, data)

    def _take_in(self, connection: Connection, data: bytes) -> None:
        try:
            incoming = connection.incoming or connection.await_header(
                IncomingRequest(self._config, self._max_body_mb)
            )
            before, had_head = _counted(incoming), incoming.has_head
            try:
                incoming.feed(data)
            finally:
                self.buffered += _counted(incoming) - before
            if self.buffered > _BODIES * self._max_body_mb * 1_000_000:
                raise BusyError.now("too many large requests at once")
            if incoming.is_complete:
                self._admit(connection, incoming)
            elif incoming.has_head:
                connection.await_body(len(incoming.received))
                if not had_head and incoming.expects_continue:
                    connection.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        except RequestError as error:
            self._refuse(connection, error)
        except OSError:
            self._close(connection)

    def _expire(self, connection: Connection) -> None:
        if connection.incoming is None:
            self._close(connection)
        else:
            part = "body" if connection.incoming.has_head else "header"
            error = SlowRequestError(f"the {part} did not arrive in time", where=part, fix="send it faster")
            self._refuse(connection, error)

    def _refuse(self, connection: Connection, error: RequestError) -> None:
        """Answer without a thread, and read no further request."""
        from backend.telemetry import metrics  # noqa: PLC0415 - imported in the master, they would be its own

        endpoint = endpoint_of(connection.incoming.target if connection.incoming is not None else "")
        metrics.requests.labels(endpoint=endpoint, status=str(error.status)).inc()
        _log.warning("refused", endpoint=endpoint, code=error.code, reason=str(error))
        with suppress(OSError):
            connection.sock.send(refusal(error))
        self.dismiss(connection)

    def _close(self, connection: Connection) -> None:
        self.forget(connection)
        if connection in self._polled:
            self.hand_over(connection)
        connection.sock.close()
        self._closed()


def _counted(incoming: IncomingRequest) -> int:
    return max(len(incoming.received) - _UNCOUNTED, 0)
