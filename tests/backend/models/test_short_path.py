"""The short path sends what ``litellm.acompletion`` sends, and reads what comes back as it does."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from backend.errors import UnavailableError
from backend.models import model as litellm_info
from backend.models.calls import ProviderResponse, path_of, read_response
from backend.models.failures import model_error
from backend.testing import OpenAIServer, Reply

MESSAGES = [{"role": "system", "content": "Label the text."}, {"role": "user", "content": "Cold soup."}]
SCHEMA = {"type": "object", "properties": {"mood": {"enum": ["glad", "sad"]}}, "required": ["mood"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "labels", "strict": True, "schema": SCHEMA}}
OPTIONS = {"timeout": 10.0, "max_retries": 0, "num_retries": 0, "drop_params": True}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(lambda body: Reply.says("sad")) as running:
        yield running


def request(server: OpenAIServer, model: str, **parameters: Any) -> dict[str, Any]:
    address = {"api_base": server.url, "api_key": "sk-test"}
    return {"model": model, "messages": MESSAGES, "max_tokens": 50, **address, **OPTIONS, **parameters}


def both_ways(call: dict[str, Any]) -> list[Any]:
    """What a call brings on the short path, and by ``acompletion``: a response or an exception."""

    async def outcomes() -> list[Any]:
        path = path_of(call, {})
        assert path is not None
        ways = path.call(call["messages"], 10.0), litellm_info.litellm().acompletion(**call)
        return [(await asyncio.gather(way, return_exceptions=True))[0] for way in ways]

    litellm_info.litellm()
    return asyncio.run(outcomes())


@pytest.mark.parametrize("model", ["openai/gpt-4o", "openai/own", "openai/gpt-5", "hosted_vllm/own"])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"temperature": 0.25, "seed": 5, "top_p": 0.5},
        {"response_format": FORMAT, "logprobs": True},
        {"stop": ["\n"], "frequency_penalty": 0.1, "presence_penalty": 0.2},
    ],
)
def test_the_same_request_reaches_the_server(
    server: OpenAIServer, model: str, parameters: dict[str, Any]
) -> None:
    both_ways(request(server, model, **parameters))
    short, long = server.requests
    ours, litellms = ({k: v for k, v in each.body.items() if k != "extra_body"} for each in (short, long))
    assert ours == litellms
    assert short.key == long.key


@pytest.mark.parametrize("model", ["openai/own", "hosted_vllm/own"])
@pytest.mark.parametrize(
    "reply",
    [
        Reply.says("sad", usage=(7, 3), version="own-2026", fingerprint="fp"),
        Reply.says("sad", usage=None),
        Reply.says("<think>hm</think>sad"),
        Reply.says("", finish_reason="length"),
        Reply.says(None, refusal="no"),
        Reply.says("sad", logprobs=[("s", -0.1), ("ad", -0.2)]),
        Reply.no_choices(),
    ],
)
def test_a_response_is_read_alike(server: OpenAIServer, model: str, reply: Reply) -> None:
    server.script = lambda body: reply
    found: list[ProviderResponse] = [read_response(each) for each in both_ways(request(server, model))]
    assert found[0] == found[1]


def message(**fields: Any) -> Reply:
    body = Reply.says("")
    assert isinstance(body.body, dict)
    body.body["choices"][0]["message"] = {"role": "assistant", **fields}
    return body


CALL = {"id": "c1", "type": "function", "function": {"name": "answer", "arguments": '{"mood": "sad"}'}}


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ({"content": [{"type": "text", "text": "sa"}, {"type": "text", "text": "d"}]}, "sad"),
        ({"content": None, "tool_calls": [CALL]}, '{"mood": "sad"}'),
        ({"content": "", "tool_calls": [CALL]}, '{"mood": "sad"}'),
        ({"content": "sad", "tool_calls": [CALL]}, "sad"),
        ({"content": None, "tool_calls": [CALL, CALL]}, ""),
    ],
)
def test_parts_of_a_text_and_the_arguments_of_a_tool_are_the_answer(
    server: OpenAIServer, fields: dict[str, Any], content: str
) -> None:
    server.script = lambda body: message(**fields)
    call = request(server, "openai/own")
    path = path_of(call, {})
    assert path is not None
    assert read_response(asyncio.run(path.call(call["messages"], 10.0))).content == content


def test_a_schema_is_sent_in_the_order_in_which_it_asks(server: OpenAIServer) -> None:
    parts = {"quote": {"type": "string"}, "before": {"type": "string"}, "label": {"type": "string"}}
    schema = {"type": "object", "properties": parts, "required": [*parts]}
    wanted = {"type": "json_schema", "json_schema": {"name": "labels", "strict": True, "schema": schema}}
    both_ways(request(server, "openai/own", response_format=wanted))
    for each in server.requests:
        assert [*each.body["response_format"]["json_schema"]["schema"]["properties"]] == [*parts]


@pytest.mark.parametrize("model", ["openai/own", "hosted_vllm/own"])
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 429, 500, 503])
def test_a_refusal_is_the_same_error(server: OpenAIServer, model: str, status: int) -> None:
    server.script = lambda body: Reply(status, {"error": {"message": "no", "code": None}})
    short, long = (model_error(each, "own") for each in both_ways(request(server, model)))
    assert type(short) is type(long)


@pytest.mark.parametrize("code", ["insufficient_quota", "context_length_exceeded"])
def test_the_code_of_an_error_is_read_as_from_openai(server: OpenAIServer, code: str) -> None:
    server.script = lambda body: Reply(429, {"error": {"message": "no", "code": code}})
    short, long = (model_error(each, "own") for each in both_ways(request(server, "openai/own")))
    assert type(short) is type(long)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "anthropic/claude-sonnet-4-5"},
        {"user": "nobody"},
        {"extra_body": {"top_k": 1}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Cold soup."}]}]},
    ],
)
def test_other_calls_go_by_acompletion(server: OpenAIServer, change: dict[str, Any]) -> None:
    assert path_of({**request(server, "openai/own"), **change}, {}) is None


def test_variables_of_openais_own_client_are_left_to_it(server: OpenAIServer) -> None:
    assert path_of(request(server, "openai/own"), {"OPENAI_PROJECT_ID": "p"}) is None


@pytest.mark.parametrize("model", ["openai/own", "anthropic/claude-haiku-4-5"])
def test_a_call_whose_connection_breaks_is_sent_once(model: str) -> None:
    """Litellm would send it again, at once, and nobody would count what the provider bills twice."""
    sent = 0

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        sent += 1
        own = writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()

    async def call() -> None:
        async with await asyncio.start_server(reset, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            address = {"api_base": f"http://127.0.0.1:{port}/v1", "api_key": "sk-test"}
            options = {"model": model, "messages": MESSAGES, "max_tokens": 50, **address, **OPTIONS}
            [broken] = await asyncio.gather(litellm_info.complete(options), return_exceptions=True)
            assert isinstance(model_error(broken, "own"), UnavailableError)

    asyncio.run(call())
    assert sent == 1
