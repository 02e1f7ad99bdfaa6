"""Traces, sent by OTLP if OpenTelemetry is installed and an address is set; nothing otherwise.

Spans never hold the text of a task or an answer unless ``CAMVO_TRACE_CONTENT`` asks for it: of an error only
the code is set.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import structlog

from camvo.errors import CamvoError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Link, Tracer

_PREDICT: Final = "camvo.predict"
"""One task, from its arrival to its prediction: the root of a trace."""

PLAN: Final = "camvo.plan"
"""A policy's plan for the task, with the state brought up to date."""

STAGE: Final = "camvo.stage"
"""The models that are asked at the same time."""

_CHAT: Final = "chat"
"""One call; the name of its span ends with the model."""

_NAMES: Final = {
    "project": "camvo.project",
    "task": "camvo.task",
    "policy": "camvo.policy",
    "first": "camvo.plan.first",
    "stage_number": "camvo.stage.number",
    "stage_models": "camvo.stage.models",
    "model": "camvo.model",
    "operation": "gen_ai.operation.name",
    "provider": "gen_ai.provider.name",
    "request_model": "gen_ai.request.model",
    "request_max_tokens": "gen_ai.request.max_tokens",
    "request_temperature": "gen_ai.request.temperature",
    "response_model": "gen_ai.response.model",
    "finish_reasons": "gen_ai.response.finish_reasons",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "input_messages": "gen_ai.input.messages",
    "output_messages": "gen_ai.output.messages",
}
"""Attributes of spans, and their names in OpenTelemetry."""

_Attribute = str | bool | int | float | Sequence[str]

_log = structlog.get_logger(__name__)

_FLUSH = 5000
"""Milliseconds that a process which ends waits for its last spans to be taken."""


class _TraceSpan:
    """A span under way. Without tracing it records nothing."""

    __slots__ = ("_span",)

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def note(self, **attributes: _Attribute | None) -> None:
        """Set attributes, such as ``model="red"``; ``None`` sets none."""
        if self._span is not None:
            for name, value in attributes.items():
                if value is not None:
                    self._span.set_attribute(_NAMES[name], value)

    @property
    def with_content(self) -> bool:
        """Whether the span may hold texts."""
        return self._span is not None and _tracing.content


_NOT_RECORDED = nullcontext(_TraceSpan())


class _Tracing:
    """What this process records; nothing before :func:`configure`."""

    def __init__(self) -> None:
        self.provider: TracerProvider | None = None
        self.tracer: Tracer | None = None
        self.content = False


_tracing = _Tracing()
_request: ContextVar[Link | None] = ContextVar("camvo_request", default=None)


