"""Problems of one project, alarms first. Label Studio shows none of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.errors import BudgetExhaustedError
from backend.ledger.projects import Project, is_of_label_studio
from backend.server.status.alarms.budget import budget_alerts, refused_alerts
from backend.server.status.alarms.models import family_alerts, model_alerts, pack_alerts
from backend.server.status.formats import of, percent
from backend.server.status.parts.commands import commands_of
from backend.server.status.parts.drift import restart_alert
from backend.server.status.report import Alert, ProjectReport, QuestionReport
from camvo.errors import CamvoError


@dataclass(frozen=True, slots=True)
class Found:
    """What was found while a project's report was built, and is not in it.

    Attributes:
        outcomes: model → the outcomes of its latest calls, an error's code or ``None``; the latest first.
        problems: errors that occurred.
        connected: whether Label Studio has ever called CaMVo about the project.
        votable: whether its label config has a control that can be voted on.
    """

    outcomes: Mapping[str, Sequence[str | None]]
    problems: tuple[CamvoError | None, ...]
    connected: bool
    votable: bool


def is_connected(stored: Project, report: ProjectReport) -> bool:
    """Whether Label Studio has ever called CaMVo about a project, by ``/setup`` or a webhook."""
    by_label_studio = (stored.hostname, stored.title, stored.model_version, stored.extra_params)
    if any(value is not None for value in by_label_studio) or "." not in stored.key:
        return True  # label-studio-ml's own server names projects without a point, and passes less on
    if not is_of_label_studio(stored.key):
        return True
    return bool(report.humans.annotations) or report.webhook_at is not None


def project_alerts(project: ProjectReport, model_version: str, found: Found) -> tuple[Alert, ...]:
    """The problems of one project, alarms first.

    Args:
        project: its report.
        model_version: the model version of predictions.
        found: what else was found.
    """
    alerts = [Alert(error.code, _message(error), error.fix) for error in found.problems if error is not None]
    for question in project.questions:
        alerts += _score_alerts(project, question)
        alerts += [alert for alert in [restart_alert(question)] if alert is not None]
        alerts += family_alerts(question)
    alerts += model_alerts(project.models, found.outcomes)
    alerts += pack_alerts(project.packs)
    alerts += budget_alerts("project's", project.cost.budget, "raise budget.project_usd in camvo.yaml")
    refused = sum(reason.tasks for reason in project.failed if reason.code == BudgetExhaustedError.code)
    alerts += refused_alerts(refused, commands_of(project.key).failed)
    alerts += _config_alerts(project, found)
    alerts += _recount_alerts(project)
    alerts += _connection_alerts(project, model_version, found)
    return tuple(sorted(alerts, key=lambda alert: alert.level != "alarm"))


def _score_alerts(project: ProjectReport, question: QuestionReport) -> list[Alert]:
    check = question.score_check
    if not question.current or check is None or check.off is None:
        return []
    promise = "too much" if check.off == "high" else "too little"
    right = f"{percent(check.share)} of the latest {of(check.count, f'{check.basis} label')} were right"
    message = f"{question.control}: scores promise {promise}. They say {percent(check.score)}, but {right}"
    interval = f"95% interval {percent(check.low)} to {percent(check.high)}"
    fix = (
        "do not accept labels by their score. Label more tasks, which corrects the scores of later "
        "predictions; look at the questionable labels for a hint or an instruction that the models miss; "
        f"then {commands_of(project.key).correct_scores}"
    )
    return [Alert("score_off", f"{message} ({interval})", fix, subject=question.control)]


def _config_alerts(project: ProjectReport, found: Found) -> list[Alert]:
    alerts = []
    names = ", ".join(f"{control.control} ({control.tag})" for control in project.skipped)
    if not found.votable:
        message = f"No control of the label config can be voted on: {names or 'it has none'}"
        alerts.append(Alert("config_unsupported", message, "use a control of docs/tags.md"))
    elif names:
        message = f"Controls without predictions: {names}"
        fix = "see the reasons below; people label these by hand"
        alerts.append(Alert("config_partly_supported", message, fix, level="note"))
    refresh = f"run {commands_of(project.key).refresh}"
    if project.progress.config_changed:
        controls = ", ".join(project.progress.config_changed)
        message = f"The label config has changed since the latest predictions: {controls}"
        alerts.append(Alert("config_changed", message, refresh))
    elif project.progress.outdated:
        message = (
            f"{of(project.progress.outdated, 'task')} only have predictions of an earlier label config, "
            "prompt or embedder"
        )
        alerts.append(Alert("config_changed", message, refresh))
    return alerts


def _recount_alerts(project: ProjectReport) -> list[Alert]:
    if (waiting := project.recounts).command is None:
        return []
    message = (
        f"Counted by what is known now, {waiting.would_change} of {waiting.would_count} labels would "
        f"change, and scores by {waiting.would_move:.2f} on average"
    )
    fix = f"run {waiting.command}"
    if is_of_label_studio(project.key):
        fix += "; a server with LABEL_STUDIO_API_KEY does it by itself"
    return [Alert("recount_waiting", message, fix, level="note")]


def _connection_alerts(project: ProjectReport, model_version: str, found: Found) -> list[Alert]:
    if project.rounds and not found.connected:
        message = "Predictions are stored in a project that is not connected: no human label comes back"
        return [Alert("project_not_connected", message, f"run camvo connect --project {project.id}")]
    alerts = []
    if project.model_version.matches is False:
        alerts.append(
            Alert(
                "model_version_differs",
                f"The project shows the model version {project.model_version.shown!r}, but predictions are "
                f"signed {model_version!r}: the score column stays blank and uncertainty sampling is random",
                f"give the model in Label Studio the title {model_version!r}",
            )
        )
    if project.rounds and not project.humans.annotations and project.webhook_at is None:
        message, fix = "No annotation has arrived yet", commands_of(project.key).hear_people
        alerts.append(Alert("no_human_answer", message, fix, level="note"))
    return alerts


def _message(error: CamvoError) -> str:
    return error.message if error.where is None else f"{error.where}: {error.message}"
