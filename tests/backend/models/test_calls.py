"""The pool against an OpenAI-compatible server: requests, responses and costs."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import litellm
import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from backend.errors import (
    BadAnswerError,
    ConfigError,
    ContextTooLongError,
    KeyRejectedError,
    ModelError,
    ModelUnknownError,
    PriceMissingError,
    RateLimitedError,
    RefusedError,
    RejectedError,
    UnavailableError,
)
from backend.models import Pool
from backend.models import model as litellm_info
from backend.models.calls import ModelAnswer
from backend.models.model import count_text
from backend.models.prices import Used
from backend.settings import ModelSettings
from backend.telemetry import metrics
from backend.testing import OpenAIServer, Reply

KEY = "sk-never-to-be-seen"
TEXT = "The soup was cold and the waiter was colder."
MESSAGES = [{"role": "system", "content": "Label the text."}, {"role": "user", "content": TEXT}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"sentiment": {"type": "string", "enum": ["Positive", "Negative"]}},
    "required": ["sentiment"],
    "additionalProperties": False,
}
ANSWER = '{"sentiment": "Negative"}'


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(lambda body: Reply.says(ANSWER)) as running:
        yield running


def model(server: OpenAIServer | None = None, name: str = "test", **fields: Any) -> ModelSettings:
    parameters = {"api_base": server.url} if server else {}
    parameters |= fields.pop("parameters", {})
    entry = {"name": name, "model": f"openai/{name}", "input_price": 2.0, "output_price": 8.0}
    return ModelSettings.model_validate(entry | fields | {"parameters": parameters})


def pool_of(*models: ModelSettings, **options: Any) -> Pool:
    return Pool(models, keys={m.name: KEY for m in models}, **options)


def ask(pool: Pool, name: str = "test", schema: Any = SCHEMA, timeout: float = 10.0) -> ModelAnswer:
    return asyncio.run(pool[name].attempt(MESSAGES, schema, timeout))


def failure(server: OpenAIServer, reply: Reply) -> ModelError:
    server.script = lambda body: reply
    with pytest.raises(ModelError) as caught:
        ask(pool_of(model(server, structured_output=False)))
    return caught.value


def test_litellm_prices_no_answer_and_records_no_call(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads either, and both take a third of a call's processor time."""
    litellm_info.litellm()
    from litellm import utils  # noqa: PLC0415 - slow to import

    recorded: list[object] = []
    monkeypatch.setattr(utils, "_schedule_async_success_logging", lambda **call: recorded.append(call))
    request = {"model": "openai/gpt-4o", "messages": MESSAGES, "api_base": server.url, "api_key": KEY}
    request["user"] = "nobody"  # a parameter that the short path does not know
    response = asyncio.run(litellm_info.complete(request))
    assert response._hidden_params["response_cost"] is None
    assert not recorded


# -- what is sent


def test_the_model_the_messages_and_the_key_reach_the_server(server: OpenAIServer) -> None:
    ask(pool_of(model(server)))
    (request,) = server.requests
    assert (request.model, request.key, request.body["messages"]) == ("test", KEY, MESSAGES)


def test_temperature_max_tokens_and_further_parameters_are_passed_on(server: OpenAIServer) -> None:
    ask(pool_of(model(server, temperature=0.25, max_tokens=77, parameters={"seed": 5})))
    body = server.requests[0].body
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.25, 77, 5)


def test_no_temperature_is_sent_when_none_is_set(server: OpenAIServer) -> None:
    ask(pool_of(model(server)))
    assert "temperature" not in server.requests[0].body


def test_a_temperature_that_the_model_refuses_is_dropped(server: OpenAIServer) -> None:
    ask(pool_of(model(server, name="gpt-5", temperature=0.25)), "gpt-5")
    assert "temperature" not in server.requests[0].body


def test_the_schema_is_sent_strictly_to_a_model_that_takes_one(server: OpenAIServer) -> None:
    ask(pool_of(model(server, name="gpt-4o")), "gpt-4o")
    sent = server.requests[0].body["response_format"]["json_schema"]
    assert sent == {"name": "labels", "strict": True, "schema": SCHEMA}


