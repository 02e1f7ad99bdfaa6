"""Looking for alarms every minute, and telling people of each of them once, by one worker of all."""

from __future__ import annotations

import asyncio
import time
import uuid

import structlog

from backend.errors import LedgerError
from backend.ledger import Ledger, Writer
from backend.ledger.calls import claims
from backend.ledger.database.clock import now
from backend.ledger.reports import told_alerts
from backend.ledger.reports.told_alerts import AlertKey
from backend.server.status.alarms.post import Told, message, post
from backend.server.status.build import build_report
from backend.server.status.live import read_live
from backend.server.status.report import Report
from backend.settings import Environment, Settings
from backend.telemetry import metrics

_PAUSE = 60.0
"""Seconds between two looks; more for a ledger so large that a look takes long."""

_SHARE = 0.02
"""The most of the time that looks may take."""

_LEASE = 300.0
"""Seconds after which another worker takes over from one that has died."""

_CLAIM = "alerts"

_LONGEST = 3600.0
"""The most seconds between two attempts to post to an address that refuses."""

_log = structlog.get_logger(__name__)


class AlertWatch:
    """Looks for alarms, keeps them in the ledger and the metrics, and posts the new ones.

    Args:
        ledger: where reports are read.
        writer: where alarms are stored.
        settings: the server's settings; ``alerts.url_env`` names the address.
        environment: holds the address, and the metrics of all workers.
    """

    def __init__(self, ledger: Ledger, writer: Writer, settings: Settings, environment: Environment) -> None:
        self._ledger, self._writer = ledger, writer
        self._settings, self._environment = settings, environment
        self._owner = uuid.uuid4().hex
        self._failures = 0
        self._not_before = 0.0
        if (name := settings.alerts.url_env) is not None and environment.secret(name) is None:
            _log.error("alerts_not_posted", variable=name, fix="set it to the address to post to")

    async def run(self) -> None:
        """Look every minute until cancelled."""
        pause = _PAUSE
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            try:
                await self.look()
            except LedgerError as error:
                _log.warning("alerts_not_read", code=error.code, reason=str(error))
            pause = max(_PAUSE, (time.monotonic() - began) / _SHARE)
            pause = min(pause, _LEASE / 2)

    async def look(self) -> list[AlertKey]:
        """Look once, if no other worker does; return the alarms that people were told of now."""
        mine = await self._writer.run(
            lambda connection: claims.acquire(connection, _CLAIM, self._owner, _LEASE)
        )
        if mine is None:
            return []
        found = alarms(await asyncio.to_thread(self._report))
        untold = await self._writer.run(lambda connection: told_alerts.see(connection, found))
        await asyncio.to_thread(self._count)
        url = self._url()
        if url is None or not untold or time.monotonic() < self._not_before:
            return []
        body = message([found[key] for key in untold])
        if not await asyncio.to_thread(post, url, body):
            self._failures += 1
            self._not_before = time.monotonic() + min(_PAUSE * 2.0**self._failures, _LONGEST)
            return []
        self._failures = 0
        await self._writer.run(lambda connection: told_alerts.told(connection, untold))
        return untold

    def _report(self) -> Report:
        live = read_live(self._environment)
        with self._ledger.read() as connection:
            return build_report(
                connection,
                self._settings,
                now=now(connection),
                live=live,
                label_studio=self._environment.label_studio_url,
            )

    def _count(self) -> None:
        """Bring the metric in line with the ledger, which also knows of alarms that another worker saw."""
        with self._ledger.read() as connection:
            known = told_alerts.known(connection)
        open_: dict[tuple[str, str], int] = {}
        for key, is_open in known.items():
            place = key.project, key.code
            open_[place] = open_.get(place, 0) + is_open
        for (project, code), number in open_.items():
            metrics.alerts.labels(project=project, code=code).set(number)

    def _url(self) -> str | None:
        name = self._settings.alerts.url_env
        return None if name is None else self._environment.secret(name)


def alarms(report: Report) -> dict[AlertKey, Told]:
    """The alarms of a report by what they are about; notes are none."""
    found = [(alert, None) for alert in report.alerts]
    of_projects = [(alert, project) for project in report.projects for alert in project.alerts]
    return {
        AlertKey("" if project is None else project.key, alert.code, alert.subject): Told(alert, project)
        for alert, project in [*found, *of_projects]
        if alert.level == "alarm"
    }
