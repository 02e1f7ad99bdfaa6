"""The report. Field names are the keys of its JSON; docs/http.md says what each means, which never changes.

Times are unix seconds, money is in $.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from backend.errors import cure_of
from backend.learning.label_schemes import TextComparison
from backend.ledger.certificates import Reason
from backend.ledger.projects import is_of_label_studio
from backend.ledger.recounts import NO_FURTHER_VOTES, CountingReason, FurtherSum
from backend.ledger.reports import Block, HumansRow
from backend.questions import SkippedControl
from backend.questions.label_config import PagePart
from backend.server.status.formats import count, dollars, of, percent
from backend.settings.models import WRITER
from camvo.annotators import Agreement, AltTest, Anchoring, AnnotatorReliability
from camvo.numerics.small import clopper_pearson
from camvo.scores.guarantee import LabelFound, labels_to_find
from camvo.shares import LabelShare
from camvo.state.contribution import RestartKind
from camvo.student import STUDENT


@dataclass(frozen=True, slots=True)
class FoundTasks:
    """The tasks that hold a share of those with a label (:mod:`camvo.scores.guarantee`).

    Attributes:
        target: the share.
        sure: the threshold of the label's score, and what it rests on.
        tasks: the number of tasks from that score on.
    """

    target: float
    sure: LabelFound
    tasks: int


@dataclass(frozen=True, slots=True)
class RecallReport:
    """Which tasks hold the wanted share of those with one label (docs/recall.md).

    Attributes:
        label: the label.
        target: the share that must be found.
        tasks: the tasks that the blind labels speak for; 0 in the server's report, which does not read them.
        beyond: other tasks.
        blind: the blind tasks of the sample.
        labelled: how many of them have the label by people.
        found: the tasks that hold the target; ``None`` while that is not certified, and on the server.
        easier: those that hold lower shares.
    """

    label: str
    target: float
    tasks: int = 0
    beyond: int = 0
    blind: int = 0
    labelled: int = 0
    found: FoundTasks | None = None
    easier: tuple[FoundTasks, ...] = ()

    @property
    def enough(self) -> bool:
        """Whether the blind labels may certify the target, if the votes find all of the label."""
        return self.labelled >= labels_to_find(self.target)

    @property
    def needed(self) -> int:
        """About how many more blind labels certify the target; 0 if it is certified."""
        if self.found is not None:
            return 0
        missing = max(labels_to_find(self.target) - self.labelled, 1)
        return math.ceil(missing * (self.blind + 2) / (self.labelled + 1))


@dataclass(frozen=True, slots=True)
class CertificateReport:
    """A certificate that was issued (docs/certificate.md)."""

    number: int
    issued_at: float
    labels: int
    labels_hash: str
    file_hash: str
    reason: Reason | None
    message: str


@dataclass(frozen=True, slots=True)
class SharesReport:
    """The share of each label among the tasks that the blind labels speak for (docs/certificate.md)."""

    tasks: int
    beyond: int
    blind: int
    unknown: int
    deleted: int
    labels: tuple[LabelShare, ...]


@dataclass(frozen=True, slots=True)
class CertifyReport:
    """What it takes to certify that a share of labels is right, from some score on.

    Attributes:
        target: the share: the project's own, or a lower one that can be reached.
        needed: how many further blind labels are expected to certify it; ``None`` if no share can be reached.
        waiting: blind tasks without a label.
        next_task: the first of them.
        unpredicted: tasks that can still be kept blind; ``None`` if that is unknown.
        wanted: how many would certify the project's own share if there were as many tasks; ``None`` if none.
        held: a lower share that is certified already, where the project's own cannot be expected to be.
    """

    target: float
    needed: int | None
    waiting: int
    next_task: int | None
    unpredicted: int | None = None
    wanted: int | None = None
    held: float | None = None


Basis = Literal["blind", "reviewed", "score"]


@dataclass(frozen=True, slots=True)
class EstimateReport:
    """The estimated share of all labels of one question that are right."""

    basis: Basis
    labels: int
    checked: int
    share: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ScoreCheckReport:
    """The scores of the latest labels that people checked, beside how many of them were right."""

    basis: Basis
    count: int
    score: float
    share: float
    low: float
    high: float
    off: Literal["high", "low"] | None


@dataclass(frozen=True, slots=True)
class LabelCount:
    """How many of the latest labels are this one."""

    label: str
    count: int


@dataclass(frozen=True, slots=True)
class ConfusionCount:
    """How many of the latest labels with a human answer the models and the people labelled so."""

    vote: str
    human: str
    count: int


@dataclass(frozen=True, slots=True)
class ScaleReport:
    """How far voted labels on a scale are from those of people, in steps."""

    count: int
    exact: float
    within_one: float
    absolute: float
    kappa: float | None


@dataclass(frozen=True, slots=True)
class LabelsReport:
    """The labels of one question in its current epoch."""

    histogram: tuple[int, ...]
    blocks: tuple[Block, ...]
    shares: tuple[LabelCount, ...]
    confusion: tuple[ConfusionCount, ...]
    scale: ScaleReport | None = None


@dataclass(frozen=True, slots=True)
class QuestionableLabel:
    """One label on which the vote and the people differ."""

    task: int
    vote: str | None
    human: str | None
    score: float
    annotators: int
    certain: bool


@dataclass(frozen=True, slots=True)
class QuestionableReport:
    """The labels of one question on which the vote and the people differ, among its latest 2000 with both."""

    labels: int
    certain: int
    listed: tuple[QuestionableLabel, ...]


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """How many of a project's tasks have a label."""

    tasks: int | None
    predicted: int
    failed: int
    outdated: int
    config_changed: tuple[str, ...]

    @property
    def unpredicted(self) -> int | None:
        """How many tasks no model has voted on; ``None`` if it is unknown how many there are."""
        return None if self.tasks is None else max(self.tasks - self.predicted, 0)


