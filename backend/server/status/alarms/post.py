"""Posting alarms to an address, as JSON that Slack and programs take. The address is a credential."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import structlog

from backend.server.status.report import Alert, ProjectReport

_PATIENCE = 10.0
"""Seconds for an answer."""

_MOST_LINES = 20
"""Alarms in the text; the list has all of them."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """One alarm, and the project that it is about; ``None`` if it concerns all."""

    alert: Alert
    project: ProjectReport | None


def message(alarms: Sequence[Told]) -> dict[str, Any]:
    """What is posted: ``text`` for people, which Slack shows, and ``alerts`` for programs.

    It has no text of a task: alarms name projects, models and controls only.
    """
    lines = [_line(told) for told in alarms[:_MOST_LINES]]
    if len(alarms) > _MOST_LINES:
        lines.append(f"and {len(alarms) - _MOST_LINES} more")
    return {"text": "\n".join(lines), "source": "camvo", "alerts": [_fields(told) for told in alarms]}


def post(url: str, body: dict[str, Any]) -> bool:
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


def _line(told: Told) -> str:
    where = "" if told.project is None else f"{_name(told.project)}: "
    cure = "" if told.alert.fix is None else f" What to do: {told.alert.fix}."
    text = f"CaMVo alarm: {where}{told.alert.message}.{cure} ({told.alert.code})"
    # Slack reads these three as markup
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fields(told: Told) -> dict[str, Any]:
    alert, project = told.alert, told.project
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
