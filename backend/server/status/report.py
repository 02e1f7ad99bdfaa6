"""The report. Field names are the keys of its JSON, and their meaning does not change.

Times are unix seconds, money is in $.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from backend.ledger.reports import HumansRow
from backend.server.status.evidence import (
    ExamplesReport,
    GuaranteeReport,
    PackReport,
    ReliabilityReport,
    Share,
    StopsReport,
    VotesReport,
)
from backend.server.status.parts.certificates.issued import CertificateReport
from backend.server.status.parts.certificates.shares import SharesReport
from backend.server.status.parts.certify import CertifyReport
from backend.server.status.parts.estimate import EstimateReport, ScoreCheckReport
from backend.server.status.parts.labels import LabelsReport
from backend.server.status.parts.progress import ProgressReport
from backend.server.status.parts.questionable import QuestionableReport
from backend.server.status.parts.recounts import RecountReport
from backend.server.status.parts.voters.annotators import AnnotatorReport
from backend.server.status.parts.voters.best_single import BestSingleReport


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that needs a person's attention.

    Attributes:
        code: a stable code.
        message: what is wrong. It names models and controls, and quotes no task.
        fix: what to do.
        level: ``alarm`` if labels or money are at stake, which people are told of; else ``note``.
        subject: the model or the control that it is about, empty if none.
    """

    code: str
    message: str
    fix: str | None
    level: Literal["alarm", "note"] = "alarm"
    subject: str = ""


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
        best_single: what the best single model would have cost alone, ``None`` before any answer.
    """

    budget: Budget
    rounds_usd: float
    every_model_usd: float
    saved: float | None
    best_single: BestSingleReport | None = None


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
        estimate: how many of all its labels are right; ``None`` in an earlier epoch.
        score_check: whether its scores keep their word; ``None`` with fewer than ten checked labels.
        labels: what its labels are like; ``None`` in an earlier epoch.
        questionable: the labels on which vote and people differ; ``None`` in an earlier epoch.
        certify: how many more blind labels a certificate needs; ``None`` without a blind task.
        shares: the share of each label; ``None`` unless that is asked for and blind labels say it.
        blind_needed: how many blind labels are expected to certify, by scores alone; ``None`` with a blind
            task, if no number suffices, and unless shares are asked for.
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
    estimate: EstimateReport | None = None
    score_check: ScoreCheckReport | None = None
    labels: LabelsReport | None = None
    questionable: QuestionableReport | None = None
    certify: CertifyReport | None = None
    shares: SharesReport | None = None
    blind_needed: int | None = None


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
class NextStep:
    """One thing to do.

    Attributes:
        code: its stable name.
        text: what to do, and why.
        url: where to do it in Label Studio, ``None`` if that is not known or not the place.
        command: the command that does it, ``None`` if none does.
    """

    code: str
    text: str
    url: str | None = None
    command: str | None = None


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
        progress: how many of its tasks have a label.
        title: what it is called in Label Studio, ``None`` before the first webhook.
        label_studio: the address of its Label Studio, ``None`` if it is unknown.
        url: the address of its tasks there.
        next_steps: what to do next, the most useful first.
        recounts: what counting the kept votes again has changed.
        annotators: what is known of each annotator; ``None`` unless that is asked for.
        packs: the packed arms.
        certificates: the certificates that were issued, the latest first; ``None`` unless asked for.
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
    progress: ProgressReport
    recounts: RecountReport
    title: str | None = None
    label_studio: str | None = None
    url: str | None = None
    next_steps: tuple[NextStep, ...] = ()
    annotators: tuple[AnnotatorReport, ...] | None = None
    packs: tuple[PackReport, ...] = ()
    certificates: tuple[CertificateReport, ...] | None = None


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
