from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from old_ledger import AGE, PROJECT
from sqlalchemy import select

from backend import upkeep
from backend.errors import LedgerError
from backend.ledger import Ledger, rounds
from backend.ledger.database import tables
from backend.ledger.rounds import ProjectRounds
from backend.upkeep import _nothing


@pytest.fixture
def postgres(migrated_postgres_url: Callable[[], str]) -> Iterator[Ledger]:
    with closing(Ledger(migrated_postgres_url())) as ledger:
        yield ledger


def test_a_copy_on_postgresql_has_every_row_and_is_sound(ledger: Ledger, postgres: Ledger) -> None:
    copied = upkeep.copy(ledger, postgres, _nothing)
    with ledger.read() as before, postgres.read() as after:
        for table in tables.metadata.sorted_tables:
            order = list(table.primary_key.columns)
            rows = [
                [tuple(row) for row in side.execute(select(table).order_by(*order))]
                for side in (before, after)
            ]
            assert sorted(rows[0], key=repr) == sorted(rows[1], key=repr), table.name
        assert not list(upkeep.problems(after, _nothing))
    assert copied["rounds"] == 25


def test_new_ids_of_a_copy_continue_those_of_its_source(ledger: Ledger, postgres: Ledger) -> None:
    upkeep.copy(ledger, postgres, _nothing)
    with postgres.write() as connection:
        [last] = ProjectRounds(connection, PROJECT).of_task(25)
        again = rounds.RoundKey(PROJECT, 26, last.key.control, last.key.question, last.key.epoch)
        assert rounds.insert_each(connection, [rounds.Round(**_fields(last) | {"key": again})])[0] > last.id


def _fields(round_: rounds.Round) -> dict[str, object]:
    return {name: getattr(round_, name) for name in rounds.Round.__slots__}


def test_a_ledger_that_holds_something_is_not_copied_over(ledger: Ledger, postgres: Ledger) -> None:
    upkeep.copy(ledger, postgres, _nothing)
    with pytest.raises(LedgerError, match="not empty: it has rows in"):
        upkeep.copy(ledger, postgres, _nothing)


def test_a_copy_that_fails_leaves_nothing(
    ledger: Ledger, postgres: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_continue_ids", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        upkeep.copy(ledger, postgres, _nothing)
    with postgres.read() as connection:
        assert not any(upkeep.row_counts(connection).values())


def test_a_pruned_ledger_is_copied_back_to_sqlite(ledger: Ledger, postgres: Ledger, tmp_path: Path) -> None:
    upkeep.copy(ledger, postgres, _nothing)
    upkeep.prune(postgres, PROJECT, AGE, lambda_l=1.0, advance=_nothing)
    with closing(Ledger(f"sqlite:///{tmp_path / 'back.sqlite'}")) as back:
        back.migrate()
        upkeep.copy(postgres, back, _nothing)
        with back.read() as connection, postgres.read() as source:
            assert not list(upkeep.problems(connection, _nothing))
            assert upkeep.row_counts(connection) == upkeep.row_counts(source)
