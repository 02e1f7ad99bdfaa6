"""Sums for the status report, computed by the database: no query here returns a row per round without limit.

:func:`latest_plan` reads one round, and ``task_sums`` the latest ones. The sums read only from indexes that
contain the summed columns, so they stay fast with 100,000 rounds. ``told_alerts`` keeps which alerts people
were told of.
"""

from backend.ledger.reports.human_sums import HumansRow, sum_annotations
from backend.ledger.reports.label_sums import (
    BLOCKS,
    SCORE_BINS,
    BlockRow,
    CheckedRow,
    checked_labels,
    count_scores,
    sum_blocks,
)
from backend.ledger.reports.model_sums import (
    LOST,
    CallsRow,
    VotesRow,
    answer_seconds,
    sum_calls,
    sum_example_trials,
    sum_votes,
)
from backend.ledger.reports.pack_sums import PacksRow, sum_packs
from backend.ledger.reports.round_sums import (
    BINS,
    BinRow,
    RoundsRow,
    count_labels,
    latest_plan,
    sum_rounds,
    sum_scores,
)
from backend.ledger.reports.task_sums import (
    LATEST,
    JudgedRow,
    annotators,
    count_tasks,
    judged_labels,
    latest_labels,
    recent_outcomes,
)

__all__ = [
    "BINS",
    "BLOCKS",
    "LATEST",
    "LOST",
    "SCORE_BINS",
    "BinRow",
    "BlockRow",
    "CallsRow",
    "CheckedRow",
    "HumansRow",
    "JudgedRow",
    "PacksRow",
    "RoundsRow",
    "VotesRow",
    "annotators",
    "answer_seconds",
    "checked_labels",
    "count_labels",
    "count_scores",
    "count_tasks",
    "judged_labels",
    "latest_labels",
    "latest_plan",
    "recent_outcomes",
    "sum_annotations",
    "sum_blocks",
    "sum_calls",
    "sum_example_trials",
    "sum_packs",
    "sum_rounds",
    "sum_scores",
    "sum_votes",
]
