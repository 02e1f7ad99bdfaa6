"""How right labels, scores and models were: shares of human-confirmed labels, with their intervals.

Field names are keys of the report's JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from camvo.numerics.proportion import clopper_pearson
from camvo.state.restart import RestartKind
from camvo.student.taught_texts import STUDENT


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
        run: how many of these stand without a gap at the front of the queue; only they certify.
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
    """What began anew because the tasks or a model had changed (docs/drift.md).

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
        """Whether the arm is asked no more."""
        return any(each.unpacked for each in self.comparisons)
