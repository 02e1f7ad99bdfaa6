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
from typing import Any

import structlog
from gunicorn.http.errors import ExpectationFailed, ParseException
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, ThreadWorker

from backend.errors import BusyError, MalformedRequestError, RequestError
from backend.server.front.connection import Connection
from backend.server.front.incoming import IncomingRequest
from backend.server.front.lanes import Lane, Lanes
from backend.server.front.reception import Reception
from backend.server.front.refusal import refusal

_SEND_SECONDS = 60.0
"""For a client to take an answer."""
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
    """A worker process: its main thread, which receives and admits requests, and its lanes of threads.

    Attributes:
        reception: receives the requests.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stopped_at: float | None = None

    def get_thread_pool(self) -> Lanes:
        """Create the lanes; gunicorn shuts down what this returns."""
        self._lanes = Lanes(self.cfg.threads)
        return self._lanes

    def run(self) -> None:
        """Serve until a signal arrives, and then what is here."""
        max_body_mb = self.app.environment.max_body_mb
        self.reception = Reception(
            self.poller, self.cfg, max_body_mb, admit=self._admit, closed=self._count_closed
        )
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
        self.reception.welcome(Connection(sock, client, listener.getsockname()))

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

    def _admit(self, connection: Connection, incoming: IncomingRequest) -> None:
        """Give a complete request to its lane.

        Raises:
            BusyError: the lane has no place.
        """
        lane = self._lanes.lane_of(incoming.target)
        if lane is not None and lane.is_full:
            raise BusyError.now("no place for a further request at the moment")
        self.reception.hand_over(connection)
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
