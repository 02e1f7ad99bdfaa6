"""Sums for the status report, computed by the database: no query here returns a row per round.

:func:`latest_plan` reads one round. The sums read only from indexes that contain the summed columns, so they
stay fast with 100,000 rounds.
"""

from backend.ledger.reports.human_sums import HumansRow, sum_annotations
from backend.ledger.reports.model_sums import (
    LOST,
    CallsRow,
    VotesRow,
    answer_seconds,
    sum_calls,
    sum_example_trials,
    sum_votes,
)
from backend.ledger.reports.round_sums import (
    BINS,
    BinRow,
    RoundsRow,
    count_labels,
    latest_plan,
    sum_rounds,
    sum_scores,
)

__all__ = [
    "BINS",
    "LOST",
    "BinRow",
    "CallsRow",
    "HumansRow",
    "RoundsRow",
    "VotesRow",
    "answer_seconds",
    "count_labels",
    "latest_plan",
    "sum_annotations",
    "sum_calls",
    "sum_example_trials",
    "sum_rounds",
    "sum_scores",
    "sum_votes",
]
