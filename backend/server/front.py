"""The worker class: gunicorn's threaded worker, except that whole requests enter threads, not connections.

gunicorn's own worker gives each accepted connection a thread, which reads from it without a time limit: a few
dozen slow clients stop the server, and predictions that wait for models keep webhooks waiting. Here the main
thread receives all requests with its selector. A complete one is admitted to the lane of its urgency. This
uses internals of gunicorn 27; ``pyproject.toml`` bounds its version.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from http import HTTPStatus
from selectors import EVENT_READ, BaseSelector
from types import ModuleType
from typing import Any

import structlog
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, ThreadWorker

from backend.errors import BusyError, RequestError, SlowRequestError, UnauthorizedError
from backend.server.incoming import WEBHOOK, IncomingRequest, WholeRequest, may_enter, no_entry
from backend.settings import Environment
from backend.threads import Threads

_HEADER_SECONDS = 10.0
"""Seconds for a header, from its first byte or from the connection's start."""
_BODY_SECONDS = 30.0
_BODY_RATE = 100_000
"""A body has :data:`_BODY_SECONDS`, plus one second for every ``_BODY_RATE`` bytes that have arrived."""
_LINGER_SECONDS = 5.0
"""Seconds for a client to read a refusal and close; what it still sends is discarded."""


class _Stage(Enum):
    """What a connection waits for."""

    IDLE = auto()  # a further request, after one was answered
    HEADER = auto()
    BODY = auto()
    ANSWER = auto()  # from a thread; the connection is not polled
    CLOSE = auto()  # by the client: the answer is out, and nothing more is read


class _Connection:
    """A client's connection."""

    def __init__(self, sock: socket.socket, client: Any, server: Any) -> None:
        self.sock, self.client, self.server = sock, client, server
        self.sock.setblocking(False)
        self.stage = _Stage.HEADER
        self.expires_at = time.monotonic() + _HEADER_SECONDS
        self.incoming: IncomingRequest | None = None
        self.request: WholeRequest | None = None
        self.behind = b""
        self._body_since = 0.0

    @property
    def reads_whole(self) -> bool:
        """Whether a body follows that costs no time to read; each chunk costs some."""
        return self.stage is _Stage.BODY and self.incoming is not None and not self.incoming.is_chunked

    def await_request(self, seconds: float) -> bytes:
        """Wait this long for another request's first byte; return the bytes that have already arrived."""
        self.sock.setblocking(False)
        self.stage, self.request = _Stage.IDLE, None
        self.expires_at = time.monotonic() + seconds
        behind, self.behind = self.behind, b""
        return behind

    def await_header(self, incoming: IncomingRequest) -> IncomingRequest:
        """Record a request's first byte. The first request's time runs from the connection's start."""
        self.incoming = incoming
        if self.stage is _Stage.IDLE:
            self.stage, self.expires_at = _Stage.HEADER, time.monotonic() + _HEADER_SECONDS
        return incoming

    def await_body(self, received: int) -> None:
        """Record that the header has arrived, and ``received`` bytes in all."""
        now = time.monotonic()
        if self.stage is not _Stage.BODY:
            self.stage, self._body_since = _Stage.BODY, now
        self.expires_at = self._body_since + _BODY_SECONDS + received / _BODY_RATE

    def await_answer(self, incoming: IncomingRequest) -> None:
        """Record that the request is complete."""
        self.request, self.behind = incoming.split()
        self.stage = _Stage.ANSWER

    def await_close(self) -> None:
        """Signal that nothing more will be sent, and wait for the client to close; raises ``OSError``.

        To close at once would reset the connection, and the client might lose the answer.
        """
        self.sock.setblocking(False)
        self.sock.shutdown(socket.SHUT_WR)
        self.stage, self.request = _Stage.CLOSE, None
        self.expires_at = time.monotonic() + _LINGER_SECONDS