@dataclass(frozen=True, slots=True)
class RecountReport:
    """A project's recounts. Field names are keys of the report's JSON."""

    countings: int
    labels: int
    scores: int
    last_at: float | None
    last_reason: CountingReason | None
    last_labels: int
    last_scores: int
    score_before: float | None
    score_after: float | None
    pending: int
    would_change: int
    would_count: int
    would_move: float
    command: str | None
    further: FurtherSum = NO_FURTHER_VOTES
    completed: FurtherSum = NO_FURTHER_VOTES


@dataclass(frozen=True, slots=True)
class AnnotatorReport:
    """One annotator in one project, or all that have few labels together."""

    id: int | None
    people: int
    labels: int
    tasks: int
    minutes: float | None
    seconds_per_task: float | None
    agreement: Share | None = None
    truth: Share | None = None
    unchanged: Share | None = None
    anchored: Share | None = None
    reliability: dict[str, AnnotatorReliability] = field(default_factory=dict)
    anchoring: Anchoring | None = None


@dataclass(frozen=True, slots=True)
class BestSingleReport:
    """The best single model, had it labelled all tasks alone.

    Attributes:
        labels: how many of the labels on the very tasks that ``share`` is about are right, where people have
            labelled these; ``None`` where it is about all tasks.
    """

    model: str
    usd: float
    share: float
    basis: Literal["blind", "reviewed", "votes", "agreement"]
    labels: Share | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """The share of ``count`` items that were right."""

    count: int
    right: float
    share: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, counts: Iterable[tuple[int, float]]) -> Share:
        """The share over groups of items, each given as (count, sum of rewards)."""
        groups = list(counts)
        count, right = sum(group[0] for group in groups), sum(group[1] for group in groups)
        if not count:
            return cls(0, 0.0, None, None, None)
        low, high = clopper_pearson(right, count)
        return cls(count, right, right / count, low, high)

    @property
    def interval(self) -> str:
        """The 95% interval in words; empty without data."""
        if self.low is None or self.high is None:
            return ""
        return f"{100.0 * self.low:.1f}–{100.0 * self.high:.1f}%"


@dataclass(frozen=True, slots=True)
class ScoreBin:
    """The human-labelled labels with a score from ``low`` up to ``high``."""

    low: float
    high: float
    count: int
    score: float | None
    right: Share


