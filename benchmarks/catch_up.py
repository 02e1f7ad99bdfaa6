# ruff: noqa: E402 - the paths come first
"""How fast a process reads what others have written, and how long a new one takes to know all of it.

    OMP_NUM_THREADS=1 python benchmarks/catch_up.py [--events 100000] [--writers 16] [--postgres]

Texts are labelled by two scripted models under the default policy. Their events are then repeated until the
ledger has so many. Timed are: adding up all of them from the first one, starting from a snapshot, and reading
while other processes append events all the time. Memory is what this process takes at the end of
each step.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psutil
import yaml

from backend.ledger import LedgerAccess

sys.path[:0] = [
    str(Path(__file__).parent),
    str(Path(__file__).parents[1] / "tests" / "support"),
    str(Path(__file__).parents[1]),
]
from labelling import LabelFolder
from postgres import Postgres
from sqlalchemy import func, insert, select

from backend.learning.states import States
from backend.ledger import Ledger, Writer, projects
from backend.ledger.database import tables
from backend.ledger.events import ProjectEvents, StateKey, StateRecords
from backend.testing import Reply
from backend.upkeep import copy
from camvo.state.contribution import Contribution
from camvo.state.state import State

PROJECT = "in"
TEXTS = 300
TAIL = 499
"""Events since the newest snapshot: one fewer than those after which another is made."""


def label_texts(folder: Path) -> None:
    """A short run with the default policy."""

    def moods(body: dict[str, Any]) -> Reply:
        return Reply.says({"label": "Glad" if len(str(body)) % 5 else "Sad"})

    with LabelFolder(folder, moods, concurrency=16) as short:
        config = yaml.safe_load((folder / "camvo.yaml").read_text())
        del config["policy"]
        (folder / "camvo.yaml").write_text(yaml.safe_dump(config))
        short.table(*("so " * (number % 9) + f"lovely {number}" for number in range(TEXTS)))
        short.label()


def labelled_events(ledger: Ledger) -> list[dict[str, Any]]:
    """The rows of the events of the short run."""
    query = select(tables.events).where(tables.events.c.sequence <= TEXTS).order_by(tables.events.c.sequence)
    with ledger.read() as connection:
        return [dict(row._mapping) for row in connection.execute(query)]


def append(ledger: Ledger, rows: list[dict[str, Any]], count: int) -> None:
    """Append events to the project in one transaction."""
    with ledger.write() as connection:
        numbers = projects.next_sequences(connection, PROJECT, count, time.time())
        repeated = zip(numbers, itertools.cycle(rows), strict=False)
        connection.execute(insert(tables.events), [{**row, "sequence": number} for number, row in repeated])


class Reader:
    """A process's copy of the state."""

    def __init__(self, url: str, row: dict[str, Any]) -> None:
        self.ledger = Ledger(url)
        self.writer, self.readers = Writer(self.ledger), ThreadPoolExecutor(4)
        self.states = States(LedgerAccess(self.ledger, self.writer, self.readers))
        self.key = StateKey(PROJECT, row["control"], row["epoch"])

    async def current(self) -> Any:
        return await self.states.current(self.key, dimension=8, lambda_l=1.0, linear=False)

    def close(self) -> None:
        self.writer.close()
        self.readers.shutdown()
        self.ledger.close()


def newest(ledger: Ledger) -> int:
    """The number of the project's last event; a reader may have appended a restart."""
    with ledger.read() as connection:
        return int(connection.scalars(select(func.max(tables.events.c.sequence))).one())


def snapshot_in_memory(ledger: Ledger, rows: list[dict[str, Any]]) -> None:
    """Store the snapshot that a process makes that has read all events."""
    with ledger.read() as connection:
        stored = ProjectEvents(connection, PROJECT).after(0, limit=TEXTS)
    lessons = [Contribution.unpack(event.contribution) for event in stored]
    state = State(8, linear=False)
    repeated = itertools.islice(itertools.cycle(lessons), newest(ledger))
    while some := list(itertools.islice(repeated, 1000)):
        state.add(*some)
    state.restart_if_due()
    last = newest(ledger)
    with ledger.write() as connection:
        names = PROJECT, rows[0]["control"], rows[0]["epoch"]
        StateRecords(connection, *names).save_snapshot(last, state.snapshot(), now=time.time())
    print(f"a snapshot of {state.rounds:,} rounds takes {len(state.snapshot()):,} bytes")


