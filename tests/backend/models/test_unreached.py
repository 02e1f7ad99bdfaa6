"""Calls that never left this process cost nothing, reserve nothing and say what is wrong; others may cost."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from backend.errors import ModelError, StoppingError, UnavailableError
from backend.ledger import Ledger, Writer, money
from backend.models import Pool
from backend.models.call_ledger import CallLedger, ModelQuery
from backend.models.pool import CachingPool
from backend.settings import BudgetSettings, ModelSettings

MESSAGES = [{"role": "system", "content": "Label it."}, {"role": "user", "content": "A long day."}]


def nobody(opened: ExitStack) -> str:
    """An address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def no_name(opened: ExitStack) -> str:
    return "http://no-such-host.invalid"


def answering(opened: ExitStack, answer: bytes) -> int:
    """The port of a server that answers its first connection with some bytes, and closes it."""
    server = opened.enter_context(socket.create_server(("127.0.0.1", 0)))

    def serve() -> None:
        with server.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    port: int = server.getsockname()[1]
    return port


def no_tls(opened: ExitStack) -> str:
    """The address of a server that speaks no TLS."""
    port = answering(opened, b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
    return f"https://127.0.0.1:{port}"


def never_accepted(opened: ExitStack) -> str:
    """The address of a server whose queue of connections is full."""
    server = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
    for _ in range(4):
        waiting = opened.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(server.getsockname())
    return f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def breaks_off(opened: ExitStack) -> str:
    """The address of a server that closes the connection in the middle of its answer."""
    port = answering(opened, b'HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\n{"id": "chatcmpl-')
    return f"http://127.0.0.1:{port}"


def ask(ledger: Ledger, address: str, *, stopped: bool = False) -> Exception:
    """Ask once, and return the error; the ledger then holds no cent of it."""
    error, spent = paid(ledger, address, stopped=stopped)
    assert spent == 0
    return error


def paid(ledger: Ledger, address: str, *, stopped: bool = False) -> tuple[Exception, int]:
    """Ask once, and return the error and what it cost; nothing stays reserved."""
    model = ModelSettings(
        name="red",
        model="openai/red",
        input_price=1000.0,
        output_price=2000.0,
        timeout=1.0,
        parameters={"api_base": f"{address}/v1"},
    )
    pool, writer = Pool([model], keys={"red": "none"}), Writer(ledger)
    calls = CachingPool(pool, CallLedger(writer, lambda: 1e9), retries=0)
    if stopped:
        pool.gate.shut()
    query = ModelQuery("7.1", 1, "red", MESSAGES, {}, BudgetSettings())
    with pytest.raises((ModelError, StoppingError)) as caught:
        asyncio.run(calls.ask(query, 10.0))
    writer.close()
    with ledger.read() as connection:
        account = money.balance(connection, "7.1", money.TOTAL)
    assert account.reserved == 0
    return caught.value, account.spent


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (nobody, "connection refused"),
        (no_name, "its host name is unknown"),
        (no_tls, "the TLS handshake failed"),
        (never_accepted, "no connection in time"),
    ],
)
def test_a_connection_that_does_not_come_about_costs_nothing_and_says_why(
    sqlite_ledger: Ledger, opened: ExitStack, make: Callable[[ExitStack], str], why: str
) -> None:
    error = ask(sqlite_ledger, make(opened))
    assert isinstance(error, UnavailableError)
    assert f"cannot be reached: {why}" in str(error)


def test_a_call_before_a_shut_gate_costs_nothing(sqlite_ledger: Ledger, opened: ExitStack) -> None:
    assert isinstance(ask(sqlite_ledger, nobody(opened), stopped=True), StoppingError)


def test_a_call_whose_answer_broke_off_counts_as_billed(sqlite_ledger: Ledger, opened: ExitStack) -> None:
    error, spent = paid(sqlite_ledger, breaks_off(opened))
    assert isinstance(error, UnavailableError)
    assert error.reason == "its answer broke off"
    assert spent > 0
