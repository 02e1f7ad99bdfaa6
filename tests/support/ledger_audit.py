"""An audit of a ledger after faults: nothing paid lost, nothing paid twice, money and state are sums.

The ledger is compared with what others wrote down: the provider about what it sold, and the clients about
what was acknowledged to them. The state is computed again from the rounds, without the events.

::

    books = Books()
    books.buy("17", "red", "prompt", buyer=1)       # in the provider's script; the answer holds the number 17
    books.killed.add(1)
    books.predicted[4] = "Glad"                     # once a client has the prediction
    audit = audited(ledger, books)
    assert not audit.problems
    assert audit.bought_again <= 3                  # by buyers that were killed before they could store it
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from same_state import assert_same_state
from sqlalchemy import ColumnElement, Connection, Row, Select, Table, select

from backend.learning.teaching import human_label
from backend.ledger import Ledger
from backend.ledger.database import tables
from backend.ledger.database.packing import unpack_context, unpack_text, with_context
from backend.ledger.rounds import RoundKey
from camvo.policies.teaching import TaughtRound
from camvo.state.contribution import Contribution
from camvo.state.exploration import VotePattern, named_labels
from camvo.state.state import State


class Product(NamedTuple):
    """What a provider sells: one model's answer to one prompt."""

    model: str
    prompt: str


class Purchase(NamedTuple):
    """One call that the provider was paid for."""

    number: str
    buyer: int


