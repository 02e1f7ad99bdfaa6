"""How right labels, scores and models were: shares of human-confirmed labels, with their intervals.

Field names are keys of the report's JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from camvo.numerics.proportion import clopper_pearson


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
