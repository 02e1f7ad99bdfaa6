from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ledger_workers
import pytest
from sqlalchemy import Connection

from backend.ledger import Ledger, projects
from backend.ledger.events import Event, NewEvent, ProjectEvents


def append(
    connection: Connection,
    contribution: bytes,
    *,
    project: str = "1.1",
    control: str = "topic",
    epoch: str = "e",
) -> int:
    event = NewEvent(control=control, epoch=epoch, kind="revision", contribution=contribution, round_id=7)
    return ProjectEvents(connection, project).append([event], 3.0)[0]


def test_an_event_reads_back_as_it_was_appended(ledger: Ledger) -> None:
    everything = bytes(range(256))
    with ledger.write() as connection:
        append(connection, everything)
        expected = Event("1.1", 1, "topic", "e", "revision", 7, everything, 3.0)
        assert ProjectEvents(connection, "1.1").after(0) == [expected]


def test_events_are_numbered_without_gaps_within_each_project(ledger: Ledger) -> None:
    with ledger.write() as connection:
        numbers = [
            append(connection, b"x", project=project) for project in ("1.1", "2.1", "1.1", "2.1", "1.1")
        ]
        assert numbers == [1, 1, 2, 2, 3]
        assert [project.sequence for project in projects.list_all(connection)] == [3, 2]


def test_a_sequence_number_that_was_rolled_back_is_used_again(ledger: Ledger) -> None:
    with ledger.write() as connection:
        append(connection, b"first")

    def fail() -> None:
        with ledger.write() as connection:
            append(connection, b"undone")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with ledger.write() as connection:
        assert append(connection, b"second") == 2
        assert [event.contribution for event in ProjectEvents(connection, "1.1").after(0)] == [
            b"first",
            b"second",
        ]


def test_events_are_read_in_portions_after_a_given_number(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for number in range(5):
            append(connection, str(number).encode())
        portion = ProjectEvents(connection, "1.1").after(1, limit=3)
        assert [event.sequence for event in portion] == [2, 3, 4]
        assert [event.sequence for event in ProjectEvents(connection, "1.1").after(4, limit=3)] == [5]


def test_events_can_be_restricted_to_one_state(ledger: Ledger) -> None:
    with ledger.write() as connection:
        append(connection, b"mine")
        append(connection, b"other control", control="mood")
        append(connection, b"other epoch", epoch="f")
        append(connection, b"other project", project="2.1")
        append(connection, b"mine too")
        of_state = ProjectEvents(connection, "1.1").after(0, control="topic", epoch="e")
        assert [(event.sequence, event.contribution) for event in of_state] == [
            (1, b"mine"),
            (4, b"mine too"),
        ]


def test_a_reader_misses_no_event_while_two_processes_append(ledger: Ledger, ledger_url: str) -> None:
    count = 100
    processes = ledger_workers.Together(
        ledger_workers.append, (ledger_url, "a", count), (ledger_url, "b", count)
    )
    tailed: list[Event] = []
    while len(tailed) < 2 * count and processes.running():
        with ledger.read() as connection:
            tailed += ProjectEvents(connection, "1.1").after(len(tailed))
    assert processes.succeeded()
    with ledger.read() as connection:
        tailed += ProjectEvents(connection, "1.1").after(len(tailed))
        assert tailed == ProjectEvents(connection, "1.1").after(0)
    assert [event.sequence for event in tailed] == list(range(1, 2 * count + 1))
    written = [event.contribution.decode().split() for event in tailed]
    for writer in "ab":
        assert [int(number) for name, number in written if name == writer] == list(range(count))


def test_a_killed_process_loses_no_acknowledged_event(ledger: Ledger, ledger_url: str) -> None:
    program = Path(ledger_workers.__file__)
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, str(program), ledger_url],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env={"PYTHONPATH": str(Path(__file__).parents[3])},
    ) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(50)]
        process.kill()
        acknowledged += [
            int(line) for line in process.stdout.read().splitlines(keepends=True) if line[-1] == "\n"
        ]
    with ledger.write() as connection:
        after_it = append(connection, b"after the crash")
        numbers = [event.sequence for event in ProjectEvents(connection, "1.1").after(0, limit=100_000)]
    assert numbers == list(range(1, after_it + 1))
    assert acknowledged == numbers[: len(acknowledged)]
    assert after_it - len(acknowledged) in {1, 2}  # at most one was committed and not yet acknowledged
