"""Answers of models, stored so that no answer is paid for twice.

An answer's row names the task that it was bought for. The few further tasks that use it, because their prompt
is the same, are rows of a table of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Dialect,
    Insert,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert

from backend.ledger.database import tables
from backend.ledger.database.statements import among, insert, insert_new, insert_or_replace
from backend.ledger.money import from_picodollars, to_picodollars
from backend.ledger.rounds import RoundKey

_table, _links = tables.answers, tables.answer_tasks

_KEYS_PER_QUERY = 500
_NOT_READ = ("created_at", "project", "task")
_FIND = select(*(column for column in _table.c if column.name not in _NOT_READ)).where(
    _table.c.key.in_(bindparam("keys", expanding=True))
)
_BUYER = select(_table.c.project, _table.c.task).where(
    _table.c.key == bindparam("of"), _table.c.project.is_not(None)
)
_TASK_USING = _BUYER.union_all(
    select(_links.c.project, _links.c.task).where(_links.c.key == bindparam("of"))
).limit(1)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer of one model.

    Attributes:
        key: hash of everything that determines the answer: model, prompt and parameters.
        model: the model's name in the pool.
        content: the answer's text, unparsed.
        input_tokens: as counted by the provider.
        output_tokens: as counted by the provider, including reasoning tokens.
        cost: in $.
        seconds: duration of the call.
        confidences: question → how sure the model was, in [0, 1]; empty if its provider does not say.
        version: what the provider said answered; ``None`` if it said nothing.
    """

    key: str
    model: str
    content: str
    input_tokens: int
    output_tokens: int
    cost: float
    seconds: float
    confidences: Mapping[str, float] = field(default_factory=dict)
    version: str | None = None


def find_by_key(connection: Connection, keys: Collection[str]) -> dict[str, StoredAnswer]:
    """Return the stored answers by key; keys without an answer are absent."""
    unique_keys = list(dict.fromkeys(keys))
    answers: dict[str, StoredAnswer] = {}
    for start in range(0, len(unique_keys), _KEYS_PER_QUERY):
        for row in connection.execute(_FIND, {"keys": unique_keys[start : start + _KEYS_PER_QUERY]}):
            values = dict(row._mapping)
            values |= {"cost": from_picodollars(row.cost), "confidences": row.confidences or {}}
            answers[row.key] = StoredAnswer(**values)
    return answers


def store_each(
    connection: Connection, bought: Sequence[tuple[StoredAnswer, tuple[str, int]]], now: float
) -> None:
    """Store answers, each linked to the project and the number of its task; stored ones are kept."""
    rows = [
        {
            "key": answer.key,
            "model": answer.model,
            "content": _storable(answer.content),
            "input_tokens": answer.input_tokens,
            "output_tokens": answer.output_tokens,
            "cost": to_picodollars(answer.cost),
            "seconds": answer.seconds,
            "confidences": dict(answer.confidences) or None,
            "version": answer.version,
            "created_at": now,
            "project": project,
            "task": task,
        }
        for answer, (project, task) in bought
    ]
    if not rows:
        return
    new = set(connection.scalars(_store(connection.dialect), rows))
    for answer, user in bought:
        if answer.key in new:
            new.remove(answer.key)
        else:
            link_task(connection, answer.key, *user)


@cache
def _store(dialect: Dialect) -> ReturningInsert[Any]:
    return insert_new(dialect, _table).returning(_table.c.key)


def link_task(connection: Connection, key: str, project: str, task: int) -> None:
    """Record that a task uses an answer. An answer is kept as long as at least one task uses it."""
    connection.execute(_link(connection.dialect), {"of": key, "by": project, "number": task})


@cache
def _link(dialect: Dialect) -> Insert:
    """Link a task, unless the answer was bought for it."""
    bought_for_it = exists().where(
        _table.c.key == bindparam("of"),
        _table.c.project == bindparam("by"),
        _table.c.task == bindparam("number"),
    )
    task = bindparam("number", type_=BigInteger())
    row = select(bindparam("of", type_=Text()), bindparam("by", type_=Text()), task).where(~bought_for_it)
    return insert(dialect, _links).from_select(["key", "project", "task"], row).on_conflict_do_nothing()