_AT_ONCE = frozenset({"/", "/health"})
_URGENT = frozenset({"/webhook", "/setup", "/versions", "/ready"})
_REPORTS = frozenset({"/status", "/status/task", "/metrics", "/progress", "/failed"})

_URGENT_THREADS = 8
_REPORT_THREADS = 2
_WAITING = 500
"""Requests that may wait for a thread of the urgent lane or of the lane of reports."""


class _Lane:
    """The threads for one kind of request."""

    def __init__(self, name: str, threads: int, waiting: int = 0) -> None:
        self._places = threads + waiting
        self._taken = 0
        # All of them start now: under load each start would keep the main thread waiting for milliseconds.
        self._threads = Threads(threads, f"camvo-{name}")

    @property
    def is_full(self) -> bool:
        """Whether a further request would find no place."""
        return self._taken >= self._places

    def submit(self, serve: Callable[[Any], bool], connection: object) -> Future[bool]:
        """Serve a connection's request in a thread; call :meth:`leave` when it is done."""
        self._taken += 1
        return self._threads.submit(serve, connection)

    def leave(self) -> None:
        """Release a request's place."""
        self._taken -= 1

    def shutdown(self, *, wait: bool) -> None:
        """Start no further request; those in threads continue."""
        self._threads.shutdown(wait=wait)


class _Lanes:
    """All lanes of a worker process. Used from its main thread only."""

    def __init__(self, predictions: int) -> None:
        self.urgent = _Lane("urgent", _URGENT_THREADS, _WAITING)
        self.reports = _Lane("reports", _REPORT_THREADS, _WAITING)
        self.predictions = _Lane("predict", predictions)

    def lane_of(self, target: str) -> _Lane | None:
        """The lane for a request's target; ``None`` if it is answered at once, without a thread.

        Targets are compared as they were sent. A target with any other spelling goes to the lane of
        predictions, so no prediction can enter the urgent lane.
        """
        if target in _AT_ONCE:
            return None
        if target in _URGENT:
            return self.urgent
        return self.reports if target in _REPORTS else self.predictions

    def shutdown(self, *, wait: bool) -> None:
        """Start no further request in any lane. gunicorn calls this as it would an executor's method."""
        for lane in (self.urgent, self.reports, self.predictions):
            lane.shutdown(wait=wait)


def _endpoint_of(target: str) -> str:
    """The target as a metric's label: an endpoint of ours, or "unknown"."""
    return target if target in _AT_ONCE | _URGENT | _REPORTS | {"/predict"} else "unknown"


