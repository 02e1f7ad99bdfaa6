from __future__ import annotations

from collections.abc import Callable

import pytest
from old_ledger import AGE, PROJECT
from sqlalchemy import Connection, delete, select, update

from backend import upkeep
from backend.ledger import Ledger
from backend.ledger.database import tables
from backend.upkeep import _nothing
from camvo.state.state import State

_events, _rounds, _calls = tables.events, tables.rounds, tables.calls


def kinds(ledger: Ledger) -> set[str]:
    with ledger.read() as connection:
        return {problem.kind for problem in upkeep.problems(connection, _nothing)}


def prune(ledger: Ledger) -> None:
    upkeep.prune(ledger, PROJECT, AGE, lambda_l=1.0, advance=_nothing)


def test_a_sound_ledger_has_no_problems(ledger: Ledger) -> None:
    assert kinds(ledger) == set()


def test_a_pruned_ledger_has_no_problems(ledger: Ledger) -> None:
    prune(ledger)
    assert kinds(ledger) == set()


def _learn_again(connection: Connection) -> None:
    event = dict(connection.execute(select(_events)).first()._mapping)  # type: ignore[union-attr]
    connection.execute(_events.insert().values(**event | {"sequence": 999}))
    connection.execute(update(tables.projects).values(sequence=999))


DAMAGES: dict[str, tuple[Callable[[Connection], object], set[str]]] = {
    "an event that is missing": (
        lambda connection: connection.execute(delete(_events).where(_events.c.sequence == 3)),
        {"events", "round"},
    ),
    "a round that was learnt twice": (_learn_again, {"events", "round"}),
    "a round that teaches another label": (
        lambda connection: connection.execute(
            update(_rounds).where(_rounds.c.task == 3).values(taught="Cross")
        ),
        {"round"},
    ),
    "a context that is missing": (
        lambda connection: connection.execute(delete(tables.contexts).where(tables.contexts.c.round_id == 3)),
        {"round"},
    ),
    "a cost that no account knows": (
        lambda connection: connection.execute(
            update(_calls).where(_calls.c.id == 1).values(cost=_calls.c.cost + 1)
        ),
        {"money"},
    ),
    "an account that no call explains": (
        lambda connection: connection.execute(
            tables.accounts.insert().values(project="*", scope="2020-01-01", spent=5, reserved=0)
        ),
        {"money"},
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed(ledger: Ledger, damage: str) -> None:
    function, expected = DAMAGES[damage]
    with ledger.write() as connection:
        function(connection)
    assert kinds(ledger) == expected


def test_a_damaged_base_is_noticed(ledger: Ledger) -> None:
    prune(ledger)
    with ledger.write() as connection:
        connection.execute(update(tables.bases).values(state=b"nothing"))
    assert kinds(ledger) == {"state"}


def test_a_snapshot_that_is_not_the_sum_is_noticed(ledger: Ledger) -> None:
    with ledger.read() as connection:
        row = connection.execute(select(_events).limit(1)).one()
    with ledger.write() as connection:
        connection.execute(
            tables.snapshots.insert().values(
                project=PROJECT,
                control=row.control,
                epoch=row.epoch,
                sequence=5,
                state=State(8).snapshot(),
                created_at=0.0,
            )
        )
    assert kinds(ledger) == {"state"}
