"""How many more blind labels a certificate of one question needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.ledger.certificates.blind_queue import BlindQueue
from backend.ledger.reports import SCORE_BINS
from camvo.scores.labels_needed import labels_to_certify

_LOWER = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5)
"""Targets that are tried if the blind tasks cannot be expected to certify the project's own."""

_MOST = 5000


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


def blind_labels_needed(score_counts: Sequence[int], target: float) -> int | None:
    """How many blind labels are expected to certify a share before there is one; ``None`` if none suffices.

    Args:
        score_counts: how many labels each bin of the score has.
        target: the share that must be right.
    """
    return labels_to_certify([], _scores(score_counts), target, most=_MOST) if sum(score_counts) else None


def certify_report(queue: BlindQueue, score_counts: Sequence[int], target: float) -> CertifyReport | None:
    """Say how many blind labels are needed; ``None`` without a blind task.

    Args:
        queue: the question's blind tasks, from the front of the queue; those of its latest counting count.
        score_counts: how many labels each bin of the score has.
        target: the share that must be right.
    """
    if not queue or not sum(score_counts):
        return None
    run, behind = queue.run, queue.behind
    audits = [(blind.score, blind.reward) for blind in run if blind.reward is not None]
    scores = _scores(score_counts)
    waiting = sum(blind.reward is None for blind in behind)
    next_task = behind[0].task if behind else None
    own = labels_to_certify(audits, scores, target, most=_MOST)
    if own is not None and own <= waiting:
        return CertifyReport(target, own, waiting, next_task)
    lower = [share for share in _LOWER if share < target]
    for most, targets in ((waiting, lower), (_MOST, lower if own is None else ())):
        for share in targets:
            if needed := labels_to_certify(audits, scores, share, most=most):
                return CertifyReport(share, needed, waiting, next_task)
    return CertifyReport(target, own, waiting, next_task)


def _scores(score_counts: Sequence[int]) -> list[tuple[float, int]]:
    return [((place + 0.5) / SCORE_BINS, count) for place, count in enumerate(score_counts)]