def test_no_schema_is_sent_to_a_model_that_takes_none_by_litellms_map(server: OpenAIServer) -> None:
    ask(pool_of(model(server, name="gpt-3.5-turbo")), "gpt-3.5-turbo")
    assert server.requests[0].schema is None


def test_the_schema_is_sent_to_a_model_that_litellm_does_not_know(server: OpenAIServer) -> None:
    ask(pool_of(model(server)))
    assert server.requests[0].schema == SCHEMA


def without_schemas(body: dict[str, Any]) -> Reply:
    """A server that knows no JSON schema."""
    return Reply.fails(400) if "response_format" in body else Reply.says("yes")


def test_a_server_that_refuses_the_schema_is_asked_without_it_from_then_on(server: OpenAIServer) -> None:
    server.script = without_schemas
    pool = pool_of(model(server))
    assert [ask(pool).content for _ in range(2)] == ["yes", "yes"]
    assert [request.schema for request in server.requests] == [SCHEMA, None, None]


LONG: dict[str, object] = {"type": "object", "properties": {"topic": {"enum": [*map(str, range(5000))]}}}


@pytest.mark.parametrize("name", ["test", "gpt-4o"], ids=["unknown to litellm", "known to litellm"])
def test_a_schema_with_too_many_labels_costs_other_questions_nothing(server: OpenAIServer, name: str) -> None:
    server.script = lambda body: Reply.fails(400) if "4999" in json.dumps(body) else Reply.says("yes")
    pool = pool_of(model(server, name=name))
    for schema in (LONG, SCHEMA, LONG, SCHEMA):
        assert asyncio.run(pool[name].attempt(MESSAGES, schema, 10.0)).content == "yes"
    assert [request.schema for request in server.requests] == [LONG, None, SCHEMA, None, SCHEMA]
    assert "response_format" not in pool[name].model.batch_request(MESSAGES, LONG)


def test_a_request_is_not_sent_again_without_a_schema_that_was_taken_before(server: OpenAIServer) -> None:
    pool = pool_of(model(server))
    ask(pool)
    server.script = lambda body: Reply.fails(400)
    with pytest.raises(RejectedError):
        ask(pool)
    assert len(server.requests) == 2


def test_a_schema_that_litellm_rewrites_for_a_provider_is_sent_whole_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def rewriting(*, response_format: dict[str, Any], **_: object) -> None:
        response_format["json_schema"]["schema"].clear()

    monkeypatch.setattr(litellm_info.litellm(), "acompletion", rewriting)
    schema = {"type": "string"}
    sent = {"model": "gemini/any", "messages": [], "response_format": {"json_schema": {"schema": schema}}}
    asyncio.run(litellm_info.complete(sent))
    assert schema == {"type": "string"}


