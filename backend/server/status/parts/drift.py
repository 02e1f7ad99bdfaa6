"""What chance found out about early stops, and what began anew because the tasks or a model had changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.server.status.evidence import RestartReport, StopsReport
from backend.server.status.formats import of
from backend.server.status.report import Alert, QuestionReport
from camvo.state.restart import Restart

_NEWS = 1_000
"""Rounds after a restart for which it is reported as an alert, unless stops are learnt anew earlier."""

_CODES = {
    "stops": "early_stops_wrong",
    "tasks": "tasks_changed",
    "arm": "model_changed",
    "version": "model_version_changed",
}


def stops_report(found: Mapping[str, Any] | None) -> StopsReport | None:
    """What was found out about one question, from its :func:`camvo.state.findings.findings`."""
    if found is None:
        return None
    since, restarts = found["since"], [Restart.from_dict(restart) for restart in found["restarts"]]
    return StopsReport(
        tried=found["all"]["tried"],
        right=found["all"]["right"],
        since=since["tried"],
        wrong=since["tried"] - since["right"],
        promised=since["promised"],
        rounds=found["rounds"],
        relearning=bool(restarts) and not since["tried"],
        restarts=tuple(_restart_report(restart) for restart in reversed(restarts)),
    )


def restart_alert(question: QuestionReport) -> Alert | None:
    """The alert of a question's latest restart, until stops are learnt anew."""
    stops = question.stops
    if not question.current or stops is None or not stops.relearning or stops.rounds >= _NEWS:
        return None
    latest = stops.restarts[0]
    if latest.model is None:
        fix = (
            "nothing, if the tasks are meant to differ: fewer tasks stop early until new rounds have shown "
            "how often early labels are right. Label some of the latest tasks to see whether the models can "
            "do them"
        )
    else:
        fix = (
            f"nothing, if {latest.model} is still worth its price: its weight is learnt anew, which takes "
            "some hundred tasks. To keep a model from changing, name a dated version in camvo.yaml"
        )
    return Alert(_CODES[latest.kind], f"{question.control}: {latest.message}", fix, subject=question.control)


def _restart_report(restart: Restart) -> RestartReport:
    return RestartReport(
        kind=restart.kind,
        after=restart.at,
        model=restart.arm,
        history=restart.history,
        before=restart.before,
        version=restart.version,
        message=_message(restart),
    )


def _message(restart: Restart) -> str:
    certain = "Labels are given only when no further vote can change them, until stops are learnt anew"
    if restart.kind == "stops":
        return (
            f"early labels differed from the label of more models in {restart.wrong} of "
            f"{of(restart.rounds, 'round')} that chance tested, where at most "
            f"{restart.promised or 0.0:.1f} were promised. {certain}"
        )
    if restart.kind == "tasks":
        return (
            "the models disagree with each other more often than before, so the tasks have probably become "
            f"harder. {certain}"
        )
    new = "Its earlier votes are kept but count no more"
    if restart.kind == "arm":
        return (
            f"{restart.arm} agrees with the other models more or less often than before, so it has probably "
            f"changed. {new}"
        )
    known = "" if restart.before is None else f" instead of {restart.before}"
    back = "It had this version before, and its votes of that time count again"
    return f"{restart.arm} answers as {restart.version}{known}. {back if restart.resumed else new}"
