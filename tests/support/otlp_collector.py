"""An OpenTelemetry collector in this process: an HTTP server that takes spans by OTLP, in protobuf.

::

    with Collector() as collector:
        ...                     # OTEL_EXPORTER_OTLP_ENDPOINT=collector.url
        collector.spans         # what was received so far
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import Any

from local_server import Handler, LocalServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as a collector sees it."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    failed: bool
    attributes: dict[str, Any]
    links: tuple[str, ...]
    service: str


class Collector(LocalServer):
    """The server."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.bodies: list[bytes] = []
        collector = self

        class Receiver(Handler):
            def respond(self) -> None:
                body = self.body()
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/traces"
                collector._take(body)
                self.answer(200, ExportTraceServiceResponse().SerializeToString(), "application/x-protobuf")

        super().__init__(Receiver)

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def _take(self, body: bytes) -> None:
        self.bodies.append(body)
        message = ExportTraceServiceRequest()
        message.ParseFromString(body)
        for resource in message.resource_spans:
            service = _attributes(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_received(span, service) for span in scope.spans]


def _received(span: Any, service: str) -> ReceivedSpan:
    return ReceivedSpan(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.kind,
        span.status.code == 2,
        _attributes(span.attributes),
        tuple(link.trace_id.hex() for link in span.links),
        service,
    )


def _attributes(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
