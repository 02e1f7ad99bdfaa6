"""What the processes of the ledger's tests run; imports little, because every process imports it again."""

from __future__ import annotations

import itertools
import multiprocessing
import sys
from collections.abc import Callable
from typing import Any

from backend.errors import BudgetExhaustedError
from backend.ledger import Ledger, deletions, money
from backend.ledger.events import NewEvent, ProjectEvents

Start = Callable[[], object]


class Together:
    """One process for each tuple of arguments; all begin at the same moment."""

    def __init__(self, work: Callable[..., None], *arguments: tuple[Any, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self._barrier = context.Barrier(len(arguments))  # a spawned process looks it up by name
        self._processes = [
            context.Process(target=work, args=(self._barrier.wait, *each), daemon=True) for each in arguments
        ]
        for process in self._processes:
            process.start()

    def running(self) -> bool:
        return any(process.is_alive() for process in self._processes)

    def succeeded(self) -> bool:
        for process in self._processes:
            process.join(60)
        return all(process.exitcode == 0 for process in self._processes)


def append(start: Start, url: str, writer: str, count: int) -> None:
    ledger = Ledger(url)
    start()
    for number in range(count):
        with ledger.write() as connection:
            append_event(connection, f"{writer} {number}".encode())


def migrate(start: Start, url: str) -> None:
    start()
    Ledger(url).migrate()


def reserve_until_exhausted(start: Start, url: str, usd: float, budget: float) -> None:
    ledger = Ledger(url)
    start()
    for task in itertools.count():
        try:
            with ledger.write() as connection:
                wanted = money.Reservation(
                    project="1.1",
                    task=task,
                    model="small",
                    key="key",
                    usd=usd,
                    project_usd=budget,
                    day_usd=None,
                    counted_tokens=1,
                    seconds=60.0,
                )
                money.reserve_each(connection, [wanted])
        except BudgetExhaustedError:
            return


def append_and_say_so(url: str) -> None:
    """Append events until the process ends, and print the number of each once it is committed."""
    ledger = Ledger(url)
    for number in itertools.count():
        with ledger.write() as connection:
            sequence = append_event(connection, f"mortal {number}".encode())
        sys.stdout.write(f"{sequence}\n")
        sys.stdout.flush()


def delete_task(connection: Any, project: str, task: int) -> None:
    """Mark a task as deleted and forget it, as TASKS_DELETED does where nobody labelled it."""
    deletions.mark_deleted(connection, project, [task], 1.0)
    deletions.forget_deleted(connection, project, [task])


def append_event(connection: Any, contribution: bytes = b"x") -> int:
    """Append an event and return its number."""
    event = NewEvent(control="topic", epoch="e", kind="round", contribution=contribution, round_id=None)
    return ProjectEvents(connection, "1.1").append([event], 0.0)[0]


if __name__ == "__main__":
    append_and_say_so(sys.argv[1])
