"""How far a run over a project is: the tasks decided since a moment, and the money spent."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from backend.errors import BadBodyError
from backend.ledger.money import accounts
from backend.ledger.money.picodollars import from_picodollars
from backend.ledger.reports import counts


def project_progress(
    connection: Connection, project: str, first: str | None, last: str | None, after: str | None
) -> dict[str, Any]:
    """The body of ``GET /progress``.

    Args:
        connection: a read transaction.
        project: the project's key.
        first: the lowest number of a task to count, as sent; ``None`` for the beginning.
        last: the highest number, as sent; ``None`` for the end.
        after: count rounds with a higher number than this, as sent; ``None`` to count none.

    Returns:
        ``tasks`` (decided in rounds after ``after``), ``last_round`` (the ``after`` of a later request),
        ``spent_usd`` and ``reserved_usd`` of the project.

    Raises:
        BadBodyError: a number is none.
    """
    lowest, highest = whole_number("first", first), whole_number("last", last)
    since = whole_number("after", after)
    decided = 0
    if since is not None:
        decided = counts.count_tasks(connection, project, since, lowest or 0, highest)
    account = accounts.balance(connection, project, accounts.TOTAL)
    return {
        "tasks": decided,
        "last_round": counts.newest(connection, project),
        "spent_usd": from_picodollars(account.spent),
        "reserved_usd": from_picodollars(account.reserved),
    }


def whole_number(name: str, sent: str | None) -> int | None:
    """A number in a query, ``None`` if it was not sent.

    Raises:
        BadBodyError: it is no whole number of 64 bits.
    """
    if sent is None:
        return None
    if not (sent.isascii() and sent.isdigit() and len(sent) < 19):  # a larger one is no 64-bit integer
        raise BadBodyError(f"{name} is not a number", where=name, fix="send digits only")
    return int(sent)
