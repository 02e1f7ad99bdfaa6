"""Answers: what models said, kept so that nothing is paid for twice, and who is asking at the moment."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, Dialect, bindparam, delete, exists, or_, select, update
from sqlalchemy.sql.dml import ReturningInsert

from backend.ledger.database import tables
from backend.ledger.database.upsert import insert, insert_new
from backend.ledger.money.picodollars import from_picodollars, to_picodollars

_table, _links, _claims = tables.answers, tables.answer_tasks, tables.claims

_KEYS_A_QUERY = 500
_FIND = select(*(column for column in _table.c if column.name != "created_at")).where(
    _table.c.key.in_(bindparam("keys", expanding=True))
)
_USER = select(_links.c.project, _links.c.task).where(_links.c.key == bindparam("of")).limit(1)
_RENEW = (
    update(_claims)
    .where(_claims.c.key.in_(bindparam("keys", expanding=True)), _claims.c.owner == bindparam("by"))
    .values(expires_at=bindparam("until"))
)
_RELEASE = delete(_claims).where(_claims.c.key == bindparam("of"), _claims.c.owner == bindparam("by"))


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer of one model.

    Attributes:
        key: the hash of everything that made the model answer so.
        model: its name in the pool.
        content: its words, unparsed.
        input_tokens: what the provider counted.
        output_tokens: the same, reasoning included.
        cost: $.
        seconds: how long it took.
    """

    key: str
    model: str
    content: str
    input_tokens: int
    output_tokens: int
    cost: float
    seconds: float


def find(connection: Connection, keys: Collection[str]) -> dict[str, StoredAnswer]:
    """The answers that are there, by key."""
    wanted = list(dict.fromkeys(keys))
    found: dict[str, StoredAnswer] = {}
    for start in range(0, len(wanted), _KEYS_A_QUERY):
        for row in connection.execute(_FIND, {"keys": wanted[start : start + _KEYS_A_QUERY]}):
            values = dict(row._mapping)
            found[row.key] = StoredAnswer(**(values | {"cost": from_picodollars(values["cost"])}))
    return found


def keep(connection: Connection, answer: StoredAnswer, project: str, task: int, now: float) -> None:
    """Store an answer and note that the task uses it; of two for one key the first stays."""
    row = {
        "key": answer.key,
        "model": answer.model,
        "content": _storable(answer.content),
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "cost": to_picodollars(answer.cost),
        "seconds": answer.seconds,
        "created_at": now,
    }
    connection.execute(insert_new(connection.dialect, _table), row)
    use(connection, answer.key, project, task)


def use(connection: Connection, key: str, project: str, task: int) -> None:
    """Note that a task uses an answer: it is kept as long as one task does."""
    row = {"key": key, "project": project, "task": task}
    connection.execute(insert_new(connection.dialect, _links), row)


def user(connection: Connection, key: str) -> tuple[str, int] | None:
    """The project and number of a task that uses an answer, or wants to; ``None`` where none does."""
    row = connection.execute(_USER, {"of": key}).first()
    return None if row is None else (row.project, row.task)


def claim(connection: Connection, key: str, owner: str, now: float, seconds: float) -> bool:
    """Claim the right to ask for an answer, for ``seconds``.

    Returns:
        Whether ``owner`` has it now: it was free, had expired, or was this owner's before.
    """
    row = {"key": key, "owner": owner, "expires_at": now + seconds, "now": now}
    return connection.execute(_claim(connection.dialect), row).first() is not None


@cache
def _claim(dialect: Dialect) -> ReturningInsert[Any]:
    statement = insert(dialect, _claims)
    return statement.on_conflict_do_update(
        index_elements=[_claims.c.key],
        set_={"owner": statement.excluded.owner, "expires_at": statement.excluded.expires_at},
        where=or_(_claims.c.expires_at <= bindparam("now"), _claims.c.owner == statement.excluded.owner),
    ).returning(_claims.c.key)


def renew(connection: Connection, keys: Collection[str], owner: str, until: float) -> None:
    """Let the claims of ``owner`` last until a time in unix seconds; what others took over stays theirs."""
    connection.execute(_RENEW, {"keys": list(keys), "by": owner, "until": until})


def release(connection: Connection, key: str, owner: str) -> None:
    """Let go of a claim; another owner's stays."""
    connection.execute(_RELEASE, {"of": key, "by": owner})


def forget_task(connection: Connection, project: str, task: int) -> int:
    """Delete the answers that only this task uses, and return how many."""
    of_task = (_links.c.project == project, _links.c.task == task)
    others = _links.alias()
    used_elsewhere = exists().where(
        others.c.key == _table.c.key, or_(others.c.project != project, others.c.task != task)
    )
    forgotten = connection.execute(
        delete(_table).where(_table.c.key.in_(select(_links.c.key).where(*of_task)), ~used_elsewhere)
    ).rowcount
    connection.execute(delete(_links).where(*of_task))
    return forgotten


def _storable(content: str) -> str:
    """What a database takes as text: no lone surrogates, and no NUL, which PostgreSQL refuses."""
    return content.encode("utf-8", "replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
