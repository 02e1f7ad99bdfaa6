"""The audit notices each kind of loss and doubling, in a ledger that is sound otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import migrated
import pytest
from journal import Journal
from ledger_audit import Books, Purchase, audited
from light_workers import annotate, books_of, light_runtime, predict, purchases
from sqlalchemy import Connection, delete, insert, select, update

from backend.ledger import Ledger
from backend.ledger.database import tables

TASKS = range(1, 6)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    """The file of a ledger after five predictions and one annotation, and the journal of what happened."""
    folder = tmp_path_factory.mktemp("sound")
    url = migrated.sqlite(folder / "ledger.sqlite")
    journal = Journal(folder / "journal.jsonl")
    with light_runtime(url, folder, purchases(journal, 1), seconds=lambda: 0.0) as runtime:
        for number, label in predict(runtime, TASKS).items():
            journal.note("predicted", task=number, label=label)
        annotate(runtime, journal, 9, 2, "Sad")
    journal.close()
    return (folder / "ledger.sqlite").read_bytes(), folder / "journal.jsonl"


@pytest.fixture
def books(sound: tuple[bytes, Path]) -> Books:
    return books_of(sound[1])


@pytest.fixture
def ledger(sound: tuple[bytes, Path], tmp_path: Path) -> Iterator[Ledger]:
    (tmp_path / "ledger.sqlite").write_bytes(sound[0])
    with closing(Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")) as ledger:
        yield ledger


def test_a_sound_ledger_has_no_problems(ledger: Ledger, books: Books) -> None:
    audit = audited(ledger, books)
    assert not audit.problems
    assert (books.number_of_purchases(), audit.bought_again) == (15, 0)
    assert (len(books.predicted), len(books.annotated)) == (5, 1)


def test_an_answer_bought_twice_by_a_living_buyer_is_doubled(ledger: Ledger, books: Books) -> None:
    product = next(iter(books.purchases))
    books.buy("another", *product, buyer=1)
    assert set(audited(ledger, books).problems) == {"doubled"}


def test_an_answer_bought_again_after_it_was_stored_is_doubled(ledger: Ledger, books: Books) -> None:
    product = next(iter(books.purchases))
    books.killed.add(1)  # the buyer's death is no excuse: its answer is in the ledger
    books.buy("another", *product, buyer=2)
    assert set(audited(ledger, books).problems) == {"doubled"}


def test_an_answer_bought_again_after_its_buyer_died_is_counted(ledger: Ledger, books: Books) -> None:
    product = next(iter(books.purchases))
    books.purchases[product].insert(0, Purchase("before", 0))
    books.killed.add(0)
    audit = audited(ledger, books)
    assert (audit.problems, audit.bought_again) == ({}, 1)


def test_an_answer_that_was_not_stored_is_lost(ledger: Ledger, books: Books) -> None:
    books.buy("17", "red", "another prompt", buyer=1)
    assert set(audited(ledger, books).problems) == {"lost"}


def test_a_purchase_of_a_killed_buyer_that_nobody_needed_again_is_not_lost(
    ledger: Ledger, books: Books
) -> None:
    books.buy("17", "red", "another prompt", buyer=3)
    books.killed.add(3)
    assert not audited(ledger, books).problems


def test_a_prediction_without_its_round_is_lost(ledger: Ledger, books: Books) -> None:
    books.predicted[77] = "Glad"
    assert set(audited(ledger, books).problems) == {"lost"}


def test_an_annotation_that_was_acknowledged_and_is_missing_is_lost(ledger: Ledger, books: Books) -> None:
    books.annotated[10] = (3, "Calm")
    assert set(audited(ledger, books).problems) == {"lost"}


def _settle_again(connection: Connection) -> None:
    call = dict(connection.execute(select(tables.calls)).first()._mapping)  # type: ignore[union-attr]
    connection.execute(insert(tables.calls).values(**call | {"id": 99, "cost": 0}))


def _learn_again(connection: Connection) -> None:
    event = dict(connection.execute(select(tables.events)).first()._mapping)  # type: ignore[union-attr]
    connection.execute(insert(tables.events).values(**event | {"sequence": 7}))


DAMAGES: dict[str, tuple[Callable[[Connection], object], set[str]]] = {
    "a call that was settled twice": (_settle_again, {"doubled"}),
    "a round that was learnt twice": (_learn_again, {"doubled", "state"}),
    "a call that is still open": (
        lambda connection: connection.execute(
            update(tables.calls).where(tables.calls.c.id == 1).values(state="reserved", cost=None)
        ),
        {"money"},
    ),
    "a cost that no account knows": (
        lambda connection: connection.execute(update(tables.calls).values(cost=tables.calls.c.cost + 1)),
        {"money"},
    ),
    "an event that is missing": (
        lambda connection: connection.execute(delete(tables.events).where(tables.events.c.sequence == 3)),
        {"doubled", "state"},  # its round was never learnt
    ),
    "a round that was learnt from other votes": (
        lambda connection: connection.execute(
            update(tables.rounds).where(tables.rounds.c.task != 2).values(votes={"red": "Glad"})
        ),
        {"state"},
    ),
    "a round that has not heard what people say": (
        lambda connection: connection.execute(
            update(tables.human_annotations).values(labels={"mood": "Calm"})
        ),
        {"lost", "state"},
    ),
    "a round that teaches another label": (
        lambda connection: connection.execute(update(tables.rounds).values(taught="Cross")),
        {"state"},
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed(ledger: Ledger, books: Books, damage: str) -> None:
    function, problems = DAMAGES[damage]
    with ledger.write() as connection:
        function(connection)
    assert set(audited(ledger, books).problems) == problems
