"""The report. Field names are the keys of its JSON, and their meaning does not change.

Times are unix seconds, money is in $.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from prometheus_client.samples import Sample

from backend.ledger.certificates import Reason
from backend.ledger.recounts import NO_FURTHER_VOTES, CountingReason, FurtherSum
from backend.ledger.reports import Block, HumansRow
from backend.settings import Environment
from backend.telemetry import metrics
from camvo.annotators.annotators import AnnotatorReliability
from camvo.numerics.small import clopper_pearson
from camvo.shares.shares import LabelShare
from camvo.state.contribution import RestartKind
from camvo.student.taught_texts import STUDENT


@dataclass(frozen=True, slots=True)
class CertificateReport:
    """A certificate that was issued (docs/certificate.md).

    Attributes:
        number: 1, 2, 3 … within the project.
        issued_at: unix seconds.
        labels: how many labels it covers.
        labels_hash: SHA-256 of these labels.
        file_hash: SHA-256 of the page.
        reason: why it no longer holds; ``None`` if it holds.
        message: the same in words.
    """

    number: int
    issued_at: float
    labels: int
    labels_hash: str
    file_hash: str
    reason: Reason | None
    message: str


@dataclass(frozen=True, slots=True)
class SharesReport:
    """The share of each label among the tasks that the blind labels speak for (docs/certificate.md).

    Attributes:
        tasks: the number of these tasks.
        beyond: the number of tasks that came later, for which the blind labels do not speak.
        blind: the blind labels that the shares are based on.
        unknown: how many of these have no human answer, since they were skipped, withdrawn or tied. The
            intervals hold whatever they are.
        deleted: how many labelled blind tasks were deleted since; nothing is known of them.
        labels: the shares, in the order of the label config.
    """

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
        target: the share: the setting ``guarantee``, or the highest lower one that the waiting blind tasks
            are expected to certify, or else any number of them.
        needed: the expected number of further blind labels; 0 if the labels certify already, ``None`` if no
            number is expected to suffice.
        waiting: how many blind tasks wait for a label.
        next_task: the first of them, ``None`` if none waits.
    """

    target: float
    needed: int | None
    waiting: int
    next_task: int | None


Basis = Literal["blind", "reviewed", "score"]


@dataclass(frozen=True, slots=True)
class EstimateReport:
    """The estimated share of all labels of one question that are right.

    Attributes:
        basis: what it rests on. ``blind``: the share of blind labels that were right. ``reviewed``: the
            score, corrected by labels that people reviewed; they may have chosen them, or seen the
            prediction. ``score``: the mean score alone, since fewer than ten labels were checked.
        labels: the number of all labels.
        checked: the number of labels that it is based on.
        share: the estimate.
        low: the lower bound of its 95% interval, ``None`` for the mean score.
        high: the upper bound.
    """

    basis: Basis
    labels: int
    checked: int
    share: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ScoreCheckReport:
    """The scores of the latest labels that people checked, beside how many of them were right.

    Attributes:
        basis: ``blind`` or ``reviewed`` labels.
        count: their number.
        score: their mean score.
        share: the share that was right, with its 95% interval from ``low`` to ``high``.
        low: the lower bound.
        high: the upper bound.
        off: whether scores are too ``high`` or too ``low``; ``None`` if nothing says so.
    """

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
class LabelsReport:
    """The labels of one question in its current epoch.

    Attributes:
        histogram: how many labels have a score from 0 to 0.05, from 0.05 to 0.1, and so on up to 1.
        blocks: cost and accuracy over time, the earliest first.
        shares: the latest labels by frequency, at most 2000 of them; empty if answers are no labels of the
            label config, since they may quote a task.
        confusion: vote and human label, of at most 2000 labels; empty in the same case.
    """

    histogram: tuple[int, ...]
    blocks: tuple[Block, ...]
    shares: tuple[LabelCount, ...]
    confusion: tuple[ConfusionCount, ...]


@dataclass(frozen=True, slots=True)
class QuestionableLabel:
    """One label on which the vote and the people differ.

    Attributes:
        task: the task's number.
        vote: the voted label; ``None`` if answers may quote the task.
        human: the human label; ``None`` in the same case.
        score: the vote's score.
        annotators: how many people annotated the task.
        certain: whether a certain vote contradicts a single annotator, who may be wrong.
    """

    task: int
    vote: str | None
    human: str | None
    score: float
    annotators: int
    certain: bool


