"""A client that meets a busy server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from local_server import Handler, LocalServer

from backend.commands.shared import backend_client
from backend.commands.shared.backend_client import BackendAwayError, BackendClient, TaskAnswer
from backend.errors import BackendError
from backend.settings import Environment


class Busy(LocalServer):
    """A server that is busy for some requests, then predicts."""

    def __init__(self, refusals: int, retry_after: str = "2") -> None:
        self.requests = 0
        outer = self

        class Backend(Handler):
            def respond(self) -> None:
                self.body()
                outer.requests += 1
                if outer.requests <= refusals:
                    self.answer(503, b'{"code": "busy", "message": "no place"}', retry_after=retry_after)
                else:
                    self.answer(200, b'{"results": [[]]}')

        super().__init__(Backend)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a client sleeps, without sleeping."""
    slept: list[float] = []
    monkeypatch.setattr(backend_client, "time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))
    return slept


@pytest.fixture
def serve() -> Iterator[ExitStack]:
    with ExitStack() as running:
        yield running


@pytest.mark.parametrize(
    ("retry_after", "pauses"), [("2", [2.0, 2.0]), ("0", [1.0, 1.0]), ("soon", [10.0] * 2)]
)
def test_a_busy_server_is_asked_again_as_late_as_it_says(
    serve: ExitStack, slept: list[float], retry_after: str, pauses: list[float]
) -> None:
    server = serve.enter_context(Busy(2, retry_after))
    client = BackendClient(server.url, Environment())
    assert client.predict("1.1", "<View/>", [{"id": 1, "data": {}}]) == [TaskAnswer([], "deadline")]
    assert (slept, server.requests) == (pauses, 3)
    client.close()


def test_a_server_that_stays_busy_is_given_up_after_ten_minutes(serve: ExitStack, slept: list[float]) -> None:
    client = BackendClient(serve.enter_context(Busy(10**6, "60")).url, Environment())
    with pytest.raises(BackendError, match="no place"):
        client.predict("1.1", "<View/>", [{"id": 1, "data": {}}])
    assert sum(slept) == 600
    client.close()


class Proxy(Handler):
    """A proxy whose server is away."""

    def respond(self) -> None:
        self.answer(502, b"<html>Bad Gateway</html>", "text/html")


def test_a_proxy_whose_server_is_away_is_told_from_a_refusal(serve: ExitStack) -> None:
    client = BackendClient(serve.enter_context(LocalServer(Proxy)).url, Environment())
    with pytest.raises(BackendAwayError):
        client.progress("1.1")
    client.close()
    refused = BackendClient("http://127.0.0.1:9", Environment())
    with pytest.raises(BackendAwayError):
        refused.progress("1.1")
    refused.close()


class Endless(Handler):
    """A server whose answers never come to an end."""

    def respond(self) -> None:
        self.body()
        failed = [{"task": 1, "code": "no_vote", "failed_at": 0.0, "final": False}]
        body = json.dumps({"done": False, "tasks": failed, "next": 1, "through": 1}).encode()
        if self.path.startswith("/recounted"):
            body = b'{"tasks": [1, 2], "through": 1}'
        self.answer(200, body)


WORK: dict[str, Callable[[BackendClient], object]] = {
    "quote": lambda client: client.quote("1.1", "<View/>", [], {}),
    "recount": lambda client: client.recount("1.1"),
    "doubts": lambda client: client.doubts("1.1", 1.0),
}


@pytest.mark.parametrize("work", WORK)
def test_work_that_never_ends_is_given_up_after_hours(
    serve: ExitStack, slept: list[float], work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_client, "_LONGEST", 20.0)
    server = serve.enter_context(LocalServer(Endless))
    client = BackendClient(server.url, Environment())
    with pytest.raises(BackendError, match="has not finished"):
        WORK[work](client)
    assert 10 < len(slept) <= 20
    client.close()


def test_pages_that_do_not_go_on_are_refused(serve: ExitStack) -> None:
    client = BackendClient(serve.enter_context(LocalServer(Endless)).url, Environment())
    with pytest.raises(BackendError, match="pages do not end"):
        client.failed_tasks("1.1")
    with pytest.raises(BackendError, match="pages do not end"):
        client.recounted("1.1", after=2)
    client.close()
