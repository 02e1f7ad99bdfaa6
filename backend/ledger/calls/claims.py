"""Claims: which process is requesting an answer at the moment, so that no two pay for the same one.

They expire by the ledger's clock, so the clocks of the processes' hosts do not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, Dialect, bindparam, case, delete, or_, select, update
from sqlalchemy import insert as insert_rows
from sqlalchemy.sql.dml import ReturningInsert

from backend.ledger.database import tables
from backend.ledger.database.clock import now
from backend.ledger.database.upsert import insert

_table = tables.claims
_RENEW = (
    update(_table)
    .where(_table.c.key.in_(bindparam("keys", expanding=True)), _table.c.owner == bindparam("by"))
    .values(expires_at=bindparam("until"))
)
_NOTE = (
    update(_table)
    .where(_table.c.key == bindparam("of"), _table.c.owner == bindparam("by"))
    .values(call=bindparam("number"))
)
_BATCH = "batch:"
_OWNER = select(_table.c.owner).where(_table.c.key == bindparam("of"))
_RELEASE = delete(_table).where(
    _table.c.key.in_(bindparam("keys", expanding=True)), _table.c.owner == bindparam("by")
)
_CLAIMED = select(_table.c.key).where(_table.c.key.in_(bindparam("keys", expanding=True)))
_ADD = insert_rows(_table)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that its owner holds.

    Attributes:
        call: the call that the owner has reserved money for under this claim; ``None`` if there is none.
    """

    call: int | None


def acquire(
    connection: Connection, key: str, owner: str, seconds: float, *, grace: float = 0.0
) -> Claim | None:
    """Claim the right to request an answer, for ``seconds``.

    Args:
        connection: in a write transaction.
        key: the key under which the answer will be stored.
        owner: the process.
        seconds: time until the claim expires.
        grace: seconds for which an expired claim of another owner is still left alone.

    Returns:
        The claim if ``owner`` holds it now: it was free, had expired, or was held by this owner already.
    """
    at = now(connection)
    row = {"key": key, "owner": owner, "expires_at": at + seconds, "expired": at - grace}
    held = connection.execute(_acquire(connection.dialect), row).first()
    return None if held is None else Claim(held.call)


@cache
def _acquire(dialect: Dialect) -> ReturningInsert[Any]:
    statement = insert(dialect, _table)
    mine = _table.c.owner == statement.excluded.owner
    return statement.on_conflict_do_update(
        index_elements=[_table.c.key],
        set_={
            "owner": statement.excluded.owner,
            "expires_at": statement.excluded.expires_at,
            "call": case((mine, _table.c.call), else_=None),
        },
        where=or_(_table.c.expires_at <= bindparam("expired"), mine),
    ).returning(_table.c.call)


def batch_owner(job: str) -> str:
    """Return the owner of the claims of a batch job, which belong to no process."""
    return f"{_BATCH}{job}"


def held_by_batch(connection: Connection, key: str) -> bool:
    """Whether a batch job holds the claim."""
    owner = connection.execute(_OWNER, {"of": key}).scalar_one_or_none()
    return owner is not None and owner.startswith(_BATCH)


def note_call(connection: Connection, key: str, owner: str, call: int) -> None:
    """Record the call that the owner has reserved money for.

    An owner whose connection broke during the commit finds its reservation again by it.
    """
    connection.execute(_NOTE, {"of": key, "by": owner, "number": call})


def renew(connection: Connection, keys: Collection[str], owner: str, seconds: float) -> None:
    """Let the owner's claims last for ``seconds`` more; claims that others took over are unchanged."""
    connection.execute(_RENEW, {"keys": list(keys), "by": owner, "until": now(connection) + seconds})


def claimed(connection: Connection, keys: Collection[str]) -> set[str]:
    """Return those of the keys that anybody has claimed, also if the claim has expired."""
    return set(connection.scalars(_CLAIMED, {"keys": list(keys)}))


def add(connection: Connection, calls: Mapping[str, int], owner: str, seconds: float) -> None:
    """Claim keys that nobody has claimed, for calls that the owner has reserved money for.

    Args:
        connection: in a write transaction.
        calls: key → the call.
        owner: the process.
        seconds: time until the claims expire.
    """
    until = now(connection) + seconds
    rows = [{"key": key, "owner": owner, "expires_at": until, "call": call} for key, call in calls.items()]
    if rows:
        connection.execute(_ADD, rows)


def release(connection: Connection, key: str, owner: str) -> None:
    """Delete the owner's claim; a claim held by another owner is unchanged."""
    release_each(connection, [key], owner)


def release_each(connection: Connection, keys: Collection[str], owner: str) -> None:
    """Delete the owner's claims, at most some hundred; claims held by other owners are unchanged."""
    connection.execute(_RELEASE, {"keys": list(keys), "by": owner})
