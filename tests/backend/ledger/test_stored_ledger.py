"""A ledger that commit d9d5b7b wrote, opened by the current code.

``ledger_of_d9d5b7b.sql`` is a SQLite dump of one project whose embeddings have eight numbers. Eight tasks
were predicted, and task 8 was deleted afterwards. Tasks 1 to 4 have a human label; the label of task 5 was
withdrawn and task 6 was skipped. There are also a failed call, example texts and a snapshot. PostgreSQL gets
the same rows.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from first_ledger import CONTROL, EPOCH, PROJECT, restore
from sqlalchemy import create_engine, delete, func, insert, inspect, select, text

from backend.ledger import (
    Ledger,
    answers,
    blind_tasks,
    deletions,
    events,
    human_annotations,
    learning_data,
    money,
    projects,
    reports,
    rounds,
)
from backend.ledger.database.tables import metadata
from camvo.errors import SnapshotError
from camvo.scores.guarantee import queue_place
from camvo.state.contribution import Contribution
from camvo.state.state import State

REWARDS = {1: 1.0, 6: 0.0, 7: None}
"""How the blind tasks count: the first was confirmed, the second skipped, the third is not labelled."""


@pytest.fixture(params=["sqlite", "postgresql"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    url = restore(tmp_path / "stored.sqlite")
    ledger = Ledger(url)
    ledger.migrate()
    if request.param != "sqlite":
        ledger.close()
        ledger = Ledger(request.getfixturevalue("migrated_postgres_url")())
        _copy_rows(url, ledger)
    yield ledger
    ledger.close()


def _copy_rows(url: str, ledger: Ledger) -> None:
    source = create_engine(url)
    with source.connect() as reader, ledger.write() as connection:
        for table in metadata.sorted_tables:
            if rows := [dict(row._mapping) for row in reader.execute(select(table))]:
                connection.execute(insert(table), rows)
        for name in ("rounds", "calls"):
            connection.execute(text(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), 24)"))
    source.dispose()


def all_rows(path: Path, columns: Mapping[str, list[str]]) -> dict[str, list[Any]]:
    """Every row of these tables of a SQLite file, with these columns only."""
    database = sqlite3.connect(path)
    rows = {
        table: sorted(database.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall(), key=repr)  # noqa: S608 - its own names
        for table, names in columns.items()
    }
    database.close()
    return rows


def all_columns(path: Path) -> dict[str, list[str]]:
    """The columns of every table of a SQLite file that holds what CaMVo must not forget."""
    engine = create_engine(f"sqlite:///{path}")
    inspector = inspect(engine)
    columns = {
        table: [f'"{column["name"]}"' for column in inspector.get_columns(table)]
        for table in inspector.get_table_names()
        if table != "alembic_version"
    }
    engine.dispose()
    return columns


def summed(recorded: list[events.Event]) -> State:
    state = State(8)
    for event in recorded:
        state.add(Contribution.unpack(event.contribution))
    return state


def test_migrating_changes_no_row(tmp_path: Path) -> None:
    path = tmp_path / "stored.sqlite"
    ledger = Ledger(restore(path))
    columns = all_columns(path)
    columns["rounds"].remove('"context"')  # has its own table now
    for table in ("answers", "answer_tasks", "calls"):
        columns[table].remove('"key"')  # is shorter now
    before = all_rows(path, columns)
    ledger.migrate()
    ledger.close()
    assert {table: [tuple(map(_plain, row)) for row in rows] for table, rows in before.items()} == {
        table: [tuple(map(_plain, row)) for row in rows] for table, rows in all_rows(path, columns).items()
    }
    assert sum(map(len, before.values())) > 50


def _plain(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def test_its_contexts_and_keys_are_what_they_were(tmp_path: Path) -> None:
    path = tmp_path / "stored.sqlite"
    ledger = Ledger(restore(path))
    contexts = all_rows(path, {"rounds": ["id", "context"]})["rounds"]
    keys = all_rows(path, {"answers": ["key"]})["answers"] if contexts else []
    ledger.migrate()
    ledger.close()
    assert all_rows(path, {"contexts": ["round_id", "context"]})["contexts"] == contexts
    assert len(keys) == len(all_rows(path, {"answers": ["key"]})["answers"])


def test_its_tables_are_those_that_the_code_uses(tmp_path: Path) -> None:
    ledger = Ledger(restore(tmp_path / "stored.sqlite"))
    ledger.migrate()
    with ledger.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    ledger.close()


def test_its_project_reads_back(stored: Ledger) -> None:
    with stored.read() as connection:
        [project] = projects.list_all(connection)
    assert (project.key, project.sequence, project.model_version) == (PROJECT, 14, "camvo")
    assert project.label_config is not None


def test_its_rounds_read_back(stored: Ledger) -> None:
    with stored.read() as connection:
        recorded = [rounds.of_task(connection, PROJECT, task) for task in range(1, 9)]
    assert [len(of_task) for of_task in recorded] == [1, 1, 1, 1, 1, 1, 1, 0]
    assert " ".join(of_task[0].label for of_task in recorded[:7]) == "Glad Sad Glad Sad Glad Sad Glad"
    assert [of_task[0].human for of_task in recorded[:7]] == ["Glad", "Sad", "Glad", "Sad", None, None, None]
    assert all(of_task[0].taught_by == "human" for of_task in recorded[:4])
    assert all(of_task[0].taught_by == "vote" for of_task in recorded[4:7])
    sixth = recorded[5][0]
    assert sixth.votes == {"green": None, "red": "Sad", "blue": "Sad"}
    assert sixth.plan["stages"]["order"] == ["green", "red", "blue"]
    assert np.linalg.norm(sixth.context) == pytest.approx(1.0, abs=1e-6)


def test_its_annotations_read_back(stored: Ledger) -> None:
    with stored.read() as connection:
        assert human_annotations.annotation_ids(connection, PROJECT) == {11, 12, 13, 14, 16}
        [fourth] = human_annotations.of_task(connection, PROJECT, 4)
        [sixth] = human_annotations.of_task(connection, PROJECT, 6)
        assert human_annotations.annotated_tasks(connection, PROJECT) == [1, 2, 3, 4, 5, 6]
    assert (fourth.labels, fourth.ground_truth, fourth.teaches) == ({"mood": "Sad"}, True, True)
    assert (sixth.labels, sixth.teaches) == ({}, False)


def test_the_sum_of_its_events_is_the_state_that_d9d5b7b_had(stored: Ledger) -> None:
    with stored.read() as connection:
        recorded = events.after(connection, PROJECT, 0, control=CONTROL, epoch=EPOCH)
    state = summed(recorded)
    assert [event.sequence for event in recorded] == list(range(1, 15))
    assert state.rounds == 8
    assert {arm: (state[arm].rewards, state[arm].reward_sum) for arm in state} == {
        "blue": (8, 6.0),
        "green": (7, 7.0),
        "red": (8, 7.0),
    }


def test_its_snapshot_has_no_tests_of_drift_and_is_refused_so_that_events_are_summed(stored: Ledger) -> None:
    with stored.read() as connection:
        [snapshot] = events.latest_snapshots(connection, PROJECT, CONTROL, EPOCH)
    with pytest.raises(SnapshotError, match="format 5"):
        State.restore(snapshot.state)


def test_its_examples_and_deleted_tasks_read_back(stored: Ledger) -> None:
    with stored.read() as connection:
        examples = learning_data.labelled_tasks(connection, PROJECT, CONTROL, EPOCH)
        assert deletions.is_deleted(connection, PROJECT, 8)
    assert [example.task for example in examples] == [4, 3, 2]  # task 1 is blind
    assert [example.label for example in examples] == ["Sad", "Glad", "Sad"]
    assert examples[0].texts == {"text": "My bicycle was stolen while I bought a lock for it."}


def test_its_blind_rounds_form_the_first_cohort_of_the_queue(stored: Ledger) -> None:
    with stored.read() as connection:
        queue = blind_tasks.queues(connection, PROJECT)[CONTROL, EPOCH]
        blind = [round_ for task in range(1, 9) for round_ in rounds.of_task(connection, PROJECT, task)]
        newest = connection.scalars(select(func.max(metadata.tables["rounds"].c.id))).one()
    blind = sorted((round_ for round_ in blind if round_.audit), key=lambda round_: _place(round_.key.task))
    assert [(entry.task, entry.score) for entry in queue] == [(r.key.task, r.score) for r in blind]
    assert {(entry.cohort, entry.place == _place(entry.task)) for entry in queue} == {(1, True)}
    assert [entry.closed_through for entry in queue if entry.closed_through is not None] == [newest]


def test_its_blind_rounds_count_as_people_labelled_them(stored: Ledger) -> None:
    with stored.read() as connection:
        queue = blind_tasks.queues(connection, PROJECT)[CONTROL, EPOCH]
        confirmed = {
            entry.task: rounds.of_task(connection, PROJECT, entry.task)[0].confirmed for entry in queue
        }
    assert {entry.task: entry.reward for entry in queue} == REWARDS
    assert all(REWARDS[task] == reward for task, reward in confirmed.items() if reward is not None)


def test_a_blind_round_of_it_is_counted_like_a_new_one(stored: Ledger) -> None:
    with stored.write() as connection:
        migrated = blind_tasks.queues(connection, PROJECT)[CONTROL, EPOCH]
        connection.execute(delete(metadata.tables["blind_tasks"]))
        for entry in migrated:
            [round_] = rounds.of_task(connection, PROJECT, entry.task)
            blind_tasks.enter(connection, round_, round_.id)
        entered = blind_tasks.queues(connection, PROJECT)[CONTROL, EPOCH]
    assert [entry.counting for entry in entered] == [entry.counting for entry in migrated]


def _place(task: int) -> int:
    return queue_place(PROJECT, task)


def test_its_answers_and_its_money_read_back(stored: Ledger) -> None:
    with stored.read() as connection:
        calls = reports.sum_calls(connection, PROJECT)
        total = money.balance(connection, PROJECT, money.TOTAL)
        keys = connection.scalars(select(metadata.tables["answers"].c.key)).all()
        contents = {answer.content for answer in answers.find_by_key(connection, keys).values()}
    assert {(row.model, row.failure): row.calls for row in calls} == {
        ("blue", None): 8,
        ("green", None): 7,
        ("green", "model_rejected"): 1,
        ("red", None): 8,
    }
    assert total == money.Account(spent=322_000_000, reserved=0)
    assert contents == {f'{{"mood": "{label}"}}' for label in ("Glad", "Sad", "Calm")}


def test_a_new_round_can_be_appended(stored: Ledger) -> None:
    with stored.write() as connection:
        [last] = rounds.of_task(connection, PROJECT, 7)
        new = dataclasses.replace(last, key=dataclasses.replace(last.key, task=9))
        round_id = rounds.insert_each(connection, [new])[0]
        contribution = events.after(connection, PROJECT, 9, limit=1)[0].contribution
        sequence = events.append(
            connection,
            PROJECT,
            control=CONTROL,
            epoch=EPOCH,
            kind="round",
            contribution=contribution,
            round_id=round_id,
            now=1.0,
        )
    assert round_id > 8  # the id of the deleted round is not reused
    assert sequence == 15
    with stored.read() as connection:
        assert rounds.find_by_key(connection, [new.key])[new.key].id == round_id
        assert summed(events.after(connection, PROJECT, 0)).rounds == 9
