"""An answer that a process has read is not bought again, whenever the process is killed."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import migrated
import pytest
from reservations import reserve
from server_process import child
from sqlalchemy import func, select

from backend.errors import Usage
from backend.ledger import Ledger, Writer, money
from backend.ledger.answers import (
    BoughtAnswer,
    CallOutcome,
    ReceivedAnswers,
    _left_behind,
    remove_stored,
    store_received,
)
from backend.ledger.claims import Claims, process_owner
from backend.ledger.database import tables
from backend.models import Pool
from backend.models.call_ledger import CallLedger, ModelQuery
from backend.models.pool import CachingPool
from backend.settings import BudgetSettings, ModelSettings
from backend.testing import OpenAIServer, Reply

TASKS = range(1, 21)
CALL = 14_000_000
"""Picodollars of the usage (10, 2) at 1 $ and 2 $ a million."""

KILLED = """
import asyncio, os, signal, sys
import test_received_answers as here
from backend.ledger.database import writer
from backend.models import call_ledger, model
from backend.models.model_caller import ModelCaller

call_ledger._LEASE = 600.0  # its claims end with it, however long it takes

attempt, run, read = ModelCaller.attempt, writer._run_batch, []

async def counted(*arguments, **options):
    answer = await attempt(*arguments, **options)
    read.append(answer)
    if len(read) == len(here.TASKS):
        # in the loop's next turn, in which each caller has its answer
        asyncio.get_running_loop().call_soon(end)
    return answer

