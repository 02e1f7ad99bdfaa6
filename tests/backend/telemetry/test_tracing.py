"""Traces of the whole backend, as a collector receives them."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from label_studio_requests import predict, task
from otlp_collector import Collector, ReceivedSpan
from whole_backend import Backend, votes

from backend.telemetry import logs, tracing

VOTES = votes(red="Glad", green=None, blue="Sad")
CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector
        tracing.shut_down()


@pytest.fixture
def traced(collector: Collector, tmp_path: Path) -> Collector:
    """The spans of one request with two tasks, whose caller has a trace of its own."""
    with Backend(tmp_path, VOTES) as backend:
        header = {"traceparent": f"00-{CALLER}-00f067aa0ba902b7-01"}
        backend.client.post("/predict", json=predict([task(1), task(2)]), headers=header)
    return collector


def test_each_task_has_a_trace_from_the_request_to_the_calls(traced: Collector) -> None:
    roots = traced.named("camvo.predict")
    assert {root.attributes["camvo.task"] for root in roots} == {1, 2}
    assert len({root.trace for root in roots}) == 2
    for root in roots:
        tree = [(span.name, _path(span, traced)) for span in traced.spans if span.trace == root.trace]
        assert ("camvo.predict", ()) in tree
        assert ("camvo.plan", ("camvo.predict",)) in tree
        assert ("camvo.stage", ("camvo.predict",)) in tree
        calls = {name: path for name, path in tree if name.startswith("chat ")}
        assert set(calls.values()) == {("camvo.predict", "camvo.stage")}
        assert set(calls) == {"chat openai/red", "chat openai/green", "chat openai/blue"}


def _path(span: ReceivedSpan, collector: Collector) -> tuple[str, ...]:
    parents = [each for each in collector.spans if each.id == span.parent]
    return (*_path(parents[0], collector), parents[0].name) if parents else ()


def test_a_trace_is_linked_to_the_callers(traced: Collector) -> None:
    assert {root.links for root in traced.named("camvo.predict")} == {(CALLER,)}


def test_a_call_has_the_attributes_of_the_conventions(traced: Collector) -> None:
    call = traced.named("chat openai/red")[0]
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "openai/red",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.response.finish_reasons": ["stop"],
        "camvo.model": "red",
    }
    assert {name: call.attributes.get(name) for name in expected} == expected
    assert (call.kind, call.failed, call.service) == (3, False, "camvo")  # a client's


def test_a_call_that_fails_says_so_by_its_kind_of_error_only(traced: Collector) -> None:
    call = traced.named("chat openai/green")[0]
    assert call.failed
    assert call.attributes["error.type"] == "BadRequestError"


def test_no_text_of_a_task_or_an_answer_is_in_a_span(traced: Collector) -> None:
    text = task(1)["data"]["text"]
    sent = b"".join(traced.bodies)
    assert traced.spans
    assert text.encode() not in sent
    assert b"Glad" not in sent


def test_prompts_and_answers_are_in_it_if_they_are_asked_for(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAMVO_TRACE_CONTENT", "true")
    with Backend(tmp_path, VOTES) as backend:
        backend.predict(task(1))
    call = collector.named("chat openai/red")[0]
    asked = json.loads(call.attributes["gen_ai.input.messages"])
    assert task(1)["data"]["text"] in asked[-1]["parts"][0]["content"]
    [answer] = json.loads(call.attributes["gen_ai.output.messages"])
    assert answer["role"] == "assistant"
    assert "Glad" in answer["parts"][0]["content"]


def test_a_line_of_the_log_has_the_ids_of_its_span(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    before = structlog.get_config()
    tracing.configure(collector.url)
    try:
        logs.configure("info")
        with tracing.task("1.1", 5):
            structlog.get_logger("test").info("inside")
        structlog.get_logger("test").info("outside")
    finally:
        structlog.configure(**before)
    tracing.shut_down()
    inside, outside = map(json.loads, stream.getvalue().splitlines())
    [span] = collector.spans
    assert (inside["trace_id"], inside["span_id"]) == (span.trace, span.id)
    assert "trace_id" not in outside


def test_without_an_address_nothing_is_recorded() -> None:
    tracing.configure(None)
    with tracing.task("1.1", 5) as span, tracing.request([("traceparent", "nonsense")]):
        span.note(model="red")
        assert tracing._tracing.tracer is None
        assert tracing.task("1.1", 6) is tracing.span("red")  # one object that does nothing


def test_without_the_extra_a_warning_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with structlog.testing.capture_logs() as lines:
        tracing.configure("http://collector:4318")
    assert [(line["event"], line["fix"]) for line in lines] == [
        ("tracing_unavailable", 'pip install "camvo[otel]"')
    ]
    assert tracing._tracing.tracer is None


def test_a_service_name_of_the_environment_is_used(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "labels-of-team-a")
    tracing.configure(collector.url)
    with tracing.task("1.1", 5):
        pass
    tracing.shut_down()
    assert [span.service for span in collector.spans] == ["labels-of-team-a"]


def test_every_name_of_the_conventions_is_one_that_the_library_knows() -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes  # noqa: PLC0415

    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI")}
    used = {name for name in tracing._NAMES.values() if name.startswith("gen_ai.")}
    assert used <= known
    assert len(used) > 8
