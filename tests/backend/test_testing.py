from __future__ import annotations

import ast
import asyncio
import doctest
import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from backend import settings, testing
from backend.models import Pool
from backend.testing import OpenAIServer, Reply

MESSAGES = [{"role": "system", "content": "Label it."}, {"role": "user", "content": "A text."}]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(lambda body: Reply.says("Positive")) as running:
        yield running


def ask(server: OpenAIServer, model: str = "small", **fields: Any) -> httpx.Response:
    body = {"model": model, "messages": MESSAGES, **fields}
    return httpx.post(f"{server.url}/chat/completions", json=body, headers={"Authorization": "Bearer secret"})


def test_a_camvo_yaml_with_the_server_s_address_is_asked_there(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return Reply.says({"sentiment": "Positive"}, usage=(40, 10))

    with OpenAIServer(script) as server:
        config = tmp_path / "camvo.yaml"
        address = f"name: cheap, model: openai/small, api_base: {server.url!r}"
        config.write_text(f"models: [{{{address}, input_price: 1, output_price: 2}}]")
        pool = Pool(settings.load(config).models, keys={"cheap": "any"})
        answer = asyncio.run(pool["cheap"].attempt(MESSAGES, None, 10.0))
    assert json.loads(answer.content) == {"sentiment": "Positive"}
    assert answer.usage.cost == pytest.approx((40 * 1 + 10 * 2) / 1e6)
    assert server.count("small") == 1


def test_the_example_in_its_docstring_is_true() -> None:
    assert doctest.testmod(testing) == doctest.TestResults(failed=0, attempted=6)


def test_it_needs_nothing_but_the_standard_library() -> None:
    statements = list(ast.walk(ast.parse(Path(testing.__file__).read_text())))
    imported = {str(node.module) for node in statements if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in statements if isinstance(node, ast.Import) for alias in node.names}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_a_request_is_kept_with_its_model_key_schema_and_system_message(server: OpenAIServer) -> None:
    schema = {"type": "object"}
    ask(server, response_format={"type": "json_schema", "json_schema": {"schema": schema}})
    (request,) = server.requests
    assert (request.model, request.key, request.schema, request.system) == (
        "small",
        "secret",
        schema,
        "Label it.",
    )


def test_requests_are_counted_by_model_and_in_all(server: OpenAIServer) -> None:
    for model in ("small", "large", "small"):
        ask(server, model)
    assert (server.count("small"), server.count("large"), server.count()) == (2, 1, 3)


def test_a_failure_has_openai_s_form_and_the_headers_named(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.fails(429, "slow down", code="rate_limit", retry_after="7")
    response = ask(server)
    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
    assert response.json()["error"]["message"] == "slow down"


def test_a_held_reply_is_sent_when_its_event_is_set(server: OpenAIServer) -> None:
    event = threading.Event()
    server.script = lambda body: Reply.says("late").held_until(event)
    with ThreadPoolExecutor() as threads:
        response = threads.submit(ask, server)
        assert server.wait_for(1)
        assert not response.done()
        event.set()
        assert response.result().status_code == 200


def test_requests_in_progress_at_once_are_counted(server: OpenAIServer) -> None:
    event = threading.Event()
    server.script = lambda body: Reply.says("late").held_until(event)
    with ThreadPoolExecutor() as threads:
        responses = [threads.submit(ask, server) for _ in range(3)]
        assert server.wait_for(3)
        event.set()
        assert [response.result().status_code for response in responses] == [200] * 3
    assert server.most_at_once == 3


def test_leaving_sends_what_is_still_held() -> None:
    with ThreadPoolExecutor() as threads:
        with OpenAIServer(lambda body: Reply.says("late").held_until(threading.Event())) as server:
            response = threads.submit(ask, server)
            assert server.wait_for(1)
        assert response.result().status_code == 200


def test_an_error_of_the_script_is_answered_with_500_and_raised_at_the_end() -> None:
    def script(body: dict[str, Any]) -> Reply:
        raise KeyError(body["model"])

    with pytest.raises(KeyError, match="small"), OpenAIServer(script) as server:
        response = ask(server)
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "the script raised KeyError"


def test_another_error_is_not_hidden_by_that_of_the_script() -> None:
    def leave_with_an_error() -> None:
        with OpenAIServer(lambda body: Reply.says(body["no such key"])) as server:
            ask(server)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leave_with_an_error()


def test_a_completion_may_leave_its_usage_out(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says("Positive", usage=None)
    assert "usage" not in ask(server).json()
