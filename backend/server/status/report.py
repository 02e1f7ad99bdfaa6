"""The report. Field names are the keys of its JSON, and their meaning does not change.

Times are unix seconds, money is in $.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from backend.ledger.reports import HumansRow
from backend.server.status.annotators import AnnotatorReport
from backend.server.status.evidence import (
    ExamplesReport,
    GuaranteeReport,
    ReliabilityReport,
    Share,
    StopsReport,
    VotesReport,
)


@dataclass(frozen=True, slots=True)
class Alert:
    """A problem that needs a person's attention: a stable code, what is wrong, and what to do."""

    code: str
    message: str
    fix: str | None


@dataclass(frozen=True, slots=True)
class Budget:
    """Money spent, money reserved for calls under way, and what remains; ``None`` without a limit."""

    limit_usd: float | None
    spent_usd: float
    reserved_usd: float
    left_usd: float | None


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of the rounds, compared with asking every model in each of them.

    Attributes:
        budget: the project's account. It also covers failed calls and the calls of deleted tasks.
        rounds_usd: the cost of the stored rounds.
        every_model_usd: what they would have cost if every model had been asked.
        saved: the share of that amount which was saved, ``None`` if the amount is 0.
    """

    budget: Budget
    rounds_usd: float
    every_model_usd: float
    saved: float | None


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """One question in one epoch.

    Attributes:
        control: the name of its control tag.
        epoch: the epoch, which identifies the state that its rounds taught.
        current: whether the control has no later round in another epoch.
        rounds: the number of finished rounds.
        last_at: when the latest round finished.
        audit: how many voted labels were right on tasks that people labelled blind.
        reviewed: the same on all other tasks; these labels are no independent evidence.
        guarantee: the score from which labels need no review.
        votes: what votes are worth in its newest round; ``None`` in an earlier epoch, and if the policy has
            no model of votes.
        stops: whether stopping early keeps its promise, and what began anew; ``None`` before the first round
            of a server with such tests.
    """

    control: str
    epoch: str
    current: bool
    rounds: int
    last_at: float
    audit: Share
    reviewed: Share
    guarantee: GuaranteeReport
    votes: VotesReport | None
    stops: StopsReport | None = None


@dataclass(frozen=True, slots=True)
class ModelReport:
    """One model in one project.

    Attributes:
        name: its name in the pool.
        in_pool: whether the project currently asks it.
        asked: the number of rounds in which it was asked.
        voted: the number of rounds in which it gave a valid vote.
        agreement: how often it agreed with the voted label. Only rounds count in which another model voted
            too and no vote influenced which models were asked.
        audit: how often it was right on tasks that people labelled blind, in rounds in which no vote
            influenced whether it was asked.
        reviewed: the same on all other tasks; these labels are no independent evidence.
        calls: finished calls including retries; stored answers that were used again do not count.
        failures: error code → number of failed calls.
        median_seconds: the median duration of an answer.
        p95_seconds: the 95th percentile.
        cost_usd: the cost of its calls, including failed ones.
        examples: whether examples in the prompt help it, ``None`` until that was tried.
    """

    name: str
    in_pool: bool
    asked: int
    voted: int
    agreement: Share
    audit: Share
    reviewed: Share
    calls: int
    failures: Mapping[str, int]
    median_seconds: float | None
    p95_seconds: float | None
    cost_usd: float
    examples: ExamplesReport | None


@dataclass(frozen=True, slots=True)
class SkippedControlReport:
    """A control of the label config that gets no predictions, and the reason."""

    control: str
    tag: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailedTasksReport:
    """The tasks that ended without a prediction for one reason.

    Attributes:
        code: the reason.
        tasks: how many there are.
        final: whether asking again is in vain until the prompt or the models change.
        fix: what to do.
    """

    code: str
    tasks: int
    final: bool
    fix: str


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """The model version that Label Studio's project shows, if known, and whether it equals the server's."""

    shown: str | None
    matches: bool | None


@dataclass(frozen=True, slots=True)
class ProjectReport:
    """One project.

    Attributes:
        key: Label Studio's key, ``<id>.<created_at in unix seconds>``.
        id: its number in Label Studio.
        alerts: the project's problems.
        model_version: whether Label Studio shows the backend's scores.
        rounds: the number of finished rounds, over all questions and epochs.
        tasks_under_way: tasks in progress or waiting, ``None`` without a running server.
        calls_under_way: unfinished calls.
        webhook_at: when the last webhook since the server's start arrived, ``None`` if none did.
        humans: the number of human answers.
        cost: the cost.
        questions: by control, the current epoch first.
        models: by name.
        audit: the scores on tasks that people labelled blind; only these certify anything.
        reviewed: the scores on all other tasks with human labels.
        skipped: controls without predictions.
        failed: the tasks without a prediction, by reason.
        annotators: what is known of each annotator; ``None`` unless that is asked for.
    """

    key: str
    id: str
    alerts: tuple[Alert, ...]
    model_version: ModelVersion
    rounds: int
    tasks_under_way: int | None
    calls_under_way: int
    webhook_at: float | None
    humans: HumansRow
    cost: Cost
    questions: tuple[QuestionReport, ...]
    models: tuple[ModelReport, ...]
    audit: ReliabilityReport
    reviewed: ReliabilityReport
    skipped: tuple[SkippedControlReport, ...]
    failed: tuple[FailedTasksReport, ...]
    annotators: tuple[AnnotatorReport, ...] | None = None


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What a running server knows beyond the ledger, since its start.

    Attributes:
        started_at: when it started.
        webhooks: ``open`` to anybody, ``guarded`` by the secret header, or ``closed`` for lack of a secret.
        tasks: the number of requested tasks by outcome.
        webhook_at: when the last webhook was accepted.
        webhooks_refused: the number of webhooks refused with 401.
        webhook_refused_at: when the last one was refused.
        unsettled: the number of paid answers that wait in memory for the database.
        clock_skew: seconds that the host's clock is ahead of the database's, ``None`` before it is measured.
    """

    started_at: float
    webhooks: Literal["open", "guarded", "closed"]
    tasks: Mapping[str, int]
    webhook_at: float | None
    webhooks_refused: int
    webhook_refused_at: float | None
    unsettled: int = 0
    clock_skew: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All projects at one moment.

    Attributes:
        version: CaMVo's version.
        model_version: the model version of predictions.
        generated_at: the moment.
        alerts: problems that concern no single project.
        server: ``None`` without a running server.
        today: the money of all projects on this UTC day.
        projects: the project with the latest round first.
    """

    version: str
    model_version: str
    generated_at: float
    alerts: tuple[Alert, ...]
    server: ServerReport | None
    today: Budget
    projects: tuple[ProjectReport, ...]
