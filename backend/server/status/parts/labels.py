"""What the labels of one question are like: their scores, their shares, and what people made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.ledger import reports
from backend.ledger.reports import SCORE_BINS, BlockRow, JudgedRow

HISTOGRAM = 20
"""Number of bars of the histogram of scores."""

_MOST_NAMES = 12
"""Labels that are told apart; the rest is one."""

OTHER = "other labels"
"""The name of all labels beyond the most frequent ones."""


@dataclass(frozen=True, slots=True)
class BlockReport:
    """Rounds that follow one another, in blocks of the same size.

    Attributes:
        rounds: their number.
        cost_usd: what they cost, in $.
        every_model_usd: what they would have cost if every model had been asked, in $.
        checked: how many of their labels have a human answer.
        right: how many of these were right.
        last_at: when the last of them finished.
    """

    rounds: int
    cost_usd: float
    every_model_usd: float
    checked: int
    right: float
    last_at: float


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
        confusion: vote beside human label, of at most 2000 labels; empty in the same case.
    """

    histogram: tuple[int, ...]
    blocks: tuple[BlockReport, ...]
    shares: tuple[LabelCount, ...]
    confusion: tuple[ConfusionCount, ...]


def labels_report(  # noqa: PLR0917 - the question, and what is known of its labels
    connection: Connection,
    project: str,
    control: str,
    epoch: str,
    score_counts: Sequence[int],
    judged: Sequence[JudgedRow],
    *,
    closed: bool,
) -> LabelsReport:
    """Describe the labels of one question in an epoch.

    Args:
        connection: a read transaction.
        project: the project's key.
        control: the name of the control tag.
        epoch: the epoch.
        score_counts: how many labels each bin of the score has.
        judged: its labels with a human answer.
        closed: whether its answers are labels of the label config.
    """
    counts = reports.latest_labels(connection, project, control, epoch) if closed else Counter[str]()
    width = SCORE_BINS // HISTOGRAM
    return LabelsReport(
        histogram=tuple(sum(score_counts[start : start + width]) for start in range(0, SCORE_BINS, width)),
        blocks=tuple(_block(row) for row in reports.sum_blocks(connection, project, control, epoch)),
        shares=_shares(counts),
        confusion=_confusion(judged) if closed else (),
    )


def _block(row: BlockRow) -> BlockReport:
    return BlockReport(row.rounds, row.cost_usd, row.full_cost_usd, row.checked, row.confirmed, row.last_at)


def _shares(counts: Counter[str]) -> tuple[LabelCount, ...]:
    named = [LabelCount(label, count) for label, count in _ordered(counts)[:_MOST_NAMES]]
    rest = counts.total() - sum(share.count for share in named)
    return (*named, *([LabelCount(OTHER, rest)] if rest else []))


def _confusion(judged: Sequence[JudgedRow]) -> tuple[ConfusionCount, ...]:
    seen = Counter(label for row in judged for label in (row.label, row.human))
    names = {label for label, _ in _ordered(seen)[:_MOST_NAMES]}
    cells = Counter(
        tuple(label if label in names else OTHER for label in (row.label, row.human)) for row in judged
    )
    return tuple(ConfusionCount(vote, human, count) for (vote, human), count in sorted(cells.items()))


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