def test_a_model_that_does_not_exist_is_asked_once(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.fails(404)
    with pytest.raises(RejectedError):
        ask(pool_of(model(server)))
    assert len(server.requests) == 1


def test_calls_that_are_refused_at_once_for_their_schema_are_all_answered(server: OpenAIServer) -> None:
    server.script = without_schemas
    pool = pool_of(model(server))

    async def at_once() -> list[ModelAnswer]:
        return await asyncio.gather(*(pool["test"].attempt(MESSAGES, SCHEMA, 10.0) for _ in range(8)))

    assert [answer.content for answer in asyncio.run(at_once())] == ["yes"] * 8
    assert not pool["test"].resting


def test_the_schema_is_sent_again_after_a_request_that_was_refused_without_it_too(
    server: OpenAIServer,
) -> None:
    refused = iter([400, 400])
    server.script = lambda body: Reply.fails(status) if (status := next(refused, 0)) else Reply.says("yes")
    pool = pool_of(model(server))
    with pytest.raises(RejectedError):
        ask(pool)
    ask(pool)
    assert [request.schema for request in server.requests] == [SCHEMA, None, SCHEMA]


def test_a_refused_schema_that_the_settings_demand_is_a_failure(server: OpenAIServer) -> None:
    server.script = without_schemas
    with pytest.raises(RejectedError):
        ask(pool_of(model(server, structured_output=True)))
    assert len(server.requests) == 1


def test_answers_are_found_again_whether_or_not_the_schema_was_refused(server: OpenAIServer) -> None:
    server.script = without_schemas
    pool = pool_of(model(server))
    before = pool["test"].model.fingerprint(MESSAGES, SCHEMA)
    ask(pool)
    assert pool["test"].model.fingerprint(MESSAGES, SCHEMA) == before


def test_a_line_of_a_batch_has_no_schema_that_might_be_refused(server: OpenAIServer) -> None:
    assert "response_format" not in pool_of(model(server))["test"].model.batch_request(MESSAGES, SCHEMA)


@pytest.mark.parametrize(("name", "structured"), [("gpt-4o", False), ("test", True)])
def test_structured_output_in_the_settings_overrides_litellm(
    server: OpenAIServer, name: str, structured: bool
) -> None:
    ask(pool_of(model(server, name=name, structured_output=structured)), name)
    assert (server.requests[0].schema is not None) is structured


def test_the_instruction_goes_in_front_of_the_text_where_no_system_message_is_taken(
    server: OpenAIServer,
) -> None:
    ask(pool_of(model(server, system_message=False)))
    assert server.requests[0].body["messages"] == [{"role": "user", "content": f"Label the text.\n\n{TEXT}"}]


def test_the_map_knows_models_without_a_system_message() -> None:
    assert not litellm_info._accepts_system_message("gemini/gemma-3-27b-it")
    assert litellm_info._accepts_system_message("openai/gpt-4o")


def test_an_open_server_is_not_sent_the_key_of_openai(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-openai-only")
    ask(Pool([model(server)]))
    assert server.requests[0].key == "none"


# -- what is read


def test_the_answer_carries_content_usage_and_dollars(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says(ANSWER, usage=(80, 50))
    answer = ask(pool_of(model(server)))
    assert (answer.content, answer.usage.input_tokens, answer.usage.output_tokens) == (ANSWER, 80, 50)
    assert answer.usage.cost == pytest.approx(80 * 2e-6 + 50 * 8e-6, rel=1e-12)
    assert not answer.estimated


def test_reasoning_tokens_are_paid_as_output_and_not_twice(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says(ANSWER, usage=(10, 40), reasoning_tokens=30)
    assert ask(pool_of(model(server))).usage.output_tokens == 40


def test_a_missing_usage_is_estimated_and_said_to_be(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says(ANSWER, usage=None)
    pool = pool_of(model(server))
    answer = ask(pool)
    assert answer.estimated
    assert answer.usage.input_tokens == pool["test"].model.count(MESSAGES) > 0
    assert answer.usage.output_tokens > 0
    assert answer.usage.cost > 0


def test_an_empty_list_of_choices_is_a_bad_answer_that_was_paid(server: OpenAIServer) -> None:
    error = failure(server, Reply.no_choices())
    assert isinstance(error, BadAnswerError)
    assert error.usage is not None
    assert (error.usage.input_tokens, error.usage.output_tokens) == (10, 2)
    assert error.usage.cost == pytest.approx(10 * 2e-6 + 2 * 8e-6)


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_no_content_is_a_bad_answer(server: OpenAIServer, content: str | None) -> None:
    assert isinstance(failure(server, Reply.says(content)), BadAnswerError)


def test_an_answer_that_was_cut_off_before_it_began_says_to_raise_max_tokens(server: OpenAIServer) -> None:
    error = failure(server, Reply.says("", finish_reason="length"))
    assert isinstance(error, BadAnswerError)
    assert "max_tokens" in str(error)


@pytest.mark.parametrize(
    "reply",
    [
        Reply.says(None, refusal="I cannot do that."),
        Reply.says(None, finish_reason="content_filter"),
        Reply.says("half an ans", finish_reason="content_filter"),
        Reply.fails(400, "blocked by the content policy", code="content_policy_violation"),
    ],
    ids=["refusal", "filter", "filtered half-way", "policy"],
)
def test_a_refusal_is_a_refusal_in_all_its_forms(server: OpenAIServer, reply: Reply) -> None:
    assert isinstance(failure(server, reply), RefusedError)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply.fails(400), RejectedError),
        (Reply.fails(401), KeyRejectedError),
        (Reply.fails(402), KeyRejectedError),
        (Reply.fails(403), KeyRejectedError),
        (Reply.fails(404, code="model_not_found"), RejectedError),
        (Reply.fails(413), ContextTooLongError),
        (Reply.fails(422), RejectedError),
        (Reply.fails(429, retry_after="60"), RateLimitedError),
        (Reply.fails(429, code="insufficient_quota"), KeyRejectedError),
        (Reply.fails(500), UnavailableError),
        (Reply.fails(502), UnavailableError),
        (Reply.fails(503), UnavailableError),
        (Reply.fails(529), UnavailableError),
        (
            Reply.fails(400, "maximum context length is 10 tokens", code="context_length_exceeded"),
            ContextTooLongError,
        ),
        (Reply.page(), UnavailableError),
        (Reply.page(status=502), UnavailableError),
        (Reply.broken(), UnavailableError),
        (Reply(body=[1]), UnavailableError),
        (Reply(body={"hello": 1}), UnavailableError),
    ],
    ids=lambda value: f"{value.status}" if isinstance(value, Reply) else value.__name__,
)
def test_a_failure_of_the_provider_is_ours_and_was_asked_once(
    server: OpenAIServer, reply: Reply, expected: type[ModelError]
) -> None:
    assert type(failure(server, reply)) is expected
    assert server.count() == 1


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with OpenAIServer(lambda body: Reply.says(ANSWER)) as server:
        gone = model(server)
    with pytest.raises(UnavailableError):
        ask(pool_of(gone))


# -- secrets


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503])
def test_neither_the_key_nor_what_the_provider_says_is_in_an_error_or_a_log(
    server: OpenAIServer, status: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, logger="camvo")
    caplog.set_level(logging.INFO)
    reply = Reply.fails(status, f"bad key {KEY} for the prompt {TEXT}", retry_after="60")
    error = failure(server, reply)
    printed = capfd.readouterr()
    assert printed.out == ""  # litellm likes to offer its help
    visible = f"{error} {error!r} {caplog.text} {printed.err}"
    assert KEY not in visible
    assert TEXT not in visible


