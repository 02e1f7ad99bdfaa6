"""A thousand mutated requests: never a 500, always JSON with a code, never a traceback in the log."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from front_thread import Front
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from label_studio_requests import (
    Annotation,
    Project,
    annotated,
    annotated_in_bulk,
    annotations_deleted,
    predict,
    project_updated,
    setup,
    start_training,
    task,
    tasks_created,
    tasks_deleted,
    updated,
)
from whole_backend import Backend, votes

BODIES: list[tuple[str, Any]] = [
    ("/predict", predict([task(1), task(2)])),
    ("/predict", predict([task(3)], context={"result": []})),
    ("/setup", setup(extra_params={"instructions": "Be brief.", "few_shot": 2, "models": ["red"]})),
    ("/webhook", annotated(Annotation(number=1, task=1, mood="Sad"))),
    ("/webhook", updated(Annotation(number=1, task=1, mood="Glad", origin="prediction"))),
    ("/webhook", annotated_in_bulk([Annotation(number=2, task=2, mood="Calm", bulk=True)])),
    ("/webhook", annotations_deleted(1, 2)),
    ("/webhook", tasks_deleted(2)),
    ("/webhook", tasks_created(task(4))),
    ("/webhook", project_updated(Project(model_version="other"))),
    ("/webhook", start_training()),
]

ODD: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63, -(2**63) - 1, 10**40, 1e308, float("nan"), float("inf")),
    *(
        "",
        " ",
        "\0",
        "\ud800",
        "x\udfff\ud800",
        "😀",
        "0001-01-01",
        "9999-12-31T23:59:59Z",
        "-1",
        "%",
        "x" * 5000,
    ),
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-03-01"),
    *([], {}, [[]], [None], {"": None}, {"id": None}, ["text"], [{"id": 2**64}], {"choices": {"a": 1}}),
    *("<View/>", "<View", "<View><Choices name='a' toName='b'/></View>", "&lol;", "<!DOCTYPE x>"),
]

PIECES = [b"\r\n", b"\0", b"\x80", b" ", b":", b"%00", b"0\r\n\r\n"]


def nested(depth: int) -> Any:
    value: Any = "deep"
    for level in range(depth):
        value = [value] if level % 2 else {"text": value}
    return value


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value, its own included."""
    yield path
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, entry in entries:
        yield from places(entry, (*path, key))


odd_values = st.sampled_from([*ODD, *map(nested, (50, 99, 150))]) | st.text(max_size=8) | st.integers()


@st.composite
def mutated_bodies(draw: st.DrawFn) -> tuple[str, Any]:
    """A recorded body with one to three values replaced, removed or renamed."""
    path, body = draw(st.sampled_from(BODIES))
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(list(places(body))))
        if not place:
            return path, draw(odd_values)
        *parents, key = place
        parent = body
        for name in parents:
            parent = parent[name]
        change = draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "double"]))
        if change == "replace":
            parent[key] = copy.deepcopy(draw(odd_values))  # a later change would alter the next example's
        elif change == "remove":
            del parent[key]
        elif isinstance(parent, dict):
            parent[draw(st.text(max_size=4))] = parent.pop(key) if change == "rename" else parent[key]
        else:
            parent.append(copy.deepcopy(parent[key]))
    return path, body


@st.composite
def mutated_bytes(draw: st.DrawFn) -> bytes:
    """A request as bytes, of which some are replaced, removed or doubled."""
    path, body = draw(st.sampled_from(BODIES))
    content = json.dumps(body).encode()
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)
    framed = draw(
        st.sampled_from(
            [
                b"Content-Length: %d\r\n\r\n%b" % (len(content), content),
                b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
                b"Authorization: Basic !!\xff\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content),
            ]
        )
    )
    head = draw(
        st.sampled_from([b"POST " + path.encode(), b"GET /status", b"GET /status?project=%00%ff&format=html"])
    )
    request = bytearray(head + b" HTTP/1.1\r\nHost: x\r\n" + framed)
    end = request.index(b"\r\n\r\n") + 4
    for _ in range(draw(st.integers(1, 4))):
        here = draw(st.integers(0, min(len(request), end + 40) - 1))
        change = draw(st.sampled_from(["replace", "remove", "insert", "double"]))
        if change == "replace":
            request[here] = draw(st.integers(0, 255))
        elif change == "remove":
            del request[here : here + draw(st.integers(1, 8))]
        elif change == "insert":
            request[here:here] = draw(
                st.sampled_from([b"\r\n", b"\0", b"\x80", b" ", b":", b"%00", b"0\r\n\r\n"])
            )
        else:
            request[here:here] = request[here : here + 20]
    return bytes(request)


def fuzz(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Settings of a run: the same requests every time, so that CI takes the same time."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    script = votes(red="Glad", green="Glad", blue="Sad")
    with Backend(tmp_path_factory.mktemp("fuzz"), script, deadline=30) as backend:
        yield backend


def assert_fine(status: int, content: bytes) -> None:
    assert status < 500 or status == 501, content  # 501: an unknown transfer coding
    if status >= 400:
        assert set(json.loads(content)) == {"code", "message", "where", "fix"}


@pytest.fixture
def nothing_internal(backend: Backend, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """No task failed unexpectedly, and the log has no traceback and no text of a request."""
    before = backend.metric("camvo_tasks_total", outcome="internal")
    yield
    assert backend.metric("camvo_tasks_total", outcome="internal") == before
    said = capfd.readouterr().err
    assert "Traceback" not in said
    for event in ("internal", "late_failure"):
        assert f'"event": "{event}"' not in said
    assert "of the diary" not in said


@pytest.mark.usefixtures("nothing_internal")
def test_mutated_bodies_are_answered_or_refused(backend: Backend) -> None:
    @fuzz(700)
    @given(mutated_bodies())
    def send(request: tuple[str, Any]) -> None:
        path, body = request
        response = backend.client.post(path, data=json.dumps(body), content_type="application/json")
        assert_fine(response.status_code, response.data)

    send()


@pytest.mark.usefixtures("nothing_internal")
def test_mutated_bytes_are_answered_or_refused_and_the_front_goes_on(
    backend: Backend,
) -> None:
    with Front(backend.app) as front:

        @fuzz(300)
        @given(mutated_bytes())
        def send(request: bytes) -> None:
            with front.send(request) as client:
                client.send_no_more()
                answer = client.answer_or_end()
                if answer is not None:
                    assert_fine(answer.status, answer.body)

        send()
        assert front.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").answer().status == 200
        assert front.worker.reception.buffered == 0
