"""Scores compared with human labels, in bins."""

from __future__ import annotations

from collections.abc import Iterable

from backend.ledger.reports import BINS, BinRow
from backend.server.status.evidence import ReliabilityReport, ScoreBin, Share


def reliability_report(rows: Iterable[BinRow]) -> ReliabilityReport:
    """The reliability diagram's numbers and the calibration error.

    Args:
        rows: one row per bin that has labels.
    """
    by_bin = {row.bin: row for row in rows}
    labels = Share.of((row.rounds, row.confirmed) for row in by_bin.values())
    gaps = sum(abs(row.score - row.confirmed) for row in by_bin.values())
    total = sum(row.score for row in by_bin.values())
    return ReliabilityReport(
        labels=labels,
        score=total / labels.count if labels.count else None,
        ece=gaps / labels.count if labels.count else None,
        bins=tuple(_bin(number, by_bin.get(number)) for number in range(BINS)),
    )


def _bin(number: int, row: BinRow | None) -> ScoreBin:
    low, high = number / BINS, (number + 1) / BINS
    if row is None:
        return ScoreBin(low, high, 0, None, Share.of(()))
    return ScoreBin(low, high, row.rounds, row.score / row.rounds, Share.of([(row.rounds, row.confirmed)]))