def test_the_lines_that_litellm_and_httpx_would_log_are_switched_off() -> None:
    litellm_info.litellm()
    assert not logging.getLogger("LiteLLM").isEnabledFor(logging.ERROR)
    assert not logging.getLogger("httpx").isEnabledFor(logging.INFO)


def test_the_key_is_in_no_repr(server: OpenAIServer) -> None:
    pool = pool_of(model(server, parameters={"extra_headers": {"x-secret": KEY}}))
    assert repr(pool) == "Pool(test)"
    assert KEY not in f"{pool!r} {vars(pool)} {model(server, parameters={'extra_headers': {'a': KEY}})!r}"


def test_a_key_variable_that_is_not_set_is_named_before_anything_is_sent(server: OpenAIServer) -> None:
    pool = Pool([model(server, api_key_env="NOT_SET_ANYWHERE"), model(server, name="open")])
    assert pool.missing_keys() == ("NOT_SET_ANYWHERE",)
    assert pool.missing_keys("open") == ()
    with pytest.raises(KeyRejectedError, match="NOT_SET_ANYWHERE"):
        ask(pool)
    assert server.count() == 0


def test_the_variable_that_litellm_would_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    pool = Pool([ModelSettings(name="claude", model="anthropic/claude-sonnet-4-5")])
    assert pool.missing_keys() == ("ANTHROPIC_API_KEY",)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert pool.missing_keys() == ()


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("openai/gpt-4o", ["OPENAI_API_KEY", "OPENAI_ADMIN_KEY"]),
        ("anthropic/claude-sonnet-4-5", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]),
        ("gemini/gemini-2.5-flash", ["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
    ],
)
def test_a_key_that_was_never_set_is_a_rejected_key(
    name: str, variables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(KeyRejectedError):
        ask(Pool([ModelSettings(name="test", model=name)]))


# -- what it costs


def test_a_price_left_out_comes_from_the_map() -> None:
    mapped = Pool([ModelSettings(name="a", model="openai/gpt-4o")])
    written = Pool([ModelSettings(name="a", model="openai/gpt-4o", input_price=2.5, output_price=10.0)])
    assert mapped["a"].model.cost(MESSAGES) == pytest.approx(written["a"].model.cost(MESSAGES))


@pytest.mark.parametrize("given", [{}, {"input_price": 1.0}, {"output_price": 1.0}])
def test_a_model_without_a_price_is_refused_by_name(given: dict[str, float]) -> None:
    with pytest.raises(PriceMissingError, match="model mine") as caught:
        Pool([ModelSettings.model_validate({"name": "mine", "model": "openai/nobody-knows-it", **given})])
    assert "_price" in str(caught.value.fix)


def test_a_price_of_0_in_the_map_must_be_written_out() -> None:
    with pytest.raises(PriceMissingError):
        Pool([ModelSettings(name="local", model="ollama/llama3")])


def test_a_written_price_of_0_is_free() -> None:
    pool = Pool([ModelSettings(name="local", model="ollama/llama3", input_price=0, output_price=0)])
    assert pool["local"].model.cost(MESSAGES) == pool["local"].model.ceiling(MESSAGES, None) == 0.0


def test_an_unknown_provider_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="opnai/gpt-4o"):
        Pool([ModelSettings(name="a", model="opnai/gpt-4o", input_price=1, output_price=1)])


