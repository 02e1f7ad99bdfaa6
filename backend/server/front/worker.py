"""The worker class: gunicorn's threaded worker, except that whole requests enter threads, not connections.

gunicorn's own gives each accepted connection a thread, which reads from it without a limit of time: a few
dozen slow clients stop the server, and predictions that wait for models keep webhooks waiting. Here the main
thread receives all requests with its selector. A complete one is admitted to the lane of its urgency. This
uses internals of gunicorn 27; ``pyproject.toml`` bounds its version.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ
from typing import Any

import structlog
from gunicorn.http.errors import ExpectationFailed, ParseException
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, ThreadWorker

from backend.errors import BusyError, MalformedRequestError, RequestError, SlowRequestError
from backend.server.front.connection import Connection, Stage
from backend.server.front.incoming import IncomingRequest
from backend.server.front.lanes import Lane, Lanes, endpoint_of
from backend.server.front.refusal import refusal

_READ, _READ_BODY = 16 * 1024, 256 * 1024
"""Bytes received at once: between two bodies, and of a body."""
_SEND_SECONDS = 60.0
"""For a client to take an answer."""
_LOOK_SECONDS = 0.2
"""Between two looks for connections that have waited too long."""
_UNCOUNTED = 64 * 1024
"""Bytes of a request that the bound on all buffered bytes leaves out: a webhook always has room."""
_BODIES = 10
"""The bound on all buffered bytes, in bodies of the greatest length."""
_SAME_SIGNAL = 1.0
"""Seconds in which a repeated signal is the same one."""
_ENDING_SECONDS = 5.0
"""For what a worker does after its last call, such as closing the ledger."""

_log = structlog.get_logger(__name__)


class _InternalError(RequestError):
    """An error outside the application, which answers its own."""

    code = "internal"
    status = 500


class FrontWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """A worker process's main thread, and its lanes of threads."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._max_body_mb: int = self.app.environment.max_body_mb
        self._buffered = 0
        self._polled: dict[Connection, None] = {}  # as a set that remembers the order
        self._looked_at = 0.0
        self._stopped_at: float | None = None

    # -- what gunicorn calls

    def get_thread_pool(self) -> Lanes:
        """Create the lanes; gunicorn shuts down what this returns."""
        self._lanes = Lanes(self.cfg.threads)
        return self._lanes

    def accept(self, listener: Any) -> None:
        """Accept a connection. At the limit, the one that has waited longest for its client is closed."""
        try:
            sock, client = listener.accept()
        except OSError:
            return  # the client has gone, or another worker was faster
        self.nr_conns += 1
        if self.nr_conns >= self.worker_connections and self._polled:
            self._close(next(iter(self._polled)))
        connection = Connection(sock, client, listener.getsockname())
        self._poll(connection)
        self._receive(connection)  # the request has often come with the connection

    def murder_keepalived(self, force: bool = False) -> None:
        """Close the connections that have waited too long for their client, or all of them."""
        now = time.monotonic()
        if not force and now < self._looked_at + _LOOK_SECONDS:
            return
        self._looked_at = now
        for connection in [*self._polled]:
            if force:
                self._close(connection)
            elif connection.expires_at <= now:
                self._expire(connection)

    def _cap_keepalive(self, deadline: float) -> None:
        """Close connections without a complete header at ``deadline``, since the worker stops."""
        for connection in self._polled:
            if connection.stage in {Stage.IDLE, Stage.HEADER}:
                connection.expires_at = min(connection.expires_at, deadline)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop: ask no model any more, answer the requests that are here, then end."""
        self._stop_asking()
        super().handle_exit(sig, frame)

    def handle_quit(self, sig: int, frame: Any) -> None:
        """Stop and take in no further request; the calls in flight are awaited all the same.

        Ctrl-C in a terminal arrives twice, from the terminal and from the master. Later signals end the wait.
        """
        stopped_at = self._stopped_at
        self._stop_asking()
        if stopped_at is None or time.monotonic() > stopped_at + _SAME_SIGNAL:
            super().handle_quit(sig, frame)

    def _stop_asking(self) -> None:
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            self.app.stop_asking()

    @property
    def patience(self) -> float:
        """Seconds that are left for the work under way before the master kills this worker."""
        since = time.monotonic() - (self._stopped_at or time.monotonic())
        return max(float(self.cfg.graceful_timeout) - since - _ENDING_SECONDS, 0.0)

    def handle(self, conn: Connection) -> bool:
        """Serve a complete request; return whether the connection can be used again."""
        try:
            request = next(conn.parser)
            request._expected_100_continue = False  # the body is here
            return bool(self.handle_request(request, conn))
        except OSError:
            return False  # the client has gone, or does not take the answer
        except Exception as error:
            with suppress(OSError):
                self.handle_error(None, conn.sock, conn.client, error)
            return False

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        """Answer a request that gunicorn refuses only as a whole, such as one with an unknown ``Expect``."""
        _log.warning("refused", code="http", kind=type(exc).__name__)
        if isinstance(exc, ParseException):
            status = 417 if isinstance(exc, ExpectationFailed) else 400
            client.sendall(refusal(MalformedRequestError("not a valid HTTP request", status=status)))
        else:
            client.sendall(refusal(_InternalError("an error in CaMVo", fix="see CaMVo's log")))

    # -- receiving

    def _poll(self, connection: Connection) -> None:
        self._polled[connection] = None
        self.poller.register(connection.sock, EVENT_READ, partial(self._receive, connection))

    def _unpoll(self, connection: Connection) -> None:
        if connection in self._polled:
            del self._polled[connection]
            self.poller.unregister(connection.sock)

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
        incoming = connection.incoming
        if incoming is None:
            incoming = connection.await_header(IncomingRequest(self.cfg, self._max_body_mb))
        size, had_head = len(incoming.received), incoming.has_head
        try:
            try:
                incoming.feed(data)
            finally:
                self._buffered += _counted(incoming) - max(size - _UNCOUNTED, 0)
            if self._buffered > _BODIES * self._max_body_mb * 1_000_000:
                raise _busy("too many large requests at once")
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

    # -- serving

    def _admit(self, connection: Connection, incoming: IncomingRequest) -> None:
        """Give a complete request to its lane.

        Raises:
            BusyError: the lane has no place.
        """
        lane = self._lanes.lane_of(incoming.target)
        if lane is not None and lane.is_full:
            raise _busy("no place for a further request at the moment")
        self._unpoll(connection)
        connection.await_answer(incoming, self.cfg)
        if lane is None:
            self._finish(connection, self.handle(connection))
        else:
            connection.sock.settimeout(_SEND_SECONDS)
            done = lane.submit(self.handle, connection)
            done.add_done_callback(lambda done: self.method_queue.defer(self._leave, lane, connection, done))

    def _leave(self, lane: Lane, connection: Connection, done: Future[bool]) -> None:
        lane.leave()
        self._finish(connection, not done.cancelled() and done.exception() is None and done.result())

    def _finish(self, connection: Connection, reusable: bool) -> None:
        """Wait for the next request on a connection, or for its end."""
        self._forget(connection)
        if not reusable:
            self._linger(connection)
            return
        behind = connection.await_request(self.cfg.keepalive if self.alive else STOP_KEEPALIVE_LINGER)
        if behind:  # later: a thousand requests sent at once would make the stack that deep
            self.method_queue.defer(self._resume, connection, behind)
        else:
            self._poll(connection)

    def _resume(self, connection: Connection, behind: bytes) -> None:
        self._poll(connection)
        self._take_in(connection, behind)

    # -- ending

    def _refuse(self, connection: Connection, error: RequestError) -> None:
        """Answer without a thread, and read no further request."""
        from backend.telemetry import metrics  # noqa: PLC0415 - imported in the master, they would be its own

        target = connection.incoming.target if connection.incoming is not None else ""
        metrics.requests.labels(endpoint=endpoint_of(target), status=str(error.status)).inc()
        _log.warning("refused", endpoint=endpoint_of(target), code=error.code, reason=str(error))
        self._forget(connection)
        with suppress(OSError):
            connection.sock.send(refusal(error))
        self._linger(connection)

    def _linger(self, connection: Connection) -> None:
        """Close a connection after its client has done so, or after some seconds."""
        try:
            connection.await_close()
        except OSError:
            self._close(connection)
            return
        if connection not in self._polled:
            self._poll(connection)

    def _close(self, connection: Connection) -> None:
        self._unpoll(connection)
        self._forget(connection)
        connection.sock.close()
        self.nr_conns -= 1

    def _forget(self, connection: Connection) -> None:
        """Drop the bytes of a connection's request."""
        if connection.incoming is not None:
            self._buffered -= _counted(connection.incoming)
            connection.incoming = None


def _counted(incoming: IncomingRequest) -> int:
    return max(len(incoming.received) - _UNCOUNTED, 0)


def _busy(message: str) -> BusyError:
    return BusyError(message, where="server", fix=f"repeat it after {BusyError.retry_after} s")