def task_using(connection: Connection, key: str) -> tuple[str, int] | None:
    """Return the project and number of one task that uses the answer, or ``None`` if there is none."""
    row = connection.execute(_TASK_USING, {"of": key}).first()
    return None if row is None else (row.project, row.task)


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> int:
    """Delete the answers that only these tasks use, and return how many were deleted."""
    chosen = among(connection.dialect, _table.c.task, tasks)
    bought = and_(_table.c.project == project, chosen)
    of_tasks = (_links.c.project == project, among(connection.dialect, _links.c.task, tasks))
    other_links = _links.alias()
    others = or_(other_links.c.project != project, ~among(connection.dialect, other_links.c.task, tasks))
    linked_elsewhere = exists().where(other_links.c.key == _table.c.key, others)
    for_nobody_else = or_(_table.c.project.is_(None), bought)
    deleted = 0
    for used in (bought, and_(_table.c.key.in_(select(_links.c.key).where(*of_tasks)), for_nobody_else)):
        deleted += connection.execute(delete(_table).where(used, ~linked_elsewhere)).rowcount
    connection.execute(update(_table).where(bought).values(project=None, task=None))
    connection.execute(delete(_links).where(*of_tasks))
    return deleted


def _storable(content: str) -> str:
    """Replace what a database refuses in a text: lone surrogates, and NUL, which PostgreSQL rejects."""
    return content.encode("utf-8", "replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")


class Contacts:
    """When this process last reached the ledger.

    A process that is back after an outage takes over no claim for a while: the claim's owner could not renew
    it either, and may hold an answer that is not stored yet.

    Args:
        lease: seconds until a claim expires unless it is renewed.
        clock: monotonic seconds.
    """

    def __init__(self, lease: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease, self._clock = lease, clock
        self._last = self._back = -math.inf

    def note(self) -> None:
        """Record that the ledger has been reached."""
        at = self._clock()
        if math.isfinite(self._last) and at - self._last > 2 / 3 * self._lease:
            self._back = at
        self._last = at

    @property
    def grace(self) -> float:
        """Seconds for which expired claims of other owners are not taken over."""
        return self._lease if self._clock() - self._back < self._lease else 0.0


_rates = tables.model_rates
_RATE_STATE = select(_rates.c.state).where(_rates.c.model == bindparam("of"))


def read_rates(connection: Connection, model: str) -> dict[str, Any] | None:
    """Return the stored state of a model's rates; ``None`` if there is none."""
    state: dict[str, Any] | None = connection.execute(_RATE_STATE, {"of": model}).scalar_one_or_none()
    return state


def store_rates(connection: Connection, model: str, state: Mapping[str, Any], now: float) -> None:
    """Store the state of a model's rates.

    Args:
        connection: in a write transaction.
        model: the model's name in the pool.
        state: JSON.
        now: unix seconds.
    """
    row = {"model": model, "state": dict(state), "updated_at": now}
    connection.execute(insert_or_replace(connection.dialect, _rates), row)


_pack_checks = tables.pack_checks
_PACK_CHECKS_OF = _pack_checks.c.project == bindparam("of")
_COUNT_PACK_CHECKS = select(func.count(), func.max(_pack_checks.c.id)).where(_PACK_CHECKS_OF)
_ALL_PACK_CHECKS = (
    select(_pack_checks.c.control, _pack_checks.c.epoch, _pack_checks.c.arm, _pack_checks.c.agreed)
    .where(_PACK_CHECKS_OF)
    .order_by(_pack_checks.c.id)
)


@dataclass(frozen=True, slots=True)
class PackCheck:
    """One comparison.

    Attributes:
        control: the question's control.
        epoch: its epoch.
        arm: the packed arm.
        agreed: whether both votes were the same.
    """

    control: str
    epoch: str
    arm: str
    agreed: bool


def record_pack_checks(connection: Connection, key: RoundKey, arm: str, *, agreed: bool, now: float) -> None:
    """Record a comparison; a task that was compared before keeps its first one."""
    row = {
        "project": key.project,
        "control": key.control,
        "epoch": key.epoch,
        "arm": arm,
        "task": key.task,
        "agreed": agreed,
        "created_at": now,
    }
    connection.execute(insert_new(connection.dialect, _pack_checks), row)


def mark_pack_check(connection: Connection, project: str) -> tuple[int, int | None]:
    """Return a value that changes with every comparison of a project."""
    row = connection.execute(_COUNT_PACK_CHECKS, {"of": project}).one()
    return int(row[0]), row[1]


def pack_checks_of(connection: Connection, project: str) -> list[PackCheck]:
    """Return a project's comparisons in the order in which they were recorded."""
    return [PackCheck(**row._mapping) for row in connection.execute(_ALL_PACK_CHECKS, {"of": project})]
