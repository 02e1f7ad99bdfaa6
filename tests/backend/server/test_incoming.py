"""A request means the same to the front's parser as to gunicorn's own, or the front refuses it."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest
from gunicorn import http as reference
from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.errors import ParseException

from backend.errors import RequestError
from backend.server.incoming import IncomingRequest

CONFIG = Config()
CLIENT = ("10.0.0.1", 1)
"""An address that gunicorn does not take for a proxy's."""


class Meaning(NamedTuple):
    """What an application is told about a request."""

    method: str
    target: str
    path: str
    query: str
    version: tuple[int, int]
    headers: list[tuple[str, str]]
    body: bytes


_FRAMING = {"TRANSFER-ENCODING", "TE", "TRAILER", "CONTENT-LENGTH"}


def meaning(request: object, body: bytes) -> Meaning:
    headers = [(name, value) for name, value in request.headers if name not in _FRAMING]  # type: ignore[attr-defined]
    names = ("method", "uri", "path", "query", "version")
    return Meaning(*(getattr(request, name) for name in names), headers, body)


def by_the_front(data: bytes, dice: random.Random) -> Iterator[Meaning]:
    """The requests in some bytes, which arrive in pieces, up to the first that is refused or not complete."""
    while data:
        incoming = IncomingRequest(CONFIG, 10)
        try:
            while data and not incoming.is_complete:
                size = dice.choice([1, 3, 20, 5000])
                incoming.feed(data[:size])
                data = data[size:]
        except RequestError:
            return
        if not incoming.is_complete:
            return
        request, rest = incoming.split()
        data = rest + data
        yield meaning(request, request.body.read())
        if request.should_close():
            return


def by_gunicorn(data: bytes) -> Iterator[Meaning]:
    """The same by the parser of gunicorn's own workers."""
    with suppress(ParseException, OSError):
        for request in reference.get_parser(CONFIG, [data], CLIENT):
            yield meaning(request, request.body.read())


_LINES = [
    b"POST /predict HTTP/1.1",
    b"GET /status?project=7&x=%00 HTTP/1.1",
    b"GET /health HTTP/1.0",
    b"OPTIONS * HTTP/1.1",
    b"POST http://x/webhook?a#b HTTP/1.1",
    b"GET //x/../%2e HTTP/1.1",
    b"CONNECT x:80 HTTP/1.1",
]
_HEADERS = [
    b"Host: x",
    b"Content-Length: 5",
    b"Content-Length: 0",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"TE: trailers",
    b"Trailer: X",
    b"Connection: close",
    b"Connection: keep-alive",
    b"Expect: 100-continue",
    b"X-One: a",
    b"X-One: b",
    b"X_One: c",
    b"SCRIPT_NAME: /predict",
    b"PATH_INFO: /predict",
    b"X-Forwarded-Proto: https",
    b"Content-Type: application/json",
    b"X:",
]
_BODIES = [
    b"",
    b"12345",
    b"5\r\n12345\r\n0\r\n\r\n",
    b"2;x=y\r\n12\r\n3\r\n345\r\n0\r\nX: 1\r\n\r\n",
    b"0\r\n\r\n",
]
_NEXT = b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
_PIECES = [
    b"\r\n",
    b"\r",
    b"\n",
    b"\0",
    b"\t",
    b" ",
    b":",
    b";",
    b",",
    b"0",
    b"\x80",
    b"_",
    b"chunked",
    b"\r\n ",
]


def requests_of(dice: random.Random) -> bytes:
    """A few headers behind a line, mutated half of the time, and another request."""
    headers = [b"Host: x"] * (dice.random() < 0.9) + dice.choices(_HEADERS, k=dice.randint(0, 4))
    data = bytearray(
        b"\r\n".join([dice.choice(_LINES), *headers]) + b"\r\n\r\n" + dice.choice(_BODIES) + _NEXT
    )
    for _ in range(dice.choice([0, 0, 1, 2])):
        here = dice.randrange(len(data))
        match dice.randrange(4):
            case 0:
                data[here] = dice.randrange(256)
            case 1:
                del data[here : here + dice.randint(1, 4)]
            case 2:
                data[here:here] = dice.choice(_PIECES)
            case _:
                data[here:here] = data[here : here + 12]
    return bytes(data)


@pytest.mark.parametrize("seed", range(4))
def test_the_front_reads_what_gunicorn_reads_or_refuses(seed: int) -> None:
    dice, known = random.Random(seed), 0  # noqa: S311 - no secret
    for _ in range(2000):
        data = requests_of(dice)
        ours = [request for request in by_the_front(data, dice) if isinstance(request, Meaning)]
        assert ours == list(by_gunicorn(data))[: len(ours)], data
        known += len(ours)
    assert known > 1000


def read(data: bytes) -> IncomingRequest:
    incoming = IncomingRequest(CONFIG, 10)
    incoming.feed(data)
    return incoming


def test_no_header_sets_the_path_its_prefix_or_the_scheme() -> None:
    names = (b"SCRIPT_NAME", b"PATH_INFO", b"X_Forwarded_For", b"REMOTE_ADDR", b"wsgi.url_scheme")
    tricks = b"".join(name + b": /predict\r\n" for name in names)
    schemes = b"X-Forwarded-Proto: https\r\nX-Forwarded-Protocol: ssl\r\nX-Forwarded-Ssl: on\r\n"
    request, _ = read(b"GET /health HTTP/1.1\r\nHost: x\r\n" + tricks + schemes + b"\r\n").split()
    connection = socket.socketpair()
    with connection[0], connection[1]:
        _, environ = wsgi.create(request, connection[0], ("127.0.0.1", 1), ("127.0.0.1", 9090), CONFIG)
    seen = {name: environ[name] for name in ("PATH_INFO", "SCRIPT_NAME", "wsgi.url_scheme", "REMOTE_ADDR")}
    assert seen == {
        "PATH_INFO": "/health",
        "SCRIPT_NAME": "",
        "wsgi.url_scheme": "http",
        "REMOTE_ADDR": "127.0.0.1",
    }
    assert "HTTP_X_FORWARDED_FOR" not in environ


@pytest.mark.parametrize(
    ("connection", "closes"),
    [
        (b"HTTP/1.1\r\n", False),
        (b"HTTP/1.1\r\nConnection: close\r\n", True),
        (b"HTTP/1.1\r\nConnection: keep-alive, Close\r\n", True),
        (b"HTTP/1.1\r\nConnection: keep-alive\r\nConnection: close\r\n", True),
        (b"HTTP/1.1\r\nConnection: not-close\r\n", False),
        (b"HTTP/1.0\r\n", True),
        (b"HTTP/1.0\r\nConnection: keep-alive\r\n", False),
    ],
)
def test_a_connection_is_closed_if_any_header_says_so(connection: bytes, closes: bool) -> None:
    request, _ = read(b"GET / " + connection + b"Host: x\r\n\r\n").split()
    assert request.should_close() is closes


def test_an_expectation_of_http_1_0_is_ignored() -> None:
    head = b"POST / HTTP/1.%d\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    assert read(head % 1).expects_continue
    assert not read(head % 0).expects_continue