@dataclass(frozen=True, slots=True)
class ReliabilityReport:
    """Scores compared with human labels."""

    labels: Share
    score: float | None
    ece: float | None
    bins: tuple[ScoreBin, ...]


@dataclass(frozen=True, slots=True)
class VotesReport:
    """What the votes on a question were found to be worth, in its newest round (docs/joint.md)."""

    everyone: float
    models: int
    effective_votes: float
    families: tuple[tuple[str, ...], ...]
    accuracy: Mapping[str, Sequence[float]]
    kinds: tuple[float, ...]
    human: bool
    contradicted: bool = False
    only_corrections: bool = False
    people_say: Mapping[str, str] = field(default_factory=dict)
    rival_reading: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    earlier_projects: int = 0

    @classmethod
    def of(cls, plan: Mapping[str, Any] | None) -> VotesReport | None:
        """The report of a stored plan; ``None`` if its policy has no model of votes."""
        joint = None if plan is None else plan.get("joint")
        if joint is None:
            return None
        models = len(joint["accuracy"].keys() - {STUDENT})
        return cls(
            everyone=joint["everyone"],
            models=models,
            effective_votes=min(joint["effective_votes"], float(models)),
            families=tuple(tuple(family) for family in joint["families"]),
            accuracy=joint["accuracy"],
            kinds=tuple(joint.get("kinds", ())),
            human=not joint.keys().isdisjoint(("human", "conventions")),
            contradicted="contradicted" in joint,
            only_corrections="only_corrections" in joint,
            people_say=joint.get("conventions", {}).get("people_say", {}),
            rival_reading=tuple(joint.get("rival_reading", ())),
            constant=tuple(joint.get("constant", ())),
            earlier_projects=joint.get("earlier", {}).get("projects", 0),
        )


@dataclass(frozen=True, slots=True)
class GuaranteeReport:
    """The score from which labels may be accepted without review (docs/calibration.md)."""

    target: float
    confidence: float
    threshold: float | None
    low: float | None
    audits: int
    right: float
    labels: int
    freed: float
    beyond: int
    blind: int
    labelled: int
    run: int
    next_task: int | None
    counting: str | None
    labels_hash: str | None
    recount: int = 0
    void: int = 0
    void_threshold: float | None = None
    acceptable: int = 0


@dataclass(frozen=True, slots=True)
class RestartReport:
    """What restarted because the tasks or a model had changed (docs/drift.md)."""

    kind: RestartKind
    after: int
    model: str | None
    history: int
    before: str | None
    version: str | None
    message: str


@dataclass(frozen=True, slots=True)
class StopsReport:
    """Whether stopping early gave the label of all models (docs/drift.md)."""

    tried: int
    right: int
    since: int
    wrong: int
    promised: float
    rounds: int
    relearning: bool
    restarts: tuple[RestartReport, ...]


@dataclass(frozen=True, slots=True)
class ExamplesReport:
    """How often a model was right on tasks for which there were examples (docs/few_shot.md)."""

    shown: Share
    left_out: Share
    helps: float


@dataclass(frozen=True, slots=True)
class PackComparison:
    """How often a packed arm's vote on one question differed from its model's, asked singly."""

    control: str
    epoch: str
    compared: int
    differed: int
    unpacked: bool