@dataclass(frozen=True, slots=True)
class QuestionableReport:
    """The labels of one question on which the vote and the people differ, among its latest 2000 with both.

    Attributes:
        labels: their number.
        certain: how many of them are certain votes against a single annotator.
        listed: the first fifty: certain votes against a single annotator, then by score.
    """

    labels: int
    certain: int
    listed: tuple[QuestionableLabel, ...]


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """How many of a project's tasks have a label.

    Attributes:
        tasks: the project's tasks, ``None`` before the first webhook.
        predicted: tasks with a label.
        outdated: how many of them have labels of an earlier label config, prompt or embedder only.
        config_changed: controls whose question in the label config is not the one that was predicted.
    """

    tasks: int | None
    predicted: int
    outdated: int
    config_changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecountReport:
    """A project's recounts. Field names are keys of the report's JSON.

    Attributes:
        countings: how often votes were counted again with a change.
        labels: how many tasks have got another label since they were predicted, at any time.
        scores: how many have only got another score.
        last_at: when the latest counting was made, ``None`` before the first.
        last_reason: why: ``command``, ``training`` or ``automatic``.
        last_labels: how many labels it changed.
        pending: how many tasks' predictions in Label Studio are still to be replaced.
        would_change: how many labels a recount would change that waits for the command; 0 if none waits.
        would_count: of how many.
        would_move: by how much it would change the scores, on average.
        command: the command to run; ``None`` if there is nothing to do by hand.
        further: votes of models that rounds had left out, asked for where labels were in doubt.
        completed: such votes that the server requested on its own, on tasks that people labelled.
    """

    countings: int
    labels: int
    scores: int
    last_at: float | None
    last_reason: CountingReason | None
    last_labels: int
    pending: int
    would_change: int
    would_count: int
    would_move: float
    command: str | None
    further: FurtherSum = NO_FURTHER_VOTES
    completed: FurtherSum = NO_FURTHER_VOTES


@dataclass(frozen=True, slots=True)
class AnnotatorReport:
    """One annotator in one project, or all that have few labels together.

    Attributes:
        id: their id in Label Studio; ``None`` for those with fewer than 20 labels.
        people: how many people the row is about.
        labels: how many labels of theirs count, over all questions.
        tasks: on how many tasks.
        minutes: the time that they took, where Label Studio reported it; ``None`` if it never did.
        seconds_per_task: its median, in seconds.
        agreement: how often the others on the same task gave the same label; each label counts as the share
            of the others who did. ``None`` for those with few labels, as all that follows.
        truth: how often the label was another person's ground truth.
        unchanged: how often a prediction that was shown was taken over.
        anchored: of those, where colleagues labelled the task without seeing the prediction: how often these
            agreed on another label.
        reliability: question → how often they are right, learnt from everybody's labels.
    """

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


@dataclass(frozen=True, slots=True)
class BestSingleReport:
    """The best single model, had it labelled all tasks alone.

    Attributes:
        model: its name.
        usd: what its calls would have cost, at its mean price so far.
        share: how often it is right, or agrees.
        basis: what ``share`` rests on: ``blind`` labels, ``reviewed`` ones, the ``votes`` alone (estimated),
            or the ``agreement`` with the voted label.
    """

    model: str
    usd: float
    share: float
    basis: Literal["blind", "reviewed", "votes", "agreement"]


@dataclass(frozen=True, slots=True)
class Share:
    """The share of ``count`` items that were right.

    Attributes:
        count: the number of items.
        right: the sum of their rewards; a whole number if each is simply right or wrong.
        share: right / count, ``None`` if there are no items.
        low: the lower bound of its 95% interval (Clopper and Pearson).
        high: the upper bound.
    """

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


@dataclass(frozen=True, slots=True)
class ScoreBin:
    """The human-labelled labels with a score from ``low`` up to ``high``.

    Attributes:
        low: the lower bound of the scores.
        high: the upper bound.
        count: the number of labels.
        score: their mean score, ``None`` if there are none.
        right: how many of them were right.
    """

    low: float
    high: float
    count: int
    score: float | None
    right: Share


@dataclass(frozen=True, slots=True)
class ReliabilityReport:
    """Scores compared with human labels.

    Attributes:
        labels: how many of all labels were right.
        score: their mean score, ``None`` if there are none.
        ece: the expected calibration error: the distance between mean score and share of right labels in a
            bin, averaged over all labels.
        bins: ten bins of equal width.
    """

    labels: Share
    score: float | None
    ece: float | None
    bins: tuple[ScoreBin, ...]


