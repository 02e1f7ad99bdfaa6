"""The front: whole requests enter threads, lanes do not wait for each other, and no client holds a thread."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from front_thread import Front
from server_process import wait_until

from backend.server import front as connection

URGENT = ["/", "/health", "/webhook", "/setup", "/versions", "/ready", "/status", "/metrics"]


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = "Host: x\r\nTransfer-Encoding: chunked\r\n\r\n"
ADA = "Authorization: Basic YWRhOnNlY3JldA==\r\n"
GUARDED = {"basic_auth_user": "ada", "basic_auth_pass": "secret", "webhook_secret": "hush"}


class Application:
    """A WSGI application that answers with the path and the body; ``/predict`` waits for :attr:`models`."""

    def __init__(self) -> None:
        self.models = threading.Event()
        self.waiting = threading.Semaphore(0)
        self.bodies: list[bytes] = []

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read()
        self.bodies.append(body)
        if environ["PATH_INFO"] == "/predict":
            self.waiting.release()
            assert self.models.wait(60)
        answer = environ["PATH_INFO"].encode() + b" " + body
        start("200 OK", [("Content-Length", str(len(answer)))])
        return [answer]

    def await_predictions(self, number: int) -> None:
        for _ in range(number):
            assert self.waiting.acquire(timeout=30)


@pytest.fixture
def application() -> Iterator[Application]:
    application = Application()
    yield application
    application.models.set()


def post(path: str, body: bytes = b"{}", header: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{header}Content-Length: {len(body)}\r\n\r\n".encode() + body


def chunked(path: str, *chunks: bytes) -> bytes:
    parts = b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks)
    return (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        + parts
        + b"0\r\n\r\n"
    )


# -- lanes


@pytest.mark.parametrize("path", URGENT)
def test_every_other_endpoint_answers_while_all_predictions_wait_for_models(
    application: Application, path: str
) -> None:
    with Front(application, threads=2) as front:
        waiting = [front.send(post("/predict")) for _ in range(2)]
        application.await_predictions(2)
        assert front.send(post(path)).answer().body == f"{path} {{}}".encode()
        application.models.set()
        assert [client.answer().status for client in waiting] == [200, 200]


def test_a_prediction_without_a_place_gets_503_at_once_and_one_after_the_release_is_answered(
    application: Application,
) -> None:
    with Front(application, threads=2) as front:
        waiting = [front.send(post("/predict")) for _ in range(2)]
        application.await_predictions(2)
        refused = front.send(post("/predict")).answer()
        assert (refused.status, refused.code) == (503, "busy")
        assert int(refused.headers["retry-after"]) > 0
        assert not application.models.is_set()
        application.models.set()
        assert [client.answer().status for client in waiting] == [200, 200]
        assert waiting[0].send(post("/predict")).answer().status == 200


@pytest.mark.parametrize("path", ["/%70redict", "//predict", "http://x/predict", "/predict/", "/elsewhere"])
def test_no_spelling_of_predict_gets_into_another_lane(application: Application, path: str) -> None:
    with Front(application, threads=1) as front:
        front.send(post("/predict"))
        application.await_predictions(1)
        assert front.send(post(path)).answer().code == "busy"
        application.models.set()


def test_256_predictions_can_wait_at_once(application: Application) -> None:
    with Front(application) as front:
        waiting = [front.send(post("/predict")) for _ in range(256)]
        application.await_predictions(256)
        assert front.send(post("/webhook")).answer().status == 200
        application.models.set()
        assert {client.answer().status for client in waiting} == {200}


# -- slow clients


def test_clients_with_half_a_request_stop_nobody_and_are_closed(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_HEADER_SECONDS", 1.0)
    monkeypatch.setattr(connection, "_BODY_SECONDS", 1.0)
    with Front(application, threads=1) as front:
        headers = [front.send(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-") for _ in range(200)]
        bodies = [front.send(post("/predict", b"x" * 100)[:-1]) for _ in range(200)]
        for path in ("/health", "/webhook", "/setup"):
            assert front.send(post(path)).answer().status == 200
        application.models.set()
        assert front.send(post("/predict")).answer().status == 200
        assert {client.answer().status for client in [*headers, *bodies]} == {408}
        assert all(client.ends() for client in [*headers, *bodies])
        assert len(application.bodies) == 4
    assert front.worker.reception.buffered == 0


def test_a_client_that_says_nothing_is_closed_without_an_answer(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_HEADER_SECONDS", 0.1)
    with Front(application) as front:
        assert front.connect()._received.read() == b""


def test_a_header_that_comes_byte_by_byte_does_not_gain_time(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_HEADER_SECONDS", 0.5)
    with Front(application) as front, front.connect() as client, ThreadPoolExecutor(1) as other:
        answer, closed = other.submit(client.answer), threading.Event()
        answer.add_done_callback(lambda _: closed.set())
        client.send(b"POST /webhook HTTP/1.1\r\nHost: x\r\nX: ")
        while not closed.wait(0.05):
            client.send(b"x")
        assert answer.result().code == "request_slow"


def test_a_body_gains_time_with_every_byte(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_BODY_SECONDS", 0.2)
    monkeypatch.setattr(connection, "_BODY_RATE", 10)
    with Front(application) as front, front.connect() as client:
        client.send(post("/webhook", b"x" * 1000)[:-1])
        answers_later = threading.Event()
        assert not answers_later.wait(1.0)  # five times what an empty body has
        assert client.send(b"x").answer().status == 200


def test_a_client_that_leaves_midway_frees_everything(application: Application) -> None:
    with Front(application, threads=1) as front:
        for part in (b"", b"POST /predict HT", post("/predict", b"x" * 200_000)[:-1]):
            front.send(part).close()
        wait_until(lambda: front.worker.nr_conns == 0, "end of every connection")
        assert front.worker.reception.buffered == 0


def test_at_the_limit_of_connections_the_one_that_waited_longest_is_closed(application: Application) -> None:
    with Front(application, connections=5) as front:
        silent = [front.connect() for _ in range(8)]
        assert front.send(post("/health")).answer().status == 200
        assert all(client.ends() for client in silent[:4])


# -- limits


def test_an_announced_body_over_the_limit_is_refused_before_it_is_sent(application: Application) -> None:
    with Front(application, max_body_mb=1) as front:
        answer = front.send(b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 1000001\r\n\r\n").answer()
        assert (answer.status, answer.code) == (413, "body_too_large")


def test_a_chunked_body_over_the_limit_is_refused(application: Application) -> None:
    with Front(application, max_body_mb=1) as front:
        answer = front.send(chunked("/predict", *[b"x" * 100_000] * 11)).answer()
        assert (answer.status, answer.code) == (413, "body_too_large")
    assert application.bodies == []


def test_the_bytes_of_all_requests_together_are_bounded_and_small_requests_always_fit(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_BODIES", 2)
    with Front(application, max_body_mb=1) as front:
        part = post("/predict", b"x" * 1_000_000)[:-1]
        senders = [front.send(part) for _ in range(2)]
        wait_until(lambda: front.worker.reception.buffered > 1_850_000, "two large bodies")
        assert front.send(part).answer().code == "busy"
        assert front.send(post("/webhook", b"y" * 60_000)).answer().status == 200
        application.models.set()
        assert [sender.send(b"x").answer().status for sender in senders] == [200, 200]
    assert front.worker.reception.buffered == 0


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (
            HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (HEAD + b"Content-Length: -1\r\n\r\n", 400),
        (HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (HEAD + b"Transfer-Encoding: nothing\r\n\r\n", 501),
        (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000, 400),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"a\r\n%b\r\n" % (b"x" * 10) * 20_000, 400),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 9000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nExpect: more\r\n\r\n", 417),
        (b"GET / HTTP/3.0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_or_an_ambiguous_one_is_refused_in_json(
    application: Application, request_bytes: bytes, status: int
) -> None:
    with Front(application) as front, front.send(request_bytes) as client:
        answer = client.answer()
        assert (answer.status, answer.code) == (status, "http")
        assert client.ends()
    assert application.bodies == []


def test_a_body_without_credentials_is_refused_before_it_is_sent(application: Application) -> None:
    with Front(application, credentials=GUARDED) as front:
        for path, header in [("/predict", ""), ("/webhook", "X-Camvo-Secret: no\r\n"), ("/%70redict", "")]:
            with front.send(post(path, b"x" * 9_000_000, header)[:1000]) as client:
                answer = client.answer()
                assert (answer.status, answer.code) == (401, "unauthorized")
                assert answer.headers["www-authenticate"].startswith("Basic")
                assert client.ends()
        assert front.worker.reception.buffered == 0


def test_a_body_with_credentials_is_received(application: Application) -> None:
    with Front(application, credentials=GUARDED) as front:
        for path, header in [("/setup", ADA), ("/webhook", "X-Camvo-Secret: hush\r\n"), ("/health", "")]:
            assert front.send(post(path, b"x" * 900_000, header)).answer().status == 200


def test_a_webhook_that_may_be_a_training_is_received(application: Application) -> None:
    with Front(application, credentials={"webhook_secret": "hush"}) as front:
        assert front.send(post("/webhook", b"x" * 900_000)).answer().status == 200


# -- connections


def test_requests_sent_at_once_on_one_connection_are_answered_in_their_order(
    application: Application,
) -> None:
    with Front(application) as front, front.connect() as client:
        client.send(post("/webhook", b"1") + chunked("/setup", b"2", b"2") + post("/health", b"3") * 400)
        assert client.answer().body == b"/webhook 1"
        assert client.answer().body == b"/setup 22"
        assert [client.answer().body for _ in range(400)] == [b"/health 3"] * 400
        assert client.send(post("/webhook", b"4")).answer().body == b"/webhook 4"


def test_a_chunk_that_announces_more_than_the_limit_is_refused_at_once(application: Application) -> None:
    with Front(application, max_body_mb=1) as front, front.connect() as client:
        client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n")
        assert client.answer().code == "body_too_large"


@pytest.mark.parametrize("trailer", [b"", b"X: 1\r\n"])
def test_a_chunked_body_reaches_the_application_in_one_piece(
    application: Application, trailer: bytes
) -> None:
    parts = [b"a" * size for size in (1, 7, 60, 5000)]
    with Front(application) as front, front.connect() as client:
        request = chunked("/webhook", *parts).removesuffix(b"\r\n") + trailer + b"\r\n"
        client.send(request + post("/health", b"3"))
        assert client.answer().body == b"/webhook " + b"".join(parts)
        assert client.answer().body == b"/health 3"


def test_a_request_in_pieces_is_served_once_it_is_whole(application: Application) -> None:
    with Front(application) as front, front.connect() as client:
        for byte in post("/webhook", b"body"):
            client.send(bytes([byte]))
        assert client.answer().body == b"/webhook body"


def test_a_client_that_waits_for_100_continue_is_told_so_once(application: Application) -> None:
    with Front(application) as front, front.connect() as client:
        header = post("/webhook", b"body", "Expect: 100-continue\r\n")[:-4]
        assert client.send(header).answer().status == 100
        assert client.send(b"body").answer().body == b"/webhook body"


def test_a_connection_is_closed_after_its_last_answer(application: Application) -> None:
    with Front(application) as front, front.send(post("/webhook", b"", "Connection: close\r\n")) as client:
        assert client.answer().headers["connection"] == "close"
        assert client.ends()


# -- the end


def test_a_stopping_worker_asks_no_model_answers_what_waits_and_ends(application: Application) -> None:
    steps: list[str] = []
    with Front(application, stop_asking=lambda: steps.append("asks no model")) as front:
        client = front.send(post("/predict"))
        idle = front.send(post("/webhook"))
        assert idle.answer().status == 200
        application.await_predictions(1)
        front.stop()
        assert steps == ["asks no model"]
        application.models.set()
        assert client.answer().status == 200
        assert idle.ends()
        assert client.ends()


def test_an_answer_is_received_by_a_client_that_still_sends(application: Application) -> None:
    with Front(application, max_body_mb=1) as front, front.connect() as client:
        client.send(HEAD + b"Content-Length: 5000000\r\n\r\n" + b"x" * 5_000_000)
        assert client.answer().code == "body_too_large"


def test_the_master_does_not_import_metrics_whose_files_would_be_its_own() -> None:
    program = "import sys, backend.server.gunicorn_server; sys.exit('prometheus_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=False)  # noqa: S603 - our own program
    assert done.returncode == 0