@dataclass(frozen=True, slots=True)
class PackReport:
    """A packed arm of a project."""

    arm: str
    model: str
    prompts: int
    tasks: int
    cost_usd: float
    comparisons: tuple[PackComparison, ...]

    @property
    def compared(self) -> int:
        """How many tasks were asked about both ways, over all questions."""
        return sum(each.compared for each in self.comparisons)

    @property
    def differed(self) -> int:
        """In how many of them the votes differed."""
        return sum(each.differed for each in self.comparisons)

    @property
    def unpacked(self) -> bool:
        """Whether the arm is no longer asked."""
        return any(each.unpacked for each in self.comparisons)


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that needs a person's attention.

    Attributes:
        code: a stable code.
        message: what is wrong. It names models and controls, and quotes no task.
        fix: what to do.
        level: ``alarm`` if labels or money are at stake, which is reported to people; else ``note``.
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
class LostCalls:
    """Calls whose answers are lost: what they are counted with, and the most that they may cost."""

    calls: int
    usd: float
    most_usd: float

    def __str__(self) -> str:
        """Say it in one line."""
        counted = f"{of(self.calls, 'call')} ended with a killed process: counted with {dollars(self.usd)}"
        if self.usd < self.most_usd:
            return f"{counted}, as such calls usually cost; {dollars(self.most_usd)} at most"
        return f"{counted}, the most that they may cost"


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of the rounds, compared with asking every model in each of them.

    ``every_model_at_most`` says that a model was never measured, so that its price is only an upper bound.
    ``reused`` answers had been paid for by other tasks, of an earlier job for example. They would have cost
    ``reused_usd``; that is saved whichever models are asked, so it is no part of what is ``saved``.
    ``timeouts_usd`` is counted for calls that timed out or broke off, which are no part of the rounds' cost.
    ``nominal`` says that all models are embedded voters, which cost nobody anything.
    """

    budget: Budget
    rounds_usd: float
    every_model_usd: float
    every_model_at_most: bool
    saved: float | None
    reused: int = 0
    reused_usd: float = 0.0
    nominal: bool = False
    best_single: BestSingleReport | None = None
    lost: LostCalls | None = None
    timeouts_usd: float = 0.0

    @property
    def at_most(self) -> str:
        """What precedes the price of asking every model if it is only an upper bound."""
        return "at most " if self.every_model_at_most else ""

    @property
    def voteless(self) -> tuple[str, ...]:
        """What was counted for calls that gave nothing, beside the price of the votes."""
        lost = () if self.lost is None else (str(self.lost),)
        if not self.timeouts_usd:
            return lost
        which = "calls that timed out or broke off, which providers may bill"
        return (*lost, f"{dollars(self.timeouts_usd)} for {which}")

    @property
    def everyone(self) -> str:
        """What asking every model would have cost, in words."""
        return f"{self.at_most}{dollars(self.every_model_usd)}"

    @property
    def beside(self) -> str:
        """What is to be said of the price of the votes, in words; empty if there is nothing."""
        said = []
        if self.reused:
            said.append(f"{of(self.reused, 'answer')} reused, {dollars(self.reused_usd)} not paid again")
        if self.nominal:
            said.append("nominal: embedded voters are free")
        return "; ".join(said)

    @property
    def votes(self) -> str:
        """The price of the votes, with what is to be said of it."""
        return dollars(self.rounds_usd) + (f" ({self.beside})" if self.beside else "")


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """One question in one epoch."""

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
    recall: tuple[RecallReport, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelReport:
    """One model in one project.

    Attributes:
        unread: code → the latest tasks on which its answer came and gave no vote.
        unread_example: the beginning of such an answer; ``None`` where texts are not shown.
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
    unread: Mapping[str, int] = field(default_factory=dict)
    unread_example: str | None = None

    @property
    def unread_cures(self) -> list[str]:
        """What to do about the answers that gave no vote."""
        return [cure_of(code) for code in self.unread]

    @property
    def is_student(self) -> bool:
        """Whether it is the student, which is never in the pool."""
        return self.name == STUDENT

    @property
    def is_writer(self) -> bool:
        """Whether it only writes texts, for ``camvo refine``, and never votes."""
        return self.name.endswith(WRITER)

    @property
    def answered(self) -> int:
        """How many calls returned an answer."""
        return self.calls - sum(self.failures.values())


@dataclass(frozen=True, slots=True)
class FailedTasksReport:
    """The tasks that ended without a prediction for one reason."""

    code: str
    tasks: int
    final: bool
    fix: str


@dataclass(frozen=True, slots=True)
class NextStep:
    """One thing to do."""

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
class VoterAgreement:
    """How far the vote or one model agrees with people who did not see the prediction.

    Attributes:
        voter: the model's name, or ``the vote``.
        kappa: Cohen's κ; ``None`` if it cannot be computed.
        alt_test: kind of people (docs/annotators.md) → the alternative annotator test with that kind's ε;
            empty if nobody labelled enough tasks with others.
    """

    voter: str
    kappa: Agreement | None
    alt_test: dict[str, AltTest]