@dataclass(frozen=True, slots=True)
class VotesReport:
    """What the votes on a question were found to be worth, in its newest round (docs/joint.md).

    Attributes:
        everyone: the number of rounds that asked all models.
        models: the number of models; the student is none.
        effective_votes: how many independent models they are worth.
        families: the names of models that agree with one another far more than with the rest.
        accuracy: model, or the student → its estimated accuracy on easy and hard items, or with two labels on
            the items of each label.
        kinds: the shares of easy and hard items; empty with two labels.
        human: whether human labels correct what the votes say.
    """

    everyone: float
    models: int
    effective_votes: float
    families: tuple[tuple[str, ...], ...]
    accuracy: Mapping[str, Sequence[float]]
    kinds: tuple[float, ...]
    human: bool

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
            human="human" in joint,
        )


@dataclass(frozen=True, slots=True)
class GuaranteeReport:
    """The score from which labels may be accepted without review (docs/calibration.md).

    Attributes:
        target: the share of accepted labels that must be right.
        confidence: the probability that the guarantee holds, at all looks together.
        threshold: the smallest guaranteed score, ``None`` if the audits support none.
        low: a lower bound of the share that is right from that score on.
        audits: the number of blind labels of the run with such a score.
        right: the sum of their rewards.
        labels: the number of covered labels with such a score, which need no review.
        freed: their share of all labels.
        beyond: the number of labels with such a score that are not covered: they came after the cohorts of
            the run, or lie in a later cohort that is only partly labelled.
        blind: the number of blind tasks in the queue.
        labelled: how many of them somebody has answered, skipped or deleted.
        run: how many of these are at the front of the queue without a gap; only they certify.
        next_task: the first task that nobody has answered, ``None`` if there is none.
        counting: SHA-256 of what the run's labels and scores were counted from, each as first predicted: the
            plan with its weights, the label, the calibrated score. ``None`` without a run.
        labels_hash: SHA-256 of the run in its order: task, human answers, and how right the label counts.
            ``None`` without a run.
        recount: the number of the counting whose labels this is about, 0 for the first. An earlier
            counting's blind labels certify nothing any more (docs/recount.md).
        void: how many blind labels of earlier countings had stood without a gap.
        void_threshold: the score from which the last of those countings was certified; ``None`` if it was
            not. That certificate is void.
    """

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


@dataclass(frozen=True, slots=True)
class RestartReport:
    """What restarted because the tasks or a model had changed (docs/drift.md).

    Attributes:
        kind: ``stops``, ``tasks``, ``arm`` or ``version``.
        after: the number of rounds that the question had then.
        model: the model that had changed, ``None`` if none had.
        history: the number of the history with which that model went on; 0 is its first.
        before: the version that the model's provider had reported until then.
        version: the version that it reported from then on.
        message: what happened, in plain words.
    """

    kind: RestartKind
    after: int
    model: str | None
    history: int
    before: str | None
    version: str | None
    message: str


@dataclass(frozen=True, slots=True)
class StopsReport:
    """Whether stopping early gave the label of all models (docs/drift.md).

    Attributes:
        tried: the number of rounds in which chance tested a stop.
        right: in how many of them the stop would have given the right label, that of more models.
        since: the number of such rounds since the last restart.
        wrong: in how many of those the stop would have given another label.
        promised: in how many of those that was promised to happen, at most.
        rounds: the number of rounds since the last restart.
        relearning: whether no stop was tested since the last restart, so that labels are given only when no
            further vote can change them.
        restarts: the restarts, the latest first.
    """

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
    """How often a model was right on tasks for which there were examples (docs/few_shot.md).

    Attributes:
        shown: with examples in its prompt.
        left_out: without, because chance left them out.
        helps: the probability that it is right more often with examples.
    """

    shown: Share
    left_out: Share
    helps: float


@dataclass(frozen=True, slots=True)
class PackComparison:
    """How often a packed arm's vote on one question differed from its model's, asked singly.

    Attributes:
        control: the question's control.
        epoch: its epoch.
        compared: how many tasks a coin chose for both.
        differed: in how many of them the votes differed.
        unpacked: whether that is significantly too often, so that the arm is asked no more.
    """

    control: str
    epoch: str
    compared: int
    differed: int
    unpacked: bool


