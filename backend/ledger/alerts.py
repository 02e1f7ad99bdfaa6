"""The alerts that were seen, and whether people have been told of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select, update

from backend.ledger.database import tables
from backend.ledger.database.statements import insert_new, now

_alerts = tables.alerts

_PATIENCE = 900.0
"""An alert is over when it was not seen for this many seconds, so that a flickering one is reported once."""


@dataclass(frozen=True, slots=True, order=True)
class AlertKey:
    """What an alert is about.

    Attributes:
        project: the project's key, empty if it concerns all of them.
        code: its stable code.
        subject: the model or the control that it is about, empty if none.
    """

    project: str
    code: str
    subject: str


_IS = (
    _alerts.c.project == bindparam("of"),
    _alerts.c.code == bindparam("named"),
    _alerts.c.subject == bindparam("about"),
)


@dataclass(frozen=True, slots=True)
class Alerts:
    """The alerts that were ever seen."""

    connection: Connection

    def see(self, seen: Collection[AlertKey]) -> list[AlertKey]:
        """Record which alerts there are now; those not seen for :data:`_PATIENCE` seconds are over.

        Returns:
            Those of them that have not been reported to people since they began.
        """
        at = now(self.connection)
        for key in sorted(seen):
            row = {"project": key.project, "code": key.code, "subject": key.subject}
            self.connection.execute(insert_new(_alerts), row | {"began_at": at, "seen_at": at})
            again = update(_alerts).where(*_IS, _alerts.c.over_at.is_not(None))
            self.connection.execute(again.values(began_at=at, posted_at=None, over_at=None), _named(key))
            self.connection.execute(update(_alerts).where(*_IS).values(seen_at=at), _named(key))
        gone = (_alerts.c.over_at.is_(None), _alerts.c.seen_at < at - _PATIENCE)
        self.connection.execute(update(_alerts).where(*gone).values(over_at=at))
        new = select(_alerts.c.project, _alerts.c.code, _alerts.c.subject).where(
            _alerts.c.over_at.is_(None), _alerts.c.posted_at.is_(None)
        )
        return sorted({AlertKey(*row) for row in self.connection.execute(new)} & set(seen))

    def reported(self, keys: Collection[AlertKey]) -> None:
        """Record that these alerts were reported to people."""
        at = now(self.connection)
        for key in keys:
            self.connection.execute(update(_alerts).where(*_IS).values(posted_at=at), _named(key))

    def known(self) -> dict[AlertKey, bool]:
        """Return every alert that was ever recorded → whether it still holds."""
        query = select(_alerts.c.project, _alerts.c.code, _alerts.c.subject, _alerts.c.over_at)
        return {
            AlertKey(project, code, subject): over_at is None
            for project, code, subject, over_at in self.connection.execute(query)
        }


def _named(key: AlertKey) -> dict[str, str]:
    return {"of": key.project, "named": key.code, "about": key.subject}