@dataclass(frozen=True, slots=True)
class AgreementReport:
    """The agreement on one question (docs/annotators.md).

    Attributes:
        control: the name of its control tag.
        people: Krippendorff's α among people who did not see the prediction.
        voters: the vote first, then each model.
        anchoring: how much more often people give the vote's label when they see it.
    """

    control: str
    people: Agreement | None
    voters: tuple[VoterAgreement, ...]
    anchoring: Anchoring | None


@dataclass(frozen=True, slots=True)
class ProjectReport:
    """One project."""

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
    skipped: tuple[SkippedControl, ...]
    failed: tuple[FailedTasksReport, ...]
    progress: ProgressReport
    recounts: RecountReport
    title: str | None = None
    label_studio: str | None = None
    url: str | None = None
    next_steps: tuple[NextStep, ...] = ()
    annotators: tuple[AnnotatorReport, ...] | None = None
    agreement: tuple[AgreementReport, ...] | None = None
    packs: tuple[PackReport, ...] = ()
    certificates: tuple[CertificateReport, ...] | None = None
    incomplete: int = 0
    kept_blind: float = 0.0
    page: tuple[PagePart, ...] = ()
    texts: tuple[TextComparison, ...] = ()

    @property
    def current(self) -> list[QuestionReport]:
        """The questions as they are asked now."""
        return [question for question in self.questions if question.current]

    @property
    def in_label_studio(self) -> bool:
        """Whether it is a project of Label Studio; else it is that of a file."""
        return is_of_label_studio(self.key)

    def part(self, estimate: EstimateReport) -> str:
        """Which labels an estimate leaves out, in words; empty if none.

        After a change of instructions tasks keep their labels, and the estimate is about the new ones.
        """
        labels, tasks = estimate.labels, self.progress.predicted
        return f"about {count(labels)} of {of(tasks, 'labelled task')} only" if labels < tasks else ""

    @property
    def keeping_blind(self) -> str:
        """How to keep tasks blind, in words."""
        if self.in_label_studio:
            return "Set audit in camvo.yaml to keep a share of tasks blind"
        return "camvo label with --blind 300 keeps a sample blind, in a project's first run"

    @property
    def annotations(self) -> str:
        """How many annotations there are, how many of them teach, and why others do not."""
        humans = self.humans
        said = f"{of(humans.annotations, 'annotation')}, {count(humans.teaching)} of which teach"
        if humans.withdrawn:
            said += f", {count(humans.withdrawn)} withdrawn"
        if humans.teaching < humans.annotations:
            said += " (skipped, tied, overruled, accepted, blind and withdrawn ones do not)"
        return said

    @property
    def saving(self) -> str:
        """What was saved beside asking everyone, in words; empty if nothing can be said."""
        if self.cost.saved is None:
            return ""
        if self.saved is None:
            return "no saving is known, since votes are missing"
        if self.cost.saved < 0.0:  # the coin asks about packed tasks singly, too
            return f"{percent(-self.cost.saved)} more was paid"
        of_that = " by the choice of models" if self.cost.reused else ""
        return f"{self.saved} saved{of_that}"

    @property
    def saved(self) -> str | None:
        """The share of the cost of asking everyone that the choice of models saved, if it is known."""
        if self.cost.saved is None or self.incomplete > _MANY_INCOMPLETE * self.rounds:
            return None
        return f"{self.cost.at_most}{percent(self.cost.saved)}"


_MANY_INCOMPLETE = 0.05
"""A saving is named if no larger share of the labels is incomplete: a vote that is missing saves nothing."""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What a running server knows beyond the ledger, since its start."""

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
    """All projects at one moment."""

    version: str
    model_version: str
    generated_at: float
    alerts: tuple[Alert, ...]
    server: ServerReport | None
    today: Budget
    projects: tuple[ProjectReport, ...]
