"""One HTTP request as its bytes arrive; gunicorn's parser says where the header and the body end."""

from __future__ import annotations

from typing import Any

from gunicorn.asgi import parser as http

from backend.errors import BodyTooLargeError, MalformedRequestError

_STATUS: dict[type[Exception], int] = {
    http.LimitRequestLine: 414,
    http.LimitRequestHeaders: 431,
    http.UnsupportedTransferCoding: 501,
}


class IncomingRequest:
    """The bytes of one request.

    Args:
        config: gunicorn's configuration, for the limits of a header.
        max_body_mb: the longest body in megabytes. What frames a chunked body counts, too.

    Attributes:
        received: all bytes so far, those of a request behind this one included.
        has_head: whether the header is complete.
    """

    def __init__(self, config: Any, max_body_mb: int) -> None:
        self.received = bytearray()
        self.has_head = False
        self._head = 0
        self._max_body_mb = max_body_mb
        self._parser = http.PythonProtocol(
            on_headers_complete=self._read_head,
            limit_request_line=config.limit_request_line,
            limit_request_fields=config.limit_request_fields,
            limit_request_field_size=config.limit_request_field_size,
        )

    def feed(self, data: bytes) -> None:
        """Take in bytes from the connection.

        Raises:
            MalformedRequestError: this is no HTTP request, or its length is ambiguous.
            BodyTooLargeError: the body is over the limit, or is announced to be.
        """
        self.received += data
        try:
            self._parser.feed(data)
        except (http.ParseError, ValueError) as error:
            raise MalformedRequestError(
                "not a valid HTTP request", status=_STATUS.get(type(error), 400)
            ) from None
        if not self.has_head:
            return
        self._head = self._head or self.received.find(b"\r\n\r\n") + 4
        announced = self._parser.content_length or 0
        chunked = len(self.received) - self._head if self._parser.is_chunked else 0
        if max(announced, chunked) > self._max_body_mb * 1_000_000:
            raise BodyTooLargeError(
                f"the body is over {self._max_body_mb} MB",
                where="body",
                fix="select fewer tasks or raise CAMVO_MAX_BODY_MB",
            )

    def _read_head(self) -> bool:
        self.has_head = True
        return False  # the body follows

    @property
    def is_complete(self) -> bool:
        """Whether header and body have arrived."""
        return bool(self._parser.is_complete)

    @property
    def target(self) -> str:
        """The request's target as sent, without its query; empty before it has arrived."""
        return (self._parser.path or b"").partition(b"?")[0].decode("latin-1")

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for "100 Continue" before it sends the body."""
        return not self.is_complete and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self._parser.headers
        )

    def split(self) -> tuple[bytes, bytes]:
        """The bytes of the complete request, and those behind it."""
        rest: bytes = self._parser.remaining()
        end = len(self.received) - len(rest)
        return bytes(self.received[:end]), rest