def _refusal(error: RequestError) -> bytes:
    """The response for a refused request; the connection is closed after it."""
    body = json.dumps(
        {"code": error.code, "message": error.message, "where": error.where, "fix": error.fix}
    ).encode()
    header = [
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if isinstance(error, BusyError):
        header.append(f"Retry-After: {error.retry_after}")
    if isinstance(error, UnauthorizedError):
        header.append('WWW-Authenticate: Basic realm="CaMVo"')
    return "\r\n".join([*header, "", ""]).encode() + body


_READ, _READ_BODY = 16 * 1024, 256 * 1024
"""Bytes received at once: between two bodies and of a body in chunks, and of any other body."""
_LOOK_SECONDS = 0.2
"""Seconds between two checks for connections that have waited too long."""
_UNCOUNTED = 64 * 1024
"""Bytes of a request that the bound on all buffered bytes leaves out: a webhook always has room."""
_BODIES = 10
"""The bound on all buffered bytes, in bodies of the greatest length."""

_log = structlog.get_logger(__name__)


class _Reception:
    """Receives requests until they are complete, refuses and closes, without a thread of its own."""

    def __init__(
        self,
        poller: BaseSelector,
        config: Any,
        environment: Environment,
        *,
        admit: Callable[[_Connection, IncomingRequest], None],
        closed: Callable[[], None],
    ) -> None:
        self.buffered = 0
        self._poller, self._config, self._environment = poller, config, environment
        self._max_body_mb = environment.max_body_mb
        self._admit, self._closed = admit, closed
        self._polled: dict[_Connection, None] = {}  # as a set that remembers the order
        self._looked_at = 0.0

    def welcome(self, connection: _Connection, sent: bytes = b"") -> None:
        """Receive from a connection, beginning with bytes of it that are here already."""
        self._poll(connection)
        if sent:
            self._take_in(connection, sent)
        elif connection.stage is _Stage.HEADER:
            self._receive(connection)  # the request has often come with the connection

    def hand_over(self, connection: _Connection) -> None:
        """Receive no more from a connection, because its request is to be answered."""
        self._polled.pop(connection)
        self._poller.unregister(connection.sock)

    def forget(self, connection: _Connection) -> None:
        """Drop the bytes of a connection's request."""
        if connection.incoming is not None:
            self.buffered -= _counted(connection.incoming)
            connection.incoming = None

    def dismiss(self, connection: _Connection) -> None:
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
            if connection.stage in {_Stage.IDLE, _Stage.HEADER}:
                connection.expires_at = min(connection.expires_at, deadline)

    def _poll(self, connection: _Connection) -> None:
        self._polled[connection] = None
        self._poller.register(connection.sock, EVENT_READ, partial(self._receive, connection))

    def _receive(self, connection: _Connection, _: object = None) -> None:
        if connection not in self._polled:
            return  # closed since the selector returned
        try:
            data = connection.sock.recv(_READ_BODY if connection.reads_whole else _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(connection)
        elif connection.stage is not _Stage.CLOSE:
            self._take_in(connection, data)

    def _take_in(self, connection: _Connection, data: bytes) -> None:
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
                if not had_head:
                    self._check_credentials(incoming)
                connection.await_body(incoming.received)
                if not had_head and incoming.expects_continue:
                    connection.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        except RequestError as error:
            self._refuse(connection, error)
        except OSError:
            self._close(connection)

    def _check_credentials(self, incoming: IncomingRequest) -> None:
        """Refuse a request that lacks credentials before its body is received."""
        if may_enter(incoming.target, incoming.header, self._environment) is False:
            if (incoming.method, incoming.target) == ("POST", WEBHOOK):
                _metrics().last_refused_webhook_at.set(time.time())
            raise no_entry(incoming.target)

    def _expire(self, connection: _Connection) -> None:
        if connection.incoming is None:
            self._close(connection)
        else:
            part = "body" if connection.incoming.has_head else "header"
            error = SlowRequestError(f"the {part} did not arrive in time", where=part, fix="send it faster")
            self._refuse(connection, error)

    def _refuse(self, connection: _Connection, error: RequestError) -> None:
        """Answer without a thread, and read no further request."""
        endpoint = _endpoint_of(connection.incoming.target if connection.incoming is not None else "")
        _metrics().requests.labels(endpoint=endpoint, status=str(error.status)).inc()
        _log.warning("refused", endpoint=endpoint, code=error.code, reason=str(error))
        with suppress(OSError):
            connection.sock.send(_refusal(error))
        self.dismiss(connection)

    def _close(self, connection: _Connection) -> None:
        self.forget(connection)
        if connection in self._polled:
            self.hand_over(connection)
        connection.sock.close()
        self._closed()


def _counted(incoming: IncomingRequest) -> int:
    return max(incoming.received - _UNCOUNTED, 0)


def _metrics() -> ModuleType:
    """The metrics; imported in the master, they would be its own."""
    from backend.telemetry import metrics  # noqa: PLC0415

    return metrics


_SEND_SECONDS = 60.0
"""Seconds for a client to receive an answer."""
_SAME_SIGNAL = 1.0
"""Seconds in which a repeated signal is the same one."""
_ENDING_SECONDS = 8.0
"""Seconds for a worker's work after its last call, such as closing the ledger."""


class _InternalError(RequestError):
    """An error outside the application, which answers its own."""

    code = "internal"
    status = 500


class FrontWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """A worker process: its main thread, which receives and admits requests, and its lanes of threads.

    Attributes:
        reception: receives the requests.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stopped_at: float | None = None
        self._grace = float(self.cfg.graceful_timeout)  # after it, the master kills this worker

    def get_thread_pool(self) -> _Lanes:
        """Create the lanes; gunicorn shuts down what this returns."""
        self._lanes = _Lanes(self.cfg.threads)
        return self._lanes

    def run(self) -> None:
        """Serve until a signal arrives, then serve the requests that have been received."""
        self.reception = _Reception(
            self.poller, self.cfg, self.app.environment, admit=self._admit, closed=self._count_closed
        )
        # Requests must end before that, or nothing could be closed any more.
        self.cfg.set("graceful_timeout", int(max(self._grace - _ENDING_SECONDS, 1.0)))
        super().run()

    def accept(self, listener: Any) -> None:
        """Accept a connection. At the limit, the one that has waited longest for its client is closed."""
        try:
            sock, client = listener.accept()
        except OSError:
            return  # the client has gone, or another worker was faster
        self.nr_conns += 1
        if self.nr_conns >= self.worker_connections:
            self.reception.evict()
        self.reception.welcome(_Connection(sock, client, listener.getsockname()))

    def murder_keepalived(self, force: bool = False) -> None:
        """Close the connections that have waited too long for their client, or all of them."""
        if force:
            self.reception.close_all()
        else:
            self.reception.close_expired()

    def _cap_keepalive(self, deadline: float) -> None:
        """Wait for requests until ``deadline`` at the latest, since the worker stops."""
        self.reception.expect_no_more(deadline)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop: call no more models, answer the received requests, then exit."""
        self._stop_asking()
        super().handle_exit(sig, frame)

    def handle_quit(self, sig: int, frame: Any) -> None:
        """Stop and accept no further request; the calls in flight are still awaited.

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
        return max(self._grace - since - _ENDING_SECONDS, 0.0)

    def handle(self, conn: _Connection) -> bool:
        """Serve a complete request; return whether the connection can be used again."""
        try:
            return bool(self.handle_request(conn.request, conn))
        except OSError:
            return False  # the client has gone, or does not take the answer
        except Exception as error:
            with suppress(OSError):
                self.handle_error(None, conn.sock, conn.client, error)
            return False

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        """Answer a request at which gunicorn itself failed; the application answers its own errors."""
        _log.error("internal", kind=type(exc).__name__)
        client.sendall(_refusal(_InternalError("an error in CaMVo", fix="see CaMVo's log")))

    def _admit(self, connection: _Connection, incoming: IncomingRequest) -> None:
        """Give a complete request to its lane."""
        lane = self._lanes.lane_of(incoming.target)
        if lane is not None and lane.is_full:
            raise BusyError.now("no place for a further request at the moment")
        self.reception.hand_over(connection)
        connection.await_answer(incoming)
        if lane is None:
            self._finish(connection, self.handle(connection))
        else:
            connection.sock.settimeout(_SEND_SECONDS)
            done = lane.submit(self.handle, connection)
            done.add_done_callback(lambda done: self.method_queue.defer(self._leave, lane, connection, done))

    def _leave(self, lane: _Lane, connection: _Connection, done: Future[bool]) -> None:
        lane.leave()
        self._finish(connection, not done.cancelled() and done.exception() is None and done.result())

    def _finish(self, connection: _Connection, reusable: bool) -> None:
        """Wait for the next request on a connection, or for its end."""
        if not reusable:
            self.reception.dismiss(connection)
            return
        self.reception.forget(connection)
        behind = connection.await_request(self.cfg.keepalive if self.alive else STOP_KEEPALIVE_LINGER)
        if behind:  # later: a thousand requests sent at once would make the stack that deep
            self.method_queue.defer(self.reception.welcome, connection, behind)
        else:
            self.reception.welcome(connection)

    def _count_closed(self) -> None:
        self.nr_conns -= 1