@dataclass(frozen=True, slots=True)
class PackReport:
    """A packed arm of a project.

    Attributes:
        arm: its name.
        model: the model's name.
        prompts: its answered prompts about more than one task.
        tasks: how many tasks they were about.
        cost_usd: what they cost.
        comparisons: by question.
    """

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


_NOTHING = "–"


def count(value: int | None) -> str:
    """A whole number with narrow spaces between the thousands."""
    return _NOTHING if value is None else f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def of(value: int, noun: str) -> str:
    """A number and its noun: ``1 label``, ``2 labels``."""
    return f"{count(value)} {noun}" + ("" if value == 1 else "s")


def dollars(value: float | None) -> str:
    """Dollars: two decimals from $100, four decimals from one cent, and three digits below that."""
    if value is None:
        return _NOTHING
    if value >= 100.0:
        return f"${value:,.2f}"
    if value >= 0.01 or value <= 0.0:
        return f"${value:.4f}" if value else "$0"
    decimals = 2 - math.floor(math.log10(value))
    return f"${value:.{decimals}f}".rstrip("0")


def percent(value: float | None) -> str:
    """A share in [0, 1] as a percentage with one decimal."""
    return _NOTHING if value is None else f"{100.0 * value:.1f}%"


def share_of_hundred(value: float) -> str:
    """A share that a person has set, without superfluous decimals: ``90%``, ``97.5%``."""
    return f"{100.0 * value:.4g}%"


def interval(value: Share) -> str:
    """The 95% interval of a share; empty without data."""
    if value.low is None or value.high is None:
        return ""
    return f"{100.0 * value.low:.1f}–{100.0 * value.high:.1f}%"


def seconds(value: float | None) -> str:
    """A duration in seconds."""
    return _NOTHING if value is None else f"{value:.2f} s" if value < 10.0 else f"{value:.0f} s"


def moment(value: float | None) -> str:
    """A time in UTC, to the minute."""
    if value is None:
        return _NOTHING
    time = datetime.fromtimestamp(value, UTC)
    return f"{time.day} {time:%b %Y, %H:%M} UTC"


def iso(value: float) -> str:
    """A time in ISO 8601, for machines."""
    return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")


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
        final: whether asking again is pointless until the prompt or the models change.
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


@dataclass(frozen=True, slots=True)
class Live:
    """The running server.

    Attributes:
        server: the server's own part of the report.
        tasks_under_way: the number of tasks in progress or waiting, by project.
        webhook_at: when the last webhook arrived, by project.
    """

    server: ServerReport
    tasks_under_way: Mapping[str, int]
    webhook_at: Mapping[str, float]


def read_live(environment: Environment) -> Live:
    """Read the metrics of the server that runs in this environment."""
    samples = metrics.samples(several_processes=environment.prometheus_multiproc_dir is not None)
    webhook_at = _by_label("project", samples.get("camvo_webhook_last_timestamp_seconds", []))
    under_way = _by_label("project", samples.get("camvo_tasks_under_way", []))
    tasks = _by_label("outcome", samples.get("camvo_tasks_total", []))
    requests = samples.get("camvo_requests_total", [])
    webhooks = [sample for sample in requests if sample.labels["endpoint"] == "/webhook"]
    server = ServerReport(
        started_at=_gauge(samples.get("camvo_started_timestamp_seconds", [])) or 0.0,
        webhooks=_webhook_access(environment),
        tasks={outcome: int(count) for outcome, count in tasks.items()},
        webhook_at=max(webhook_at.values(), default=None),
        webhooks_refused=int(_by_label("status", webhooks).get("401", 0)),
        webhook_refused_at=_gauge(samples.get("camvo_webhook_refused_last_timestamp_seconds", [])),
        unsettled=int(_gauge(samples.get("camvo_unsettled_answers", [])) or 0),
        clock_skew=_gauge(samples.get("camvo_clock_skew_seconds", [])),
    )
    return Live(
        server=server,
        tasks_under_way={project: int(count) for project, count in under_way.items()},
        webhook_at=webhook_at,
    )


def _webhook_access(environment: Environment) -> Literal["open", "guarded", "closed"]:
    """Who can send a webhook; Label Studio's webhooks carry no basic auth."""
    if environment.webhook_secret is not None:
        return "guarded"
    return "open" if environment.basic_auth_user is None else "closed"


def _gauge(samples: Sequence[Sample]) -> float | None:
    """The value of a gauge without labels; ``None`` before it is set."""
    return next((sample.value for sample in samples if sample.value), None)


def _by_label(label: str, samples: Sequence[Sample]) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in samples}
