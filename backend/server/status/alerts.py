"""What a person should mend, worst first. Label Studio shows none of it."""

from __future__ import annotations

from collections.abc import Sequence

from backend.server.status.report import Alert, Budget, Model, Project, Server
from camvo.errors import CamvoError

RECENT = 86_400.0
"""Seconds for which a refused webhook is news."""

_LITTLE = 0.05
"""Share of a budget of which a person should know that no more is left."""

_ASKED = 20
"""Rounds after which a model that hardly ever gives a valid vote is reported."""

_TRIED = 5
"""Calls after which a model that has never answered is reported."""

_HEADER = (
    "in the project's Settings → Webhooks add the header X-Camvo-Secret with CAMVO_WEBHOOK_SECRET to the "
    "webhook that ends in /webhook: Label Studio sends no basic auth with it"
)


def of_server(server: Server | None, today: Budget, now: float) -> tuple[Alert, ...]:
    """What is wrong for all projects together."""
    found = [] if server is None else _webhooks(server, now)
    fix = "raise budget.day_usd in camvo.yaml, or wait for the next UTC day"
    return (*found, *_nearly_spent("day's", today, fix))


def of_project(project: Project, model_version: str, *problems: CamvoError | None) -> tuple[Alert, ...]:
    """What is wrong with one project; ``problems`` were met while its report was made."""
    found = [Alert(error.code, _told(error), error.fix) for error in problems if error is not None]
    if project.model_version.matches is False:
        found.append(
            Alert(
                "model_version_differs",
                f"The project shows the model version {project.model_version.shown!r}, but predictions are "
                f"signed {model_version!r}: the score column stays blank and uncertainty sampling is random",
                f"give the model in Label Studio the title {model_version!r}",
            )
        )
    found += [_without_votes(model) for model in project.models if model.in_pool and _hardly_votes(model)]
    failing = [model for model in project.models if model.in_pool and _always_fails(model)]
    if failing:
        found.append(_failing(failing))
    found += _nearly_spent("project's", project.cost.budget, "raise budget.project_usd in camvo.yaml")
    if project.rounds and not project.humans.annotations and project.webhook_at is None:
        found.append(
            Alert(
                "no_human_answer",
                "No annotation has arrived yet",
                "if people have annotated, look at Settings → Webhooks in Label Studio: one must end in "
                "/webhook and be active",
            )
        )
    return tuple(found)


def _always_fails(model: Model) -> bool:
    return model.calls >= _TRIED and sum(model.failures.values()) == model.calls


def _failing(models: Sequence[Model]) -> Alert:
    codes = sorted({code for model in models for code in model.failures})
    return Alert(
        "model_always_fails",
        f"Every call of {', '.join(model.name for model in models)} has failed ({', '.join(codes)})",
        "docs/http.md says what the codes mean, and the log of the server what to do (model_failed)",
    )


def _hardly_votes(model: Model) -> bool:
    return model.asked >= _ASKED and 2 * model.voted < model.asked


def _without_votes(model: Model) -> Alert:
    """It is asked and paid for all the same: what is no label of the config teaches nothing."""
    return Alert(
        "model_hardly_votes",
        f"{model.name} gave no valid vote in {model.asked - model.voted} of {model.asked} rounds",
        "look at its failures; where there are none, it answers with something that is no label of the "
        "config: give the labels hints, or take the model out of camvo.yaml",
    )


def _webhooks(server: Server, now: float) -> list[Alert]:
    """Webhooks that are refused, or will be: Label Studio does not even log a 401."""
    refused_at, count = server.webhook_refused_at, server.webhooks_refused
    if server.webhooks == "closed" and server.webhook_at is None:
        message = "No human answer arrives: Label Studio's webhooks carry no basic auth, and no secret is set"
        return [Alert("webhooks_closed", message, f"set CAMVO_WEBHOOK_SECRET, and {_HEADER}")]
    if refused_at is None or now - refused_at > RECENT:
        return []
    message = (
        f"Webhooks refused since the start: {count}. They lacked the secret, and what people said is lost"
    )
    return [Alert("webhooks_refused", message, f"{_HEADER}; then save those annotations again")]


def _nearly_spent(whose: str, budget: Budget, fix: str) -> list[Alert]:
    """A call reserves what it can cost at the most, so a budget is used up before nothing is left of it."""
    limit, left = budget.limit_usd, budget.left_usd
    if limit is None or left is None or left > _LITTLE * limit:
        return []
    message = (
        f"The {whose} budget of {limit:.6g} $ is spent or reserved but for {left:.2g} $: tasks whose calls "
        "that does not cover get no predictions"
    )
    return [Alert("budget_nearly_spent", message, fix)]


def _told(error: CamvoError) -> str:
    return error.message if error.where is None else f"{error.where}: {error.message}"