def configure(endpoint: str | None, *, content: bool = False) -> None:
    """Record spans from now on, if there is an address to send them to. Call it after the fork.

    Args:
        endpoint: the collector's address from the environment; the libraries read it there themselves, with
            all other variables ``OTEL_…``.
        content: whether spans hold prompts and answers.
    """
    if endpoint is None or _tracing.tracer is not None:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        _log.warning("tracing_unavailable", fix='pip install "camvo[otel]"')
        return
    # The environment's OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES replace the name.
    resource = Resource.create({SERVICE_NAME: "camvo"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracing.provider, _tracing.content = provider, content
    _tracing.tracer = provider.get_tracer("camvo")


def shut_down() -> None:
    """Send the spans that are left, and record none any more."""
    provider, _tracing.provider, _tracing.tracer = _tracing.provider, None, None
    if provider is not None:
        provider.force_flush(_FLUSH)
        provider.shutdown()


@contextmanager
def request(headers: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Link the traces of a request's tasks to the caller's, if it names one (W3C ``traceparent``)."""
    if _tracing.tracer is None:
        yield
        return
    from opentelemetry.trace import Link, get_current_span  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    names = {name.lower(): value for name, value in headers}
    caller = get_current_span(TraceContextTextMapPropagator().extract(names)).get_span_context()
    token = _request.set(Link(caller) if caller.is_valid else None)
    try:
        yield
    finally:
        _request.reset(token)


def task(project: str, number: int) -> AbstractContextManager[_TraceSpan]:
    """The root span of a task's trace."""
    link = _request.get()
    of_task: Mapping[str, _Attribute] = {"project": project, "task": number}
    return span(_PREDICT, of_task, kind="server", links=() if link is None else (link,))


def log_ids() -> dict[str, str]:
    """The ids of the trace and span under way, for a line of the log; empty outside a span."""
    if _tracing.tracer is None:
        return {}
    from opentelemetry.trace import format_span_id, format_trace_id, get_current_span  # noqa: PLC0415

    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": format_trace_id(context.trace_id), "span_id": format_span_id(context.span_id)}


def span(
    name: str,
    attributes: Mapping[str, _Attribute] = MappingProxyType({}),
    *,
    kind: Literal["internal", "server", "client"] = "internal",
    links: Sequence[Link] = (),
) -> AbstractContextManager[_TraceSpan]:
    """A span within the one under way, such as that of a plan or a stage.

    Args:
        name: its name.
        attributes: as those of its ``note``.
        kind: its kind in OpenTelemetry's words.
        links: the spans elsewhere that it is due to.
    """
    if _tracing.tracer is None:
        return _NOT_RECORDED
    return _recorded(_tracing.tracer, name, attributes, kind, links)


@contextmanager
def _recorded(
    tracer: Tracer, name: str, attributes: Mapping[str, _Attribute], kind: str, links: Sequence[Link]
) -> Iterator[_TraceSpan]:
    from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415

    with tracer.start_as_current_span(
        name,
        kind=SpanKind[kind.upper()],
        attributes={_NAMES[each]: value for each, value in attributes.items()},
        links=links,
        record_exception=False,  # the text of an exception may quote a task
        set_status_on_exception=False,
    ) as recorded:
        try:
            yield _TraceSpan(recorded)
        except BaseException as error:
            code = error.code if isinstance(error, CamvoError) else type(error).__name__
            recorded.set_attribute("error.type", code)
            recorded.set_status(Status(StatusCode.ERROR))
            raise


class _Response(Protocol):
    """What a span says about a provider's response."""

    @property
    def content(self) -> str:
        """The answer's text."""

    @property
    def input_tokens(self) -> int:
        """As reported, 0 if nothing was."""

    @property
    def output_tokens(self) -> int:
        """As reported, 0 if nothing was."""

    @property
    def finish_reason(self) -> str | None:
        """Why the model stopped."""

    @property
    def version(self) -> str | None:
        """The model's name at its provider first, then what else it says of itself."""


async def traced(
    model: str, request: Mapping[str, Any], call: Awaitable[Any], read: Callable[[Any], _Response]
) -> Any:
    """Await a call's response in a span that records the request, the response and the usage.

    Prompt and answer are in the span only if ``CAMVO_TRACE_CONTENT`` is set.

    Args:
        model: the model's name in the pool.
        request: litellm's parameters of the call.
        call: the call.
        read: reads its response.
    """
    if _tracing.tracer is None:
        return await call
    name: str = request["model"]
    about: Mapping[str, _Attribute] = {"operation": _CHAT, "request_model": name}
    with span(f"{_CHAT} {name}", about, kind="client") as noted:
        noted.note(
            model=model,
            provider=name.partition("/")[0] if "/" in name else "openai",
            request_max_tokens=request.get("max_tokens"),
            request_temperature=request.get("temperature"),
        )
        if noted.with_content:
            noted.note(input_messages=json.dumps([_message(**each) for each in request["messages"]]))
        response = await call
        received = read(response)
        noted.note(
            response_model=(received.version or "").partition(" ")[0] or None,
            finish_reasons=[received.finish_reason] if received.finish_reason else None,
            input_tokens=received.input_tokens,
            output_tokens=received.output_tokens,
        )
        if noted.with_content:
            noted.note(output_messages=json.dumps([_message("assistant", received.content)]))
        return response


def _message(role: str, content: Any, **_: object) -> dict[str, Any]:
    """A message in the conventions' form; images are named, not copied."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {
        "role": role,
        "parts": [
            {"type": "text", "content": part["text"]} if part["type"] == "text" else {"type": part["type"]}
            for part in parts
        ],
    }
