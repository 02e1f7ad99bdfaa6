"""What a report says. The names of the fields are the keys of the JSON, and do not change their meaning.

Times are unix seconds, money is in $.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from backend.ledger.reports import HumansRow


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that a person should mend: a stable code, what is wrong, what to do."""

    code: str
    message: str
    fix: str | None


@dataclass(frozen=True, slots=True)
class Share:
    """How many of ``count`` were right, ``None`` for what nothing is known about.

    Attributes:
        count: what was looked at.
        right: how right they were, summed; a whole number where right and wrong is all there is.
        share: right / count.
        low: the lower bound of its 95% interval (Clopper and Pearson).
        high: the upper one.
    """

    count: int
    right: float
    share: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Budget:
    """Money spent, set aside for calls under way, and what the limit leaves; ``None`` without a limit."""

    limit_usd: float | None
    spent_usd: float
    reserved_usd: float
    left_usd: float | None


@dataclass(frozen=True, slots=True)
class Cost:
    """What the rounds cost beside what asking every model in each of them would have.

    Attributes:
        budget: the project's account, which also holds calls that came to nothing and deleted tasks' calls.
        rounds_usd: the rounds that are there.
        every_model_usd: the same, had every model been asked.
        saved: the share of that which was not spent, ``None`` where it is 0.
    """

    budget: Budget
    rounds_usd: float
    every_model_usd: float
    saved: float | None


@dataclass(frozen=True, slots=True)
class Guaranteed:
    """A score from which labels may be accepted without review (docs/calibration.md).

    Attributes:
        target: the share that has to be right.
        confidence: how sure that is, at every look.
        threshold: the smallest score for which it is, ``None`` where the audits support none.
        low: the lower bound of the share that is right from there on.
        audits: blind labels with such a score.
        right: how right these were, summed.
        labels: labels with such a score: what needs no review.
        freed: their share of all labels.
    """

    target: float
    confidence: float
    threshold: float | None
    low: float | None
    audits: int
    right: float
    labels: int
    freed: float


@dataclass(frozen=True, slots=True)
class ExamplesTried:
    """How often a model was right on tasks for which there were examples (docs/few_shot.md).

    Attributes:
        shown: where its prompt had them.
        left_out: where a coin left them out.
        helps: the probability that it is more often right with them.
    """

    shown: Share
    left_out: Share
    helps: float


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """One question in one epoch.

    Attributes:
        control: the name of its control tag.
        epoch: the state that its rounds taught.
        current: whether no other epoch of this control had a later round.
        rounds: its finished rounds.
        last_at: when the latest finished.
        audit: how right the voted labels were on tasks that people labelled blind.
        reviewed: the same on all other tasks, whose labels are no independent evidence.
        guarantee: from which score on its labels need no review.
    """

    control: str
    epoch: str
    current: bool
    rounds: int
    last_at: float
    audit: Share
    reviewed: Share
    guarantee: Guaranteed


@dataclass(frozen=True, slots=True)
class Model:
    """One model in one project.

    Attributes:
        name: its name in the pool.
        in_pool: whether the project asks it by now.
        asked: rounds in which it was asked.
        voted: those in which it gave a valid vote.
        agreement: how often it agreed with the label voted, where another model voted too and no vote had a
            say in who was asked.
        audit: how often it was right on tasks that people labelled blind, where it was asked whatever the
            votes.
        reviewed: the same on all other tasks, whose labels are no independent evidence.
        calls: finished calls, retries among them; answers that were there already are none.
        failures: code → calls that failed.
        median_seconds: how long answers took.
        p95_seconds: what 95% of them did not exceed.
        cost_usd: what its calls cost, failures too.
        examples: whether examples in the prompt help it; ``None`` until that was tried.
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
    examples: ExamplesTried | None


@dataclass(frozen=True, slots=True)
class Bin:
    """The labels whose score lies from ``low`` up to ``high``; their mean score, and how many were right."""

    low: float
    high: float
    count: int
    score: float | None
    right: Share


@dataclass(frozen=True, slots=True)
class Reliability:
    """Scores beside human labels.

    Attributes:
        labels: how right all of them were.
        score: their mean score.
        ece: the expected calibration error: the distance of score and share in a bin, over all labels.
        bins: ten equally wide ones.
    """

    labels: Share
    score: float | None
    ece: float | None
    bins: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A control of the label config that gets no predictions, and why."""

    control: str
    tag: str
    reason: str


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """The version that Label Studio's project shows, as far as it said, and whether it is ours."""

    shown: str | None
    matches: bool | None


@dataclass(frozen=True, slots=True)
class Project:
    """One project.

    Attributes:
        key: Label Studio's, ``<id>.<created_at in unix seconds>``.
        id: its number in Label Studio.
        alerts: what to mend.
        model_version: whether Label Studio reads our scores.
        rounds: finished rounds, of all questions and epochs.
        tasks_under_way: tasks that are worked on or wait their turn, ``None`` where no server was asked.
        calls_under_way: calls that have not ended.
        webhook_at: when the last webhook came since the server started, ``None`` where none did.
        humans: what people said.
        cost: what was spent.
        questions: by control, the current epoch first.
        models: by name.
        audit: the scores of tasks that people labelled blind; only these certify anything.
        reviewed: the scores of all other tasks with human labels.
        skipped: controls without predictions.
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
    models: tuple[Model, ...]
    audit: Reliability
    reviewed: Reliability
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class Server:
    """What a running server knows beside the ledger, since it started.

    Attributes:
        started_at: when.
        webhooks: ``open`` to anybody, ``guarded`` by the secret header, or ``closed`` for want of a secret.
        tasks: how the tasks of prediction requests ended, by outcome.
        webhook_at: when the last webhook was accepted.
        webhooks_refused: webhooks turned away with 401.
        webhook_refused_at: when the last one was.
    """

    started_at: float
    webhooks: Literal["open", "guarded", "closed"]
    tasks: Mapping[str, int]
    webhook_at: float | None
    webhooks_refused: int
    webhook_refused_at: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything, at one moment.

    Attributes:
        version: CaMVo's.
        model_version: what predictions are signed with.
        generated_at: the moment.
        alerts: what to mend that is about no single project.
        server: ``None`` where no server was asked.
        today: all projects together on this UTC day.
        projects: the one with the latest round first.
    """

    version: str
    model_version: str
    generated_at: float
    alerts: tuple[Alert, ...]
    server: Server | None
    today: Budget
    projects: tuple[Project, ...]
