"""Problems that need a person's attention, worst first. Label Studio shows none of them."""

from __future__ import annotations

from collections.abc import Sequence

from backend.server.status.drift import restart_alert
from backend.server.status.report import (
    Alert,
    Budget,
    ModelReport,
    ProjectReport,
    QuestionReport,
    ServerReport,
)
from camvo.errors import CamvoError

RECENT = 86_400.0
"""Seconds for which a refused webhook is reported."""

_MOST_SKEW = 5.0
"""Seconds by which the host's clock may differ from the database's without a report."""

_NEARLY_SPENT = 0.05
"""A budget is reported once no more than this share of it is left."""

_MIN_ROUNDS = 20
"""Rounds after which a model that seldom gives a valid vote is reported."""

_MIN_CALLS = 5
"""Calls after which a model that has never answered is reported."""

_HEADER = (
    "in the project's Settings → Webhooks add the header X-Camvo-Secret with CAMVO_WEBHOOK_SECRET to the "
    "webhook that ends in /webhook: Label Studio sends no basic auth with it"
)


def server_alerts(server: ServerReport | None, today: Budget, now: float) -> tuple[Alert, ...]:
    """The problems that concern all projects.

    Args:
        server: ``None`` without a running server.
        today: the money of this UTC day.
        now: unix seconds.
    """
    alerts = [] if server is None else [*_ledger_alerts(server), *_webhook_alerts(server, now)]
    fix = "raise budget.day_usd in camvo.yaml, or wait for the next UTC day"
    return (*alerts, *_budget_alerts("day's", today, fix))


def project_alerts(
    project: ProjectReport, model_version: str, *problems: CamvoError | None
) -> tuple[Alert, ...]:
    """The problems of one project.

    Args:
        project: its report.
        model_version: the model version of predictions.
        problems: errors that occurred while the report was built.
    """
    alerts = [Alert(error.code, _message(error), error.fix) for error in problems if error is not None]
    if project.model_version.matches is False:
        alerts.append(
            Alert(
                "model_version_differs",
                f"The project shows the model version {project.model_version.shown!r}, but predictions are "
                f"signed {model_version!r}: the score column stays blank and uncertainty sampling is random",
                f"give the model in Label Studio the title {model_version!r}",
            )
        )
    pool = [model for model in project.models if model.in_pool]
    alerts += [_seldom_votes_alert(model) for model in pool if _seldom_votes(model)]
    failing = [model for model in pool if _always_fails(model)]
    if failing:
        alerts.append(_failing_alert(failing))
    alerts += [alert for question in project.questions for alert in _family_alerts(question)]
    alerts += [alert for question in project.questions if (alert := restart_alert(question)) is not None]
    alerts += _budget_alerts("project's", project.cost.budget, "raise budget.project_usd in camvo.yaml")
    if (waiting := project.recounts).command is not None:
        alerts.append(
            Alert(
                "recount_waiting",
                f"Counted by what is known now, {waiting.would_change} of {waiting.would_count} labels would "
                f"change, and scores by {waiting.would_move:.2f} on average",
                f"run {waiting.command}; a server with LABEL_STUDIO_API_KEY does it by itself",
            )
        )
    if project.rounds and not project.humans.annotations and project.webhook_at is None:
        alerts.append(
            Alert(
                "no_human_answer",
                "No annotation has arrived yet",
                "if people have annotated, look at Settings → Webhooks in Label Studio: one must end in "
                "/webhook and be active",
            )
        )
    return tuple(alerts)


def _always_fails(model: ModelReport) -> bool:
    return model.calls >= _MIN_CALLS and sum(model.failures.values()) == model.calls


def _failing_alert(models: Sequence[ModelReport]) -> Alert:
    codes = sorted({code for model in models for code in model.failures})
    return Alert(
        "model_always_fails",
        f"Every call of {', '.join(model.name for model in models)} has failed ({', '.join(codes)})",
        "look the codes up in docs/http.md; the server's log says what to do (model_failed)",
    )


def _seldom_votes(model: ModelReport) -> bool:
    return model.asked >= _MIN_ROUNDS and 2 * model.voted < model.asked


def _seldom_votes_alert(model: ModelReport) -> Alert:
    """The model is still asked and paid for, although its answers teach nothing."""
    return Alert(
        "model_hardly_votes",
        f"{model.name} gave no valid vote in {model.asked - model.voted} of {model.asked} rounds",
        "look at its failures; if there are none, its answers are not labels of the config: give the labels "
        "hints, or take the model out of camvo.yaml",
    )


def _family_alerts(question: QuestionReport) -> list[Alert]:
    """Without human labels nothing shows whether related models are right together or wrong together."""
    votes = question.votes
    if votes is None or votes.human:
        return []
    worth = f"{votes.models} models count as {votes.effective_votes:.1f} independent ones"
    return [
        Alert(
            "related_models",
            f"{question.control}: {', '.join(family)} agree with each other far more than with the rest. "
            f"Together the {worth}",
            "label some tasks by hand, which shows whether they are right; or keep one of them in camvo.yaml",
        )
        for family in votes.families
    ]


def _webhook_alerts(server: ServerReport, now: float) -> list[Alert]:
    """Webhooks that are or will be refused; Label Studio does not log a 401."""
    refused_at, count = server.webhook_refused_at, server.webhooks_refused
    if server.webhooks == "closed" and server.webhook_at is None:
        message = "No human answer arrives: Label Studio's webhooks carry no basic auth, and no secret is set"
        return [Alert("webhooks_closed", message, f"set CAMVO_WEBHOOK_SECRET, and {_HEADER}")]
    if refused_at is None or now - refused_at > RECENT:
        return []
    message = (
        f"Webhooks refused since the start: {count}. They lacked the secret, and their annotations are lost"
    )
    return [Alert("webhooks_refused", message, f"{_HEADER}; then save those annotations again")]


def _ledger_alerts(server: ServerReport) -> list[Alert]:
    alerts = []
    if server.unsettled:
        message = f"{server.unsettled} paid answers wait in memory, since the ledger cannot be written"
        fix = "look for ledger_down in the log, and do not stop the server before they are stored"
        alerts.append(Alert("answers_unsettled", message, fix))
    if server.clock_skew is not None and abs(server.clock_skew) > _MOST_SKEW:
        ahead = "ahead of" if server.clock_skew > 0 else "behind"
        message = f"The clock of this host is {abs(server.clock_skew):.0f} s {ahead} the database's"
        fix = "synchronise both clocks: times in reports differ, though nothing is bought twice"
        alerts.append(Alert("clock_skew", message, fix))
    return alerts


def _budget_alerts(whose: str, budget: Budget, fix: str) -> list[Alert]:
    """A call reserves the most that it can cost, so calls are refused before the budget reaches zero."""
    limit, left = budget.limit_usd, budget.left_usd
    if limit is None or left is None or left > _NEARLY_SPENT * limit:
        return []
    message = (
        f"Only ${left:.2g} of the {whose} budget of ${limit:.6g} is unreserved. Tasks whose calls could cost "
        "more get no prediction"
    )
    return [Alert("budget_nearly_spent", message, fix)]


def _message(error: CamvoError) -> str:
    return error.message if error.where is None else f"{error.where}: {error.message}"
