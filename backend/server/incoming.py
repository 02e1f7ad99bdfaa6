"""One HTTP request: who may send it, and its way from the bytes of a connection to what gunicorn serves.

A request is parsed once, while it arrives. gunicorn's own workers parse it a second time with another parser;
wherever two parsers differ, a request can be smuggled past the checks of the first.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final

from gunicorn.asgi import parser as http
from gunicorn.util import split_request_uri
from werkzeug.datastructures import Authorization

from backend.errors import BodyTooLargeError, MalformedRequestError, UnauthorizedError
from backend.settings import WEBHOOK_HEADER, Environment

_OPEN = frozenset({"/", "/health", "/ready"})
"""Endpoints without credentials: neither Label Studio nor an orchestrator sends any to a probe."""

WEBHOOK = "/webhook"


def may_enter(path: str, header: Callable[[str], str | None], environment: Environment) -> bool | None:
    """Whether a request with this head is allowed, whatever its body."""
    if path in _OPEN or _has_credentials(header("Authorization"), environment):
        return True
    if path == WEBHOOK and environment.webhook_secret is not None:
        if _equal(header(WEBHOOK_HEADER) or "", environment.webhook_secret.get_secret_value()):
            return True
        return None if environment.basic_auth_user is None else False
    return environment.basic_auth_user is None


def no_entry(path: str) -> UnauthorizedError:
    """The refusal of a request without the right credentials."""
    return UnauthorizedError(
        "credentials are missing or wrong",
        where=path,
        fix=f"use basic auth, or for {WEBHOOK} the header {WEBHOOK_HEADER}",
    )


def _has_credentials(header: str | None, environment: Environment) -> bool:
    user, password = environment.basic_auth_user, environment.basic_auth_pass
    if user is None or password is None:
        return False
    try:
        sent = Authorization.from_header(header)
    except ValueError:  # base64 of something other than ASCII
        return False
    if sent is None or sent.type != "basic":
        return False
    # Both are always compared, so that the time taken does not tell which one is wrong.
    right_user = _equal(sent.username or "", user)
    right_password = _equal(sent.password or "", password.get_secret_value())
    return right_user and right_password


def _equal(sent: str, expected: str) -> bool:
    return hmac.compare_digest(sent.encode(), expected.encode())


_STATUS: dict[type[Exception], int] = {
    http.LimitRequestLine: 414,
    http.LimitRequestHeaders: 431,
    http.UnsupportedTransferCoding: 501,
}

_FRAMING: Final = 65_536
_FRAMED: Final = 8
"""Chunks may add :data:`_FRAMING` bytes to a body and one for every ``_FRAMED`` of its own: each takes the
main thread microseconds, so a body may not have millions."""

_OF_CHUNKS = frozenset({b"transfer-encoding", b"trailer", b"te"})
"""Headers that describe chunks; the body is passed on in one piece."""


class _Parser(http.PythonProtocol):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's parser, but trailers of a chunked body must be header fields; it skips them unread."""

    __slots__ = ()

    def _find_line(self, limit: int, error: Exception) -> int:
        end: int = super()._find_line(limit, error)
        if end > 0 and self._state == "chunked" and self._chunk_state == "trailer":
            name, colon, value = bytes(self._buffer[:end]).partition(b":")
            if not colon or not self._is_valid_token(name) or self._has_invalid_header_chars(value):
                raise http.InvalidHeader("a trailer is not a header field")
        return end