def test_a_second_name_for_the_same_requests_is_refused() -> None:
    with pytest.raises(ConfigError, match="asks openai/a exactly as 'a' does"):
        pool_of(model(name="a"), model(name="b", model="openai/a", input_price=9, api_key_env="B"))


@pytest.mark.parametrize("other", [{"temperature": 1}, {"parameters": {"api_base": "http://b/v1"}}])
def test_one_model_with_two_kinds_of_requests_is_two_models(other: dict[str, Any]) -> None:
    assert pool_of(model(name="a"), model(name="b", model="openai/a", **other)).names == ("a", "b")


def test_before_the_first_answer_the_expected_output_is_max_tokens() -> None:
    pool = pool_of(model(max_tokens=100))
    counted = pool["test"].model.count(MESSAGES)
    assert pool["test"].model.cost(MESSAGES) == pytest.approx((counted * 2 + 100 * 8) / 1e6)


def test_reported_usage_corrects_the_expected_cost(server: OpenAIServer) -> None:
    pool = pool_of(model(server))
    counted = pool["test"].model.count(MESSAGES)
    server.script = lambda body: Reply.says(ANSWER, usage=(3 * counted, 4))
    ask(pool)
    assert pool["test"].model.cost(MESSAGES) == pytest.approx((3 * counted * 2 + 4 * 8) / 1e6)


def test_a_model_that_never_answered_is_expected_to_answer_as_long_as_the_others() -> None:
    names = ("slow", "brief", "usual", "wordy")
    pool = pool_of(*(model(name=name) for name in names))
    assert pool["slow"].model.meter.output_tokens == 256  # max_tokens, before any answer
    for name, written in zip(names[1:], (4, 6, 90), strict=True):
        pool[name].model.meter.observe(Used(100, 100, written))
    assert (pool["slow"].model.meter.output_tokens, pool["slow"].model.meter.measured_by) == (6, "others")
    assert pool["wordy"].model.meter.output_tokens == 90


def test_before_any_answer_the_longest_label_is_expected() -> None:
    test = pool_of(model(structured_output=True))["test"].model
    labels = ["Yes", "No, by no means, since it says the contrary"]
    schema = {"type": "object", "properties": {"mood": {"type": "string", "enum": labels}}}
    longest = count_text(json.dumps({"mood": labels[1]}))
    assert 10 < longest < 30
    inputs = test.count(MESSAGES) * 2 / 1e6
    assert test.cost(MESSAGES, schema=schema) == pytest.approx(inputs + longest * 8 / 1e6)
    assert not test.is_bounded_only(schema)


@pytest.mark.parametrize(
    ("answer", "settings"),
    [
        ({"type": "string"}, {}),
        ({"type": "array", "items": {"type": "object", "properties": {}}}, {}),
        ({"type": "string", "enum": ["Yes"]}, {"structured_output": False}),
        ({"type": "string", "enum": ["Yes"]}, {"parameters": {"reasoning_effort": "low"}}),
    ],
    ids=["text", "spans", "no schema", "reasoning"],
)
def test_only_max_tokens_bounds_an_answer_of_any_length(answer: object, settings: dict[str, Any]) -> None:
    test = pool_of(model(**{"structured_output": True, **settings}))["test"].model
    schema = {"type": "object", "properties": {"mood": answer}}
    assert test.is_bounded_only(schema)
    assert test.cost(MESSAGES, schema=schema) == test.cost(MESSAGES)
    test.meter.observe(Used(100, 100, 5))
    assert not test.is_bounded_only(schema)


