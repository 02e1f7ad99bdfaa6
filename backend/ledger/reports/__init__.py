"""What a report is made of, summed by the database: no query here returns a row for every round.

All of it reads from indexes that hold what is summed, so that a hundred thousand rounds take a moment only.
"""

from backend.ledger.reports.human_sums import HumansRow, humans
from backend.ledger.reports.model_sums import LOST, CallsRow, VotesRow, calls, seconds, votes
from backend.ledger.reports.round_sums import BINS, AuditRow, BinRow, RoundsRow, audits, rounds, scores

__all__ = [
    "BINS",
    "LOST",
    "AuditRow",
    "BinRow",
    "CallsRow",
    "HumansRow",
    "RoundsRow",
    "VotesRow",
    "audits",
    "calls",
    "humans",
    "rounds",
    "scores",
    "seconds",
    "votes",
]
