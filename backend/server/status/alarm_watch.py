"""Looks for alarms every minute, in one of all workers, and reports each of them to people once."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import structlog

from backend.ledger import Ledger, Writer
from backend.ledger.claims import Claims
from backend.ledger.database.statements import now
from backend.ledger.projects import AlertKey, Alerts
from backend.server.status.build import build_report, read_live
from backend.server.status.report import Alert, ProjectReport, Report
from backend.settings import Environment, Settings
from backend.telemetry import metrics
from camvo.errors import CamvoError

_PATIENCE = 10.0
"""Seconds for an answer."""

_MOST_LINES = 20
"""Alarms in the text; the list has all of them."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _RaisedAlarm:
    """One alarm, and the project that it is about; ``None`` if it concerns all."""

    alert: Alert
    project: ProjectReport | None


def _message(alarms: Sequence[_RaisedAlarm]) -> dict[str, Any]:
    """What is posted: ``text`` for people, which Slack shows, and ``alerts`` for programs.

    It has no text of a task: alarms name projects, models and controls only.
    """
    lines = [_line(alarm) for alarm in alarms[:_MOST_LINES]]
    if len(alarms) > _MOST_LINES:
        lines.append(f"and {len(alarms) - _MOST_LINES} more")
    return {"text": "\n".join(lines), "source": "camvo", "alerts": [_fields(alarm) for alarm in alarms]}


def _post(url: str, body: dict[str, Any]) -> bool:
    """Post a message once; a failure is logged without the address, and returned as ``False``."""
    try:
        answer = httpx.post(url, json=body, timeout=_PATIENCE, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        _log.warning("alert_not_posted", reason=type(error).__name__, fix=_FIX)
        return False
    if not answer.is_success:
        _log.warning("alert_not_posted", reason=f"HTTP {answer.status_code}", fix=_FIX)
    return answer.is_success


_FIX = "check the address in the variable that alerts.url_env names; it is posted again later"


def _line(alarm: _RaisedAlarm) -> str:
    where = "" if alarm.project is None else f"{_name(alarm.project)}: "
    cure = "" if alarm.alert.fix is None else f" What to do: {alarm.alert.fix}."
    text = f"CaMVo alarm: {where}{alarm.alert.message}.{cure} ({alarm.alert.code})"
    # Slack reads these three as markup
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fields(alarm: _RaisedAlarm) -> dict[str, Any]:
    alert, project = alarm.alert, alarm.project
    return {
        "code": alert.code,
        "subject": alert.subject,
        "message": alert.message,
        "fix": alert.fix,
        "project": None if project is None else project.key,
        "title": None if project is None else project.title,
        "url": None if project is None else project.url,
    }


def _name(project: ProjectReport) -> str:
    return f"{project.title} (project {project.id})" if project.title else f"project {project.id}"


_PAUSE = 60.0
"""Seconds between two looks; more for a ledger so large that a look takes long."""

_SHARE = 0.02
"""The largest share of the time that looks may take."""

_LEASE = 300.0
"""Seconds after which another worker takes over from one that has died."""

_CLAIM = "alerts"

_LONGEST = 3600.0
"""The most seconds between two attempts to post to an address that refuses."""


class AlertWatch:
    """Looks for alarms, keeps them in the ledger and the metrics, and posts the new ones."""

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
            except CamvoError as error:
                _log.warning("alerts_not_read", code=error.code, reason=str(error))
            except Exception as error:  # one project that cannot be reported must not end all alarms
                # Its text might quote a task.
                _log.warning("alerts_not_read", code="internal", reason=type(error).__name__)
            pause = max(_PAUSE, (time.monotonic() - began) / _SHARE)
            pause = min(pause, _LEASE / 2)

    async def look(self) -> list[AlertKey]:
        """Look once, if no other worker does; return the alarms that were reported now."""
        mine = await self._writer.run(
            lambda connection: Claims(connection).acquire(_CLAIM, self._owner, _LEASE)
        )
        if mine is None:
            return []
        found = _alarms(await asyncio.to_thread(self._report))
        untold = await self._writer.run(lambda connection: Alerts(connection).see(found))
        await asyncio.to_thread(self._count)
        url = self._url()
        if url is None or not untold or time.monotonic() < self._not_before:
            return []
        body = _message([found[key] for key in untold])
        if not await asyncio.to_thread(_post, url, body):
            self._failures += 1
            self._not_before = time.monotonic() + min(_PAUSE * 2.0**self._failures, _LONGEST)
            return []
        self._failures = 0
        await self._writer.run(lambda connection: Alerts(connection).reported(untold))
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
            known = Alerts(connection).known()
        open_: dict[tuple[str, str], int] = {}
        for key, is_open in known.items():
            place = key.project, key.code
            open_[place] = open_.get(place, 0) + is_open
        for (project, code), number in open_.items():
            metrics.alerts.labels(project=project, code=code).set(number)

    def _url(self) -> str | None:
        name = self._settings.alerts.url_env
        return None if name is None else self._environment.secret(name)


def _alarms(report: Report) -> dict[AlertKey, _RaisedAlarm]:
    """The alarms of a report by what they are about; notes are none."""
    found = [(alert, None) for alert in report.alerts]
    of_projects = [(alert, project) for project in report.projects for alert in project.alerts]
    return {
        AlertKey("" if project is None else project.key, alert.code, alert.subject): _RaisedAlarm(
            alert, project
        )
        for alert, project in [*found, *of_projects]
        if alert.level == "alarm"
    }
