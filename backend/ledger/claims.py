"""Claims: which process is requesting an answer at the moment, so that no two pay for the same one."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from sqlalchemy import Connection, Dialect, bindparam, delete, or_, update
from sqlalchemy.sql.dml import ReturningInsert

from backend.ledger.database import tables
from backend.ledger.database.upsert import insert

_table = tables.claims
_RENEW = (
    update(_table)
    .where(_table.c.key.in_(bindparam("keys", expanding=True)), _table.c.owner == bindparam("by"))
    .values(expires_at=bindparam("until"))
)
_RELEASE = delete(_table).where(_table.c.key == bindparam("of"), _table.c.owner == bindparam("by"))


def acquire(connection: Connection, key: str, owner: str, now: float, seconds: float) -> bool:
    """Claim the right to request an answer, for ``seconds``.

    Returns:
        Whether ``owner`` holds the claim now: it was free, had expired, or was held by this owner already.
    """
    row = {"key": key, "owner": owner, "expires_at": now + seconds, "now": now}
    return connection.execute(_acquire(connection.dialect), row).first() is not None


@cache
def _acquire(dialect: Dialect) -> ReturningInsert[Any]:
    statement = insert(dialect, _table)
    return statement.on_conflict_do_update(
        index_elements=[_table.c.key],
        set_={"owner": statement.excluded.owner, "expires_at": statement.excluded.expires_at},
        where=or_(_table.c.expires_at <= bindparam("now"), _table.c.owner == statement.excluded.owner),
    ).returning(_table.c.key)


def renew(connection: Connection, keys: Collection[str], owner: str, until: float) -> None:
    """Extend the owner's claims until a time in unix seconds; claims that others took over are unchanged."""
    connection.execute(_RENEW, {"keys": list(keys), "by": owner, "until": until})


def release(connection: Connection, key: str, owner: str) -> None:
    """Delete the owner's claim; a claim held by another owner is unchanged."""
    connection.execute(_RELEASE, {"of": key, "by": owner})