@dataclass
class Books:
    """What the provider sold, and what was acknowledged to clients. Safe to fill from several threads.

    Attributes:
        purchases: the purchases of each product, in order. An answer holds the number of its purchase, as
            ``{"mood": "Glad", "purchase": "17"}``.
        killed: the buyers that were killed.
        predicted: task → the label that a client was given.
        annotated: annotation → its task and its label.
    """

    purchases: dict[Product, list[Purchase]] = field(default_factory=lambda: defaultdict(list))
    killed: set[int] = field(default_factory=set)
    predicted: dict[int, str] = field(default_factory=dict)
    annotated: dict[int, tuple[int, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def buy(self, number: str, model: str, prompt: str, buyer: int) -> None:
        with self._lock:
            self.purchases[Product(model, prompt)].append(Purchase(number, buyer))

    def number_of_purchases(self) -> int:
        with self._lock:
            return sum(map(len, self.purchases.values()))


@dataclass
class Audit:
    """What an audit found.

    Attributes:
        lost: acknowledged writes, and answers of buyers that were not killed, that are not in the ledger.
        doubled: what was bought again, although its buyer was not killed or had stored it already, and rounds
            that were recorded or learnt twice.
        money: accounts that are not the sums of their calls.
        state: states that are not the sums of their events, or not what the rounds teach; and rounds that
            are not taught by what people say.
        bought_again: purchases that repeat one of a buyer killed before it had stored the answer.
    """

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    money: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    bought_again: int = 0

    @property
    def problems(self) -> dict[str, list[str]]:
        found = {"lost": self.lost, "doubled": self.doubled, "money": self.money, "state": self.state}
        return {name: problems for name, problems in found.items() if problems}


def audited(ledger: Ledger, books: Books) -> Audit:
    """Audit a ledger whose processes have all ended or rest, after its lost calls were booked."""
    audit = Audit()
    with ledger.read() as connection:
        _audit_purchases(connection, books, audit)
        _audit_acknowledged(connection, books, audit)
        audit.money += _money(connection)
        audit.doubled += _doubled_rounds(connection)
        audit.state += _sequences(connection)
        audit.state += _states(connection)
        audit.state += _unheard(connection)
    return audit


def _audit_purchases(connection: Connection, books: Books, audit: Audit) -> None:
    contents = [row.content for row in connection.execute(select(tables.answers.c.content))]
    stored = {number for content in contents if (number := _purchase_in(content)) is not None}
    for product, purchases in books.purchases.items():
        name = f"{product.model} about {product.prompt[:60]!r}"
        *earlier, last = purchases
        audit.bought_again += len(earlier)
        for purchase in earlier:
            if purchase.number in stored:
                audit.doubled.append(f"{name} was bought again after purchase {purchase.number} was stored")
            elif purchase.buyer not in books.killed:
                audit.doubled.append(f"{name} was bought again, and buyer {purchase.buyer} was not killed")
        if last.buyer not in books.killed and stored.isdisjoint(each.number for each in purchases):
            audit.lost.append(f"{name}: purchase {last.number} was not stored")


def _purchase_in(content: str) -> str | None:
    """The purchase's number in an answer; ``None`` for an answer that is not one of a :class:`Books`."""
    _, found, rest = content.partition('"purchase": "')
    return rest.partition('"')[0] if found else None


def _audit_acknowledged(connection: Connection, books: Books, audit: Audit) -> None:
    labels = {row.task: row.label for row in connection.execute(select(tables.rounds))}
    for number, label in books.predicted.items():
        if labels.get(number) != label:
            audit.lost.append(f"task {number} was predicted {label}, and the ledger has {labels.get(number)}")
    annotations = tables.human_annotations
    stored = {row.annotation_id: row for row in connection.execute(select(annotations))}
    for annotation, (number, label) in books.annotated.items():
        row = stored.get(annotation)
        if row is None or row.task != number or label not in row.labels.values():
            audit.lost.append(f"annotation {annotation} of task {number} ({label}) is not stored")


def _money(connection: Connection) -> Iterator[str]:
    """Accounts of projects and of days that are not the sums of their calls, and calls left open."""
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for call in connection.execute(select(tables.calls)):
        if call.state == "reserved":
            yield f"call {call.id} is still open"
        purse = [] if call.purse is None else [(call.project, call.purse)]
        for account in ((call.project, "total"), ("*", call.day), *purse):
            still_reserved = call.reserved if call.state == "reserved" else 0
            sums[account].update(spent=call.cost or 0, reserved=still_reserved)
    accounts = {(row.project, row.scope): row for row in connection.execute(select(tables.accounts))}
    for name in {*sums, *accounts}:
        row, counted = accounts.get(name), sums[name]
        booked = (row.spent, row.reserved) if row is not None else (0, 0)
        if booked != (counted["spent"], counted["reserved"]):
            yield f"account {name} has {booked}, and its calls {dict(counted)}"


def _doubled_rounds(connection: Connection) -> Iterator[str]:
    settled = Counter(
        row.key
        for row in connection.execute(select(tables.calls))
        if row.state == "settled" and row.error_code is None
    )
    for key, count in settled.items():
        if count > 1:
            yield f"answer {key[:12]} was settled {count} times"
    rounds = Counter(
        (row.project, row.task, row.control, row.question)
        for row in connection.execute(select(tables.rounds))
    )
    yield from (f"round {key} was recorded {count} times" for key, count in rounds.items() if count > 1)
    learnt = Counter(
        row.round_id
        for row in connection.execute(select(tables.events).where(tables.events.c.kind == "round"))
    )
    yield from (f"round {number} was learnt {count} times" for number, count in learnt.items() if count > 1)
    for row in connection.execute(select(tables.rounds)):
        if row.id not in learnt:
            yield f"round {row.id} was never learnt"


def _sequences(connection: Connection) -> Iterator[str]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for row in connection.execute(select(tables.events).order_by(tables.events.c.sequence)):
        numbers[row.project].append(row.sequence)
    for project, sequences in numbers.items():
        if sequences != list(range(1, len(sequences) + 1)):
            yield f"the events of project {project} have gaps or doubles"


_TAUGHT_ONCE = ("exploration", "compared", "versions", "restarts")
"""Parts of a contribution that a stored round does not tell."""


def _states(connection: Connection) -> Iterator[str]:
    """Compare the sum of the events with what the rounds teach now, and with each snapshot's continuation.

    What a round shows about stopping early, and which versions answered, is taught once, by the round's own
    event. Only its pattern of votes can be checked against the round.
    """
    rounds = {row.id: row for row in connection.execute(_with_contexts(tables.rounds, tables.rounds.c.id))}
    events: dict[tuple[str, str, str], list[tuple[int, Contribution]]] = defaultdict(list)
    taught: dict[tuple[str, str, str], list[Contribution]] = defaultdict(list)
    for row in connection.execute(
        _with_contexts(tables.events, tables.events.c.round_id).order_by("sequence")
    ):
        lesson = Contribution.unpack(with_context(row.contribution, row.context))
        key = row.project, row.control, row.epoch
        events[key].append((row.sequence, lesson))
        if row.kind == "round" and (round_ := rounds.pop(row.round_id, None)) is not None:
            if lesson.exploration is not None and lesson.exploration.pattern != _pattern(round_):
                yield f"round {round_.id} taught another pattern than that of its votes"
            once = {name: getattr(lesson, name) for name in _TAUGHT_ONCE}
            taught[key].append(replace(_lesson(round_), **once))
        elif lesson.restart is not None:
            taught[key].append(lesson)
    for round_ in rounds.values():  # they were never learnt
        taught[round_.project, round_.control, round_.epoch].append(_lesson(round_))
    for key, of_state in events.items():
        total = _sum([lesson for _, lesson in of_state])
        if _differ(total, _sum(taught[key])):
            yield f"the state of {key} is not what its rounds teach"
    for snapshot in connection.execute(select(tables.snapshots)):
        lessons = events[snapshot.project, snapshot.control, snapshot.epoch]
        state = State.restore(snapshot.state)
        state.add(*(lesson for sequence, lesson in lessons if sequence > snapshot.sequence))
        total = _sum([lesson for _, lesson in lessons], linear=state.linear)
        if total is None or _differ(state, total):
            yield f"snapshot {snapshot.sequence} of {snapshot.control} is not the sum of its events"


def _unheard(connection: Connection) -> Iterator[str]:
    """Rounds that are not taught by what people say about them."""
    for row in connection.execute(select(tables.rounds)):
        key = RoundKey(row.project, row.task, row.control, row.question, row.epoch)
        human = human_label(connection, key, row.plan)
        taught = (row.label, "vote") if human is None or row.audit else (human, "human")
        if (row.human, row.taught, row.taught_by) != (human, *taught):
            yield f"round {row.id} is taught {row.taught} by a {row.taught_by}, and people say {human}"


def _lesson(row: Row[Any]) -> Contribution:
    """What a round teaches now."""
    record = TaughtRound.stored(row.plan, unpack_context(row.context), row.votes, unpack_text(row.context))
    return record.contribution(row.taught or row.label, human=row.taught_by == "human")


def _pattern(row: Row[Any]) -> VotePattern:
    """The pattern of a round's votes; with few labels it names them."""
    stages = row.plan["stages"]
    return VotePattern.of(
        sorted(stages["order"]),
        row.votes,
        everyone=stages["coin"] == "everyone",
        labels=named_labels(row.plan["labels"]),
    )


def _with_contexts(table: Table, round_id: ColumnElement[int]) -> Select[Any]:
    contexts = tables.contexts.c
    return select(table, contexts.context).outerjoin(tables.contexts, contexts.round_id == round_id)


def _sum(contributions: list[Contribution], *, linear: bool = True) -> State | None:
    if not contributions:
        return None
    state = State(len(contributions[0].context), linear=linear)
    state.add(*contributions)
    return state


def _differ(state: State | None, other: State | None) -> bool:
    if state is None or other is None:
        return True
    try:
        assert_same_state(state, other)
    except AssertionError:
        return True
    return False