class IncomingRequest:
    """A request of which the bytes arrive one after the other.

    Attributes:
        received: the number of bytes so far.
        has_head: whether the request line and all headers have arrived.
    """

    def __init__(self, config: Any, max_body_mb: int) -> None:
        self.received = 0
        self.has_head = False
        self._before_body = 0
        self._body = bytearray()
        self._max_body_mb = max_body_mb
        self._parser = _Parser(
            on_headers_complete=self._read_head,
            on_body=self._body.extend,
            limit_request_line=config.limit_request_line,
            limit_request_fields=config.limit_request_fields,
            limit_request_field_size=config.limit_request_field_size,
        )

    def feed(self, data: bytes) -> None:
        """Take in bytes from the connection.

        Raises:
            MalformedRequestError: they are not a valid HTTP request, or one that is not supported.
            BodyTooLargeError: the body has, or announces, more bytes than are accepted.
        """
        self.received += len(data)
        try:
            self._parser.feed(data)
        except (http.ParseError, ValueError) as error:
            raise MalformedRequestError(
                "not a valid HTTP request", status=_STATUS.get(type(error), 400)
            ) from None
        if self.has_head:
            self._check_size()

    def _read_head(self) -> bool:
        """Check the head; called before the first byte of the body is read."""
        self.has_head = True
        self._before_body = self.received - len(self._parser._buffer)
        headers, version = self._parser.headers, self._parser.http_version
        if any(value.lower() != b"chunked" for name, value in headers if name == b"transfer-encoding"):
            raise MalformedRequestError("the body has a coding that is not supported", status=501)
        if any(value.lower() != b"100-continue" for name, value in headers if name == b"expect"):
            raise MalformedRequestError("the header Expect asks for something unknown", status=417)
        if version >= (1, 1) and all(name != b"host" for name, _ in headers):  # RFC 9112, 3.2
            raise MalformedRequestError("the header Host is missing", status=400)
        split_request_uri(self._parser.path.decode("ascii"))  # a ValueError refuses it
        return False  # the body follows

    def _check_size(self) -> None:
        size = self._parser.content_length or 0
        if self._parser.is_chunked:
            size = len(self._body) + self._parser._chunk_remaining
            consumed = self.received - self._before_body - len(self._parser._buffer)
            if consumed - len(self._body) > len(self._body) // _FRAMED + _FRAMING:
                raise MalformedRequestError("the body's chunks are too small", status=400)
        if size > self._max_body_mb * 1_000_000:
            raise BodyTooLargeError(
                f"the body is over {self._max_body_mb} MB",
                where="body",
                fix="select fewer tasks or raise CAMVO_MAX_BODY_MB",
            )

    @property
    def is_complete(self) -> bool:
        """Whether header and body have arrived."""
        return bool(self._parser.is_complete)

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return bool(self._parser.is_chunked)

    @property
    def method(self) -> str:
        """The request's method; empty before it has arrived."""
        return (self._parser.method or b"").decode("latin-1")

    @property
    def target(self) -> str:
        """The request's target as sent, without its query; empty before it has arrived."""
        return (self._parser.path or b"").partition(b"?")[0].decode("latin-1")

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for "100 Continue" before it sends the body."""
        return (
            not self.is_complete
            and self._parser.http_version >= (1, 1)
            and any(name == b"expect" for name, _ in self._parser.headers)
        )

    def header(self, name: str) -> str | None:
        """The value of a header, joined if it was sent more than once; ``None`` if it is absent."""
        wanted = name.lower().encode()
        values = [value.decode("latin-1") for sent, value in self._parser.headers if sent == wanted]
        return ",".join(values) if values else None

    def split(self) -> tuple[WholeRequest, bytes]:
        """The complete request, and the bytes after it."""
        return WholeRequest(self._parser, bytes(self._body)), self._parser.remaining()


class WholeRequest:
    """A request as ``gunicorn.http.wsgi`` reads it.

    A header whose name has an underscore is left out, since WSGI cannot tell it from one with a hyphen; such
    a header could also set ``SCRIPT_NAME`` and, with it, the path. No header is trusted about the scheme.
    """

    scheme: Final = "http"
    proxy_protocol_info: Final = None
    _expected_100_continue: Final = False  # the body is here

    def __init__(self, parser: http.PythonProtocol, body: bytes) -> None:
        self.method: str = parser.method.decode("ascii")
        self.version: tuple[int, int] = parser.http_version
        self.uri: str = parser.path.decode("ascii")
        parts = split_request_uri(self.uri)
        self.path, self.query, self.fragment = parts.path, parts.query, parts.fragment
        sent = [(name, value) for name, value in parser.headers if b"_" not in name]
        if parser.is_chunked:
            sent = [(name, value) for name, value in sent if name not in _OF_CHUNKS]
            sent.append((b"content-length", b"%d" % len(body)))
        self.headers = [(name.decode("latin-1").upper(), value.decode("latin-1")) for name, value in sent]
        self.body = BytesIO(body)
        self._closes = self._is_last()

    def _is_last(self) -> bool:
        """Whether the client sends no further request, or none that could be told from other bytes."""
        options = {
            option.strip().lower()
            for name, value in self.headers
            if name == "CONNECTION"
            for option in value.split(",")
        }
        asks_to_close = "close" in options or (self.version < (1, 1) and "keep-alive" not in options)
        return asks_to_close or self.method == "CONNECT"

    def should_close(self) -> bool:
        """Whether the connection ends with the answer."""
        return self._closes
