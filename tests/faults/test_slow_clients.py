"""Hundreds of clients that begin a request and do not end it, on a server without credentials."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from dataclasses import dataclass, field

import httpx
import pytest
from provider import Provider
from server_process import ServerProcess, config_for, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

HALVES = 200
DRIPPING = 20

_HALF_HEADER = b"POST /predict HTTP/1.1\r\nHost: camvo\r\nContent-Ty"
_HALF_BODY = b"POST /predict HTTP/1.1\r\nHost: camvo\r\nContent-Length: 1000\r\n\r\n{"


class SlowClients:
    """Open connections of one kind. A context manager.

    Args:
        address: the server's host and port.
        count: how many.
        begun: what each sends at once.
        dripping: whether each sends another byte every second.
    """

    def __init__(self, address: tuple[str, int], count: int, begun: bytes, *, dripping: bool = False) -> None:
        self.sockets: list[socket.socket] = []
        for _ in range(count):
            client = socket.create_connection(address, timeout=10.0)
            client.sendall(begun)
            client.setblocking(False)
            self.sockets.append(client)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._drip, daemon=True)
        if dripping:
            self._thread.start()

    def __enter__(self) -> SlowClients:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for client in self.sockets:
            client.close()

    def ended(self) -> int:
        """How many connections the server has answered or closed."""
        with selectors.DefaultSelector() as selector:
            for client in self.sockets:
                selector.register(client, selectors.EVENT_READ)
            return len(selector.select(0))

    def _drip(self) -> None:
        while not self._stop.wait(1.0):
            for client in self.sockets:
                with contextlib.suppress(OSError):  # the server has closed it
                    client.send(b"x")


@dataclass
class Siege:
    """What happened while the slow clients were connected.

    Attributes:
        health: the status of each GET /health.
        webhooks: the status of each webhook.
        predicted: whether each task got its prediction.
        ended_before: half headers that the server had ended before the last answer.
        ended: half headers that it has ended at last.
        log: the server's.
    """

    health: list[int] = field(default_factory=list)
    webhooks: list[int] = field(default_factory=list)
    predicted: list[bool] = field(default_factory=list)
    ended_before: int = 0
    ended: int = 0
    log: str = ""


@pytest.fixture(scope="module")
def siege(tmp_path_factory: pytest.TempPathFactory, seed: int) -> Siege:
    folder = tmp_path_factory.mktemp("siege")
    siege = Siege()
    with Provider(seed) as provider, ServerProcess(folder, config_for(provider, folder)) as server:
        server.start()
        url = httpx.URL(server.url)
        address = (url.host, url.port or 80)
        with (
            SlowClients(address, HALVES, _HALF_HEADER) as headers,
            SlowClients(address, HALVES, _HALF_BODY),
            SlowClients(address, DRIPPING, _HALF_HEADER, dripping=True) as dripping,
        ):
            for number in range(1, 6):
                siege.health.append(server.get("/health").status_code)
                siege.webhooks.append(server.annotate(number, "Sad").status_code)
                siege.predicted.append(bool(server.predict([number])[0]))
            siege.ended_before = headers.ended()
            wait_until(lambda: headers.ended() == HALVES, "end of the half headers")
            wait_until(lambda: dripping.ended() == DRIPPING, "end of the dripping headers")
            siege.ended = headers.ended() + dripping.ended()
        siege.log = server.log
    return siege


def test_everything_is_served_while_hundreds_of_requests_stand_half_sent(siege: Siege) -> None:
    assert siege.health == [200] * 5
    assert siege.webhooks == [200] * 5
    assert siege.predicted == [True] * 5
    assert siege.ended_before < HALVES  # they were still connected


def test_the_server_ends_requests_whose_header_does_not_come(siege: Siege) -> None:
    assert siege.ended == HALVES + DRIPPING


def test_slow_clients_leave_no_traceback(siege: Siege) -> None:
    assert "Traceback" not in siege.log