def end():
    print("read", os.getpid(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

def without_answers(ledger, jobs, **options):
    others = [job for job in jobs if "settle" not in getattr(job.function, "together", print).__name__]
    return run(ledger, others, **options) if others else []

ModelCaller.attempt, writer._run_batch = counted, without_answers
model.litellm()
for line in sys.stdin:
    command, *names = line.split()
    if command == "reap":
        os.waitpid(int(names[0]), 0)
        print("reaped", flush=True)
    elif not os.fork():
        asyncio.run(here.Buyer(*names).ask_all())
"""
"""Starts processes that read all answers, commit none of them, and say when they have read them.

Each is a fork: importing the libraries takes longer than all that these tests state.
"""


def stored(ledger: Ledger) -> int:
    """Store what ended processes had received, and delete their files."""
    with ledger.write() as connection:
        calls = store_received(connection)
    remove_stored(ledger)
    return calls


class Buyer:
    """A process that buys answers of the model ``red``."""

    def __init__(self, url: str, address: str) -> None:
        self.ledger = Ledger(url)
        self.stored = stored(self.ledger)
        self.writer, self.received = Writer(self.ledger), ReceivedAnswers(self.ledger)
        model = ModelSettings(
            name="red",
            model="openai/red",
            input_price=1.0,
            output_price=2.0,
            max_concurrency=len(TASKS),
            parameters={"api_base": address},
        )
        calls = CallLedger(self.writer, time.time, self.received)
        self.pool = CachingPool(Pool([model]), calls, retries=0)

    async def ask(self, task: int) -> str:
        messages = [{"role": "user", "content": f"Day {task}."}]
        query = ModelQuery("7.1", task, "red", messages, {}, BudgetSettings())
        return (await self.pool.ask(query, 60.0)).content

    async def ask_all(self) -> list[str]:
        return list(await asyncio.gather(*(self.ask(task) for task in TASKS)))

    def close(self) -> None:
        self.writer.close()
        self.received.close()
        self.ledger.close()


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(lambda body: Reply.says('{"mood": "Glad"}')) as server:
        yield server


@pytest.fixture
def url(tmp_path: Path) -> str:
    return migrated.sqlite(tmp_path / "ledger.sqlite")


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.received-*"))


@pytest.fixture(scope="module")
def buyers() -> Iterator[subprocess.Popen[str]]:
    """A process that starts buyers, and reaps them when it is told to."""
    path = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "support"), *sys.path]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{KILLED}"]
    environment = child(OPENAI_API_KEY="none")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:  # type: ignore[call-overload]  # noqa: S603 - our own code
        yield process


def told(buyers: subprocess.Popen[str], *words: str) -> list[str]:
    """Tell the process that starts buyers something; return the words of the line that comes next."""
    assert buyers.stdin is not None
    assert buyers.stdout is not None
    print(*words, file=buyers.stdin, flush=True)
    return buyers.stdout.readline().split()


def kill_with_answers(buyers: subprocess.Popen[str], url: str, address: str, *, reaped: bool = True) -> None:
    """Kill a process when it has read all answers and stored none; unless ``reaped``, it stays a zombie."""
    said, process = told(buyers, "buy", url, address)
    assert said == "read"
    os.kill(int(process), signal.SIGKILL)
    if reaped:
        assert told(buyers, "reap", process) == ["reaped"]


def assert_bought_once(buyer: Buyer, server: OpenAIServer) -> None:
    """All answers are there, without a further request, and each is charged once."""
    assert asyncio.run(buyer.ask_all()) == ['{"mood": "Glad"}'] * len(TASKS)
    assert len(server.requests) == len(TASKS)
    with buyer.ledger.read() as connection:
        account = money.balance(connection, "7.1", money.TOTAL)
        assert connection.scalar(select(func.count()).select_from(tables.answers)) == len(TASKS)
    assert account == money.Account(spent=CALL * len(TASKS), reserved=0)
    buyer.close()


def test_no_answer_that_a_killed_process_has_read_is_bought_again_by_the_next(
    tmp_path: Path, url: str, server: OpenAIServer, buyers: subprocess.Popen[str]
) -> None:
    kill_with_answers(buyers, url, server.url)
    assert len(server.requests) == len(TASKS)
    [file] = files(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    buyer = Buyer(url, server.url)
    assert buyer.stored == len(TASKS)
    assert files(tmp_path) == []
    assert_bought_once(buyer, server)


@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
def test_no_answer_that_a_killed_process_has_read_is_bought_again_by_one_that_ran_beside_it(
    url: str, server: OpenAIServer, buyers: subprocess.Popen[str], reaped: bool
) -> None:
    buyer = Buyer(url, server.url)
    kill_with_answers(buyers, url, server.url, reaped=reaped)
    assert_bought_once(buyer, server)


def test_a_process_that_ends_leaves_no_file(tmp_path: Path, url: str, server: OpenAIServer) -> None:
    buyer = Buyer(url, server.url)
    asyncio.run(buyer.ask_all())
    assert [file.stat().st_size for file in files(tmp_path)] == [0]
    buyer.close()
    assert files(tmp_path) == []


OUTCOME = CallOutcome("Glad", Usage(10, 2, 14e-6), None, 0.5, {"mood": 0.9}, "red-1")
ANSWER = BoughtAnswer(key="k", model="red", payer=("7.1", 1), content="Glad", outcome=OUTCOME)


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    ledger = Ledger(url)
    yield ledger
    ledger.close()


def reserved(ledger: Ledger) -> int:
    """The id of a call that is under way."""
    with ledger.write() as connection:
        return reserve(connection, "7.1", key="k")


def left_behind(ledger: Ledger, folder: Path) -> Path:
    """The file of a killed process that had received one answer."""
    with ReceivedAnswers(ledger).kept(reserved(ledger), OUTCOME, [ANSWER]):
        content = files(folder)[0].read_bytes()
    path = folder / f"{ledger.file and ledger.file.name}.received-0"
    path.write_bytes(content)
    return path


def test_the_file_of_a_process_that_lives_is_left_alone(tmp_path: Path, ledger: Ledger) -> None:
    with ReceivedAnswers(ledger).kept(reserved(ledger), OUTCOME, [ANSWER]):
        assert stored(ledger) == 0
        assert len(files(tmp_path)) == 1


def test_they_are_found_beside_a_ledger_whose_name_has_brackets(tmp_path: Path) -> None:
    """A file manager names copies so, and a shell reads brackets as a pattern."""
    with closing(Ledger(migrated.sqlite(tmp_path / "ledger [1].sqlite"))) as ledger:
        left_behind(ledger, tmp_path)
        assert stored(ledger) == 1


def _read_only(path: Path, missing_ok: bool = False) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))


def test_a_process_ends_without_an_error_if_its_disk_has_become_read_only(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = ReceivedAnswers(ledger)
    with received.kept(reserved(ledger), OUTCOME, [ANSWER]):
        pass
    with monkeypatch.context() as disk:
        disk.setattr(Path, "unlink", _read_only)
        received.close()
    assert len(files(tmp_path)) == 1
    stored(ledger)
    assert files(tmp_path) == []


def test_a_line_that_was_cut_off_loses_no_other(tmp_path: Path, ledger: Ledger) -> None:
    path = left_behind(ledger, tmp_path)
    path.write_bytes(path.read_bytes()[:40] + path.read_bytes() + path.read_bytes()[:40])
    assert stored(ledger) == 1
    with ledger.read() as connection:
        [row] = connection.execute(select(tables.answers))
    assert (row.content, row.confidences, row.version) == ("Glad", {"mood": 0.9}, "red-1")


def test_an_answer_that_was_stored_after_all_is_kept_and_charged_once(tmp_path: Path, ledger: Ledger) -> None:
    path = left_behind(ledger, tmp_path)
    path.with_name(f"{path.name}1").write_bytes(path.read_bytes())
    assert stored(ledger) == 1
    with ledger.read() as connection:
        assert connection.scalar(select(func.count()).select_from(tables.answers)) == 1
        assert money.balance(connection, "7.1", money.TOTAL) == money.Account(spent=CALL, reserved=0)
    assert not path.exists()


def test_the_file_of_a_killed_process_stays_until_its_answers_are_committed(
    tmp_path: Path, ledger: Ledger
) -> None:
    path = left_behind(ledger, tmp_path)
    with suppress(InterruptedError), ledger.write() as connection:
        assert store_received(connection) == 1
        assert store_received(connection) == 0
        remove_stored(ledger)
        raise InterruptedError
    assert path.exists()
    assert stored(ledger) == 1
    assert not path.exists()


def test_answers_are_stored_also_while_another_process_looks_at_them(tmp_path: Path, ledger: Ledger) -> None:
    path = left_behind(ledger, tmp_path)
    with _left_behind(path) as calls:
        assert calls is not None
        assert stored(ledger) == 1


def test_no_other_claim_of_a_dead_process_is_taken_over_where_its_answer_was_just_stored(
    tmp_path: Path, ledger: Ledger
) -> None:
    left_behind(ledger, tmp_path)
    host, process, _, number = process_owner().split()
    dead = f"{host} {process} 0 {number}"
    with ledger.write() as connection:
        claims = Claims(connection)
        assert None not in (claims.acquire(key, dead, 600.0) for key in ("another", "k"))
        assert claims.acquire("another", "me", 600.0) is None
        assert claims.acquire("k", "me", 600.0) is None