def test_it_is_never_expected_to_answer_longer_than_it_may() -> None:
    pool = pool_of(model(name="slow", max_tokens=20), model(name="wordy"))
    pool["wordy"].model.meter.observe(Used(100, 100, 90))
    assert pool["slow"].model.meter.output_tokens == 20


def test_the_correction_is_the_ratio_of_the_sums_and_the_output_is_the_mean() -> None:
    pool = pool_of(model())
    for counted, reported, written in [(100, 150, 10), (300, 350, 20)]:
        pool["test"].model.meter.observe(Used(counted, reported, written))
    expected = pool["test"].model.count(MESSAGES) * 500 / 400
    assert pool["test"].model.cost(MESSAGES) == pytest.approx((expected * 2 + 15 * 8) / 1e6)


def test_an_estimated_usage_does_not_move_the_correction(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says(ANSWER, usage=None)
    pool = pool_of(model(server, output_price=0))
    pool["test"].model.meter.observe(Used(100, 250, 1))
    before = pool["test"].model.cost(MESSAGES)
    ask(pool)
    assert pool["test"].model.cost(MESSAGES) == pytest.approx(
        before, rel=0.02
    )  # the estimate is a whole number


@pytest.mark.parametrize("text", ["short", "词" * 300, "🎉" * 200, "a b c " * 500, "\x00\x01" * 100])
def test_the_ceiling_covers_one_token_a_byte_and_the_longest_answer(server: OpenAIServer, text: str) -> None:
    messages = [MESSAGES[0], {"role": "user", "content": text}]
    worst = sum(len(m["content"].encode()) for m in messages)
    server.script = lambda body: Reply.says(ANSWER, usage=(worst, 256))
    pool = pool_of(model(server))
    ceiling = pool["test"].model.ceiling(messages, None)
    answer = asyncio.run(pool["test"].attempt(messages, None, 10.0))
    assert answer.usage.cost <= ceiling


# -- usage that cannot be


def reporting(prompt_tokens: object, completion_tokens: object) -> Reply:
    """An answer whose usage is exactly this, whatever it is."""
    reply = Reply.says(ANSWER, usage=None)
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": 1}
    return replace(reply, body={**dict(reply.body), "usage": usage})  # type: ignore[call-overload]


def test_no_more_tokens_are_believed_than_the_call_could_take(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says(ANSWER, usage=(10**15, 10**15))
    pool = pool_of(model(server, max_tokens=100, structured_output=False))
    with capture_logs() as logs:
        answers = [ask(pool) for _ in range(2)]
    bound = sum(len(message["content"].encode()) + 16 for message in MESSAGES)
    usages = [answer.usage for answer in answers]
    assert [(usage.input_tokens, usage.output_tokens) for usage in usages] == [(bound, 100)] * 2
    assert [usage.cost for usage in usages] == [pool["test"].model.ceiling(MESSAGES, SCHEMA)] * 2
    warnings = [(log["direction"], log["reported"], log["believed"]) for log in logs]
    assert warnings == [("input", 10**15, bound), ("output", 10**15, 100)]
    assert {log["event"] for log in logs} == {"usage_capped"}


def test_capped_usage_is_counted(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says(ANSWER, usage=(10, 10**15))
    pool = pool_of(model(server, name="counted"))
    for _ in range(3):
        ask(pool, "counted")
    samples = metrics.samples(several_processes=False)["camvo_usage_capped_total"]
    counts = {tuple(sample.labels.values()): sample.value for sample in samples}
    assert counts["counted", "output"] == 3.0
    assert ("counted", "input") not in counts


def test_one_absurd_usage_does_not_raise_the_expected_price_above_the_ceiling(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says(ANSWER, usage=(10**15, 10**15))
    pool = pool_of(model(server, structured_output=False))
    ask(pool)
    assert pool["test"].model.cost(MESSAGES) <= pool["test"].model.ceiling(MESSAGES, None)


@pytest.mark.parametrize(
    ("prompt_tokens", "completion_tokens"), [(-5, -5), (None, None), (0, 0), (-(10**15), 0)]
)
def test_a_usage_that_is_no_usage_is_estimated(
    server: OpenAIServer, prompt_tokens: object, completion_tokens: object
) -> None:
    server.script = lambda body: reporting(prompt_tokens, completion_tokens)
    pool = pool_of(model(server))
    answer = ask(pool)
    assert (answer.estimated, answer.usage.input_tokens) == (True, pool["test"].model.count(MESSAGES))
    assert 0.0 < answer.usage.cost <= pool["test"].model.ceiling(MESSAGES, None)


@pytest.mark.parametrize(
    "tokens",
    [True, 1.5, -1.5, 1e300, "10", "many", float("nan"), float("inf"), [1], {"sum": 1}, 10**400],
    ids=lambda tokens: repr(tokens)[:12],
)
def test_no_usage_of_any_type_is_more_than_one_missing_vote(server: OpenAIServer, tokens: object) -> None:
    """litellm itself refuses some of them; then the call failed, and costs nothing."""
    server.script = lambda body: reporting(tokens, tokens)
    pool = pool_of(model(server, structured_output=False))
    try:
        cost = ask(pool).usage.cost
    except UnavailableError as error:
        cost = error.usage.cost if error.usage else 0.0
    assert 0.0 <= cost <= pool["test"].model.ceiling(MESSAGES, SCHEMA)
    assert 0.0 < pool["test"].model.cost(MESSAGES) <= pool["test"].model.ceiling(MESSAGES, None)


# -- answers that are far too long


def test_an_answer_far_longer_than_max_tokens_is_a_bad_answer_that_was_paid(server: OpenAIServer) -> None:
    error = failure(server, Reply.says("glad " * 4_000_000))
    assert isinstance(error, BadAnswerError)
    assert "max_tokens" in str(error)
    assert error.usage is not None
    assert error.usage.output_tokens == 2


def test_without_usage_such_an_answer_is_booked_as_max_tokens(server: OpenAIServer) -> None:
    error = failure(server, Reply.says("glad " * 4_000_000, usage=None))
    assert error.usage is not None
    assert error.usage.output_tokens == model().max_tokens


def test_a_long_answer_within_max_tokens_is_an_answer(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says("word " * 200, usage=(10, 201))
    assert ask(pool_of(model(server, max_tokens=256))).content == "word " * 200


def test_a_schema_raises_the_ceiling_of_a_model_that_takes_one() -> None:
    pool = pool_of(model(name="gpt-4o"))
    assert pool["gpt-4o"].model.ceiling(MESSAGES, SCHEMA) > pool["gpt-4o"].model.ceiling(MESSAGES, None)


# -- fingerprints


def test_the_fingerprint_is_the_same_for_the_same_call() -> None:
    assert pool_of(model())["test"].model.fingerprint(MESSAGES, SCHEMA) == pool_of(model())[
        "test"
    ].model.fingerprint(list(MESSAGES), json.loads(json.dumps(SCHEMA)))


def test_the_fingerprint_ignores_key_name_price_and_limits() -> None:
    first = Pool([model()], keys={"test": "a"})
    other = Pool(
        [model(name="b", model="openai/test", input_price=9, rpm=5, timeout=1, api_key_env="B")],
        keys={"b": "b"},
    )
    assert first["test"].model.fingerprint(MESSAGES, SCHEMA) == other["b"].model.fingerprint(MESSAGES, SCHEMA)


def test_the_fingerprint_ignores_a_secret_header() -> None:
    def print_of(secret: str) -> str:
        pool = pool_of(model(parameters={"extra_headers": {"authorization": secret}}))
        return pool["test"].model.fingerprint(MESSAGES, SCHEMA)

    assert print_of("one") == print_of("two")


@pytest.mark.parametrize(
    "change",
    [
        {"model": "openai/other"},
        {"temperature": 0.5},
        {"max_tokens": 9},
        {"system_message": False},
        {"structured_output": False},
        {"parameters": {"seed": 1}},
        {"parameters": {"api_base": "http://elsewhere"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_fingerprint_changes_with_what_decides_the_answer(change: dict[str, Any]) -> None:
    plain = pool_of(model())["test"].model.fingerprint(MESSAGES, SCHEMA)
    assert pool_of(model(**change))["test"].model.fingerprint(MESSAGES, SCHEMA) != plain


def test_the_fingerprint_tells_texts_apart_that_only_look_secret() -> None:
    pool = pool_of(model(structured_output=True))
    texts = ["see http://ann@example.org", "see http://bob@example.org"]
    prints = {pool["test"].model.fingerprint([{"role": "user", "content": t}], SCHEMA) for t in texts}
    schemas = [{"properties": {"token": {"enum": [label]}}} for label in "ab"]
    prints |= {pool["test"].model.fingerprint(MESSAGES, schema) for schema in schemas}
    assert len(prints) == 4


# -- names


@pytest.mark.parametrize(
    "use",
    [
        lambda pool: pool["nobody"].model.cost(MESSAGES),
        lambda pool: pool["nobody"].model.ceiling(MESSAGES, None),
        lambda pool: pool["nobody"].resting,
        lambda pool: pool["nobody"].model.fingerprint(MESSAGES, SCHEMA),
    ],
)
def test_a_name_that_is_not_in_the_pool_is_refused(use: Callable[[Pool], object]) -> None:
    with pytest.raises(ModelUnknownError, match="test"):
        use(pool_of(model()))


# -- log-probabilities

TOKENS = [('{"sentiment": "', -0.01), ("Neg", -0.25), ("ative", -0.0), ('"}', -0.02)]


def test_log_probabilities_are_asked_for_only_where_the_settings_say_so(server: OpenAIServer) -> None:
    ask(pool_of(model(server)))
    ask(pool_of(model(server, logprobs=True)))
    silent, asked = (request.body for request in server.requests)
    assert "logprobs" not in silent
    assert asked["logprobs"] is True


def test_an_answer_without_them_has_the_fingerprint_that_it_had(server: OpenAIServer) -> None:
    off, on = (pool_of(model(server, logprobs=wanted)) for wanted in (False, True))
    assert off["test"].model.fingerprint(MESSAGES, SCHEMA) != on["test"].model.fingerprint(MESSAGES, SCHEMA)
    assert off["test"].model.fingerprint(MESSAGES, SCHEMA) == pool_of(model(server))[
        "test"
    ].model.fingerprint(MESSAGES, SCHEMA)


def test_a_provider_that_gives_them_is_read(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says(ANSWER, logprobs=TOKENS)
    answer = ask(pool_of(model(server, logprobs=True)))
    assert [(token.text.decode(), token.log_probability) for token in answer.tokens] == TOKENS


@pytest.mark.parametrize(
    "logprobs",
    [None, {}, {"content": None}, {"content": []}],
)
def test_a_provider_that_gives_none_or_an_empty_list_still_answers(
    server: OpenAIServer, logprobs: object
) -> None:
    body: dict[str, Any] = json.loads(json.dumps(Reply.says(ANSWER).body))
    body["choices"][0]["logprobs"] = logprobs
    server.script = lambda _: Reply(body=body)
    answer = ask(pool_of(model(server, logprobs=True)))
    assert (answer.content, answer.tokens) == (ANSWER, ())


def taken_or_cured(name: str) -> bool:
    """Whether a key becomes a parameter, or is refused with what to write instead."""
    try:
        taken = ModelSettings.model_validate({"name": "a", "model": "openai/a", name: [1]})
    except ValidationError as error:
        return bool(error.errors()[0]["ctx"]["fix"])
    return taken.parameters == {name: [1]}


def test_every_parameter_of_litellm_is_taken_or_refused_with_what_to_write_instead() -> None:
    names = {*inspect.signature(litellm.completion).parameters, *litellm.OPENAI_CHAT_COMPLETION_PARAMS}
    assert {"max_completion_tokens", "seed"} <= names
    for name in sorted((names | {"drop_params"}) - ModelSettings.model_fields.keys()):
        assert taken_or_cured(name), name


@pytest.mark.parametrize("name", ["max_completion_tokens", "max_new_tokens", "num_predict"])
def test_other_names_of_max_tokens_are_refused_with_it(name: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ModelSettings.model_validate({"name": "a", "model": "openai/a", name: 500})
    assert refused.value.errors()[0]["ctx"]["fix"] == "set max_tokens"