def timed(url: str, row: dict[str, Any], what: str, events: int) -> None:
    reader = Reader(url, row)
    used, began = time.process_time(), time.perf_counter()
    state = asyncio.run(reader.current())
    seconds, used = time.perf_counter() - began, time.process_time() - used
    print(
        f"{what}: {seconds:.2f} s ({used:.2f} s of the processor), {events / used:,.0f} events per second of"
        f" it, {state.rounds:,} rounds, {psutil.Process().memory_info().rss / 2**20:.0f} MiB"
    )
    reader.close()


async def follow(reader: Reader, seconds: float, writers: int) -> None:
    """Read again and again what other processes append."""
    before = (await reader.current()).rounds
    until, reads, used = time.perf_counter() + seconds, 0, time.process_time()
    while time.perf_counter() < until:
        rounds = (await reader.current()).rounds
        reads += 1
    used = time.process_time() - used
    new = rounds - before
    print(
        f"beside {writers} writers: {new / seconds:,.0f} events a second appended and read in"
        f" {reads / seconds:,.0f} reads a second, {new / used:,.0f} events per second of the processor"
    )


@contextmanager
def appending(url: str, writers: int) -> Iterator[None]:
    """Other processes that append 20 events at a time."""
    command = [sys.executable, __file__, "--append-to", url]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(writers)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def append_for_ever(url: str) -> None:
    ledger = Ledger(url)
    rows = labelled_events(ledger)
    print("ready", flush=True)
    while True:
        append(ledger, rows, 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument(
        "--snapshot-in-memory",
        action="store_true",
        help="do not time the first event on: add the events up without reading them, and store the snapshot",
    )
    parser.add_argument("--writers", type=int, default=1, help="processes that append while one reads")
    parser.add_argument("--postgres", action="store_true", help="a ledger on PostgreSQL instead of SQLite")
    parser.add_argument("--append-to", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.append_to:
        append_for_ever(options.append_to)
        return
    with (
        tempfile.TemporaryDirectory(prefix="camvo-catch-up-") as name,
        Postgres(Path(name) / "postgres") if options.postgres else nullcontext() as server,
    ):
        label_texts(Path(name))
        url = f"sqlite:///{name}/ledger.sqlite"
        measure(url if server is None else copied(url, server.new_ledger_url()), options)


def copied(url: str, target: str) -> str:
    """Copy a ledger into an empty one, and return the latter's URL."""
    ledgers = Ledger(url), Ledger(target)
    copy(*ledgers, lambda rows: None)
    for ledger in ledgers:
        ledger.close()
    return target


def measure(url: str, options: argparse.Namespace) -> None:
    events = options.events
    ledger = Ledger(url)
    rows = labelled_events(ledger)
    with ledger.write() as connection:
        connection.execute(tables.snapshots.delete())
    for first in range(newest(ledger), events, 5000):
        append(ledger, rows, min(5000, events - first))
    size = sum(len(row["contribution"]) for row in rows) / len(rows)
    print(f"{events:,} events of {size:,.0f} bytes on average, without their contexts")
    if options.snapshot_in_memory:
        snapshot_in_memory(ledger, rows)
    else:
        timed(url, rows[0], "from the first event", events)
    append(ledger, rows, TAIL)
    timed(url, rows[0], f"from a snapshot, {TAIL} events behind", TAIL)
    if options.snapshot_in_memory:
        ledger.close()
        return
    reader = Reader(url, rows[0])
    with appending(url, options.writers):
        asyncio.run(follow(reader, options.seconds, options.writers))
    reader.close()
    ledger.close()


if __name__ == "__main__":
    main()
