"""What the blind labels of one question certify, and which labels that covers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence

from backend.ledger.blind_tasks import QueuedTask, latest_counting
from backend.server.status.evidence import GuaranteeReport
from camvo.scores.blind_queue import unbroken_run
from camvo.scores.guarantee import Certified, Guarantee

CountLabels = Callable[[float, int | None], int]
"""Counts a question's labels with at least a score, up to a round (``None`` for all)."""


def guarantee_report(queue: Sequence[QueuedTask], target: float, count: CountLabels) -> GuaranteeReport:
    """The report on one question in one epoch, apart from other questions on the same tasks.

    Args:
        queue: the question's blind tasks, from the front of the queue; only those of its latest counting
            certify.
        target: the share of labels that must be right.
        count: counts the question's labels.
    """
    every_counting, queue = queue, latest_counting(queue)
    run = queue[: len(unbroken_run(queue))]
    guarantee, certified = _certified(run, target)
    void = [blind for blind in every_counting if blind.recount < (queue[0].recount if queue else 0)]
    _, voided = _certified(latest_counting(void), target)
    labels = covered_labels(queue, run, certified, count)
    every = count(0.0, None)
    return GuaranteeReport(
        target=target,
        confidence=guarantee.confidence,
        threshold=certified.threshold if certified else None,
        low=certified.bound if certified else None,
        audits=certified.audits if certified else 0,
        right=certified.right if certified else 0.0,
        labels=labels,
        freed=labels / every if every else 0.0,
        beyond=count(certified.threshold, None) - labels if certified else 0,
        blind=len(queue),
        labelled=sum(blind.reward is not None for blind in queue),
        run=len(run),
        next_task=queue[len(run)].task if len(run) < len(queue) else None,
        counting=_digest(blind.counting for blind in run),
        labels_hash=_digest([blind.task, blind.answers, blind.reward] for blind in run),
        recount=queue[0].recount if queue else 0,
        void=len(void),
        void_threshold=voided.threshold if voided else None,
    )


def _certified(run: Sequence[QueuedTask], target: float) -> tuple[Guarantee, Certified | None]:
    guarantee = Guarantee(target=target)
    guarantee.update((blind.score, blind.reward) for blind in run if blind.reward is not None)
    return guarantee, guarantee.certified()


def covered_labels(
    queue: Sequence[QueuedTask], run: Sequence[QueuedTask], certified: Certified | None, count: CountLabels
) -> int:
    """How many labels a certificate covers.

    - Of a cohort whose blind tasks all belong to the run, it covers every label.
    - Of the first cohort as well: the part in the run is a random sample of it.
    - Of a later one it covers the share that is in the run. Otherwise a few labels of many new tasks, added
      to many labels of old ones, would speak for all new tasks.

    Args:
        queue: the question's blind tasks.
        run: those that certify.
        certified: the certificate, ``None`` if there is none.
        count: counts the question's labels.
    """
    if certified is None:
        return 0
    ends = {blind.cohort: blind.closed_through for blind in queue if blind.closed_through is not None}
    last = run[-1].cohort
    before = max((cohort for cohort in ends if cohort < last), default=None)
    covered = 0 if before is None else count(certified.threshold, ends[before])
    if last not in ends:  # nobody has answered there: its tasks in the run were deleted
        return covered
    in_run, in_queue = (sum(blind.cohort == last for blind in tasks) for tasks in (run, queue))
    share = 1.0 if before is None else in_run / in_queue
    return covered + int(share * (count(certified.threshold, ends[last]) - covered))


def covered_rounds(queue: Sequence[QueuedTask], target: float) -> tuple[Certified, int] | None:
    """What the blind labels certify, and the newest round up to which it covers every label.

    Of a later cohort that is in the run only in part, no single label can be said to be covered.

    Returns:
        The certificate and the round's number; ``None`` if there is no certificate.
    """
    queue = latest_counting(queue)
    run = queue[: len(unbroken_run(queue))]
    _, certified = _certified(run, target)
    if certified is None:
        return None
    ends = {blind.cohort: blind.closed_through for blind in queue if blind.closed_through is not None}
    whole = {
        cohort
        for cohort in ends
        if cohort == min(ends)
        or sum(blind.cohort == cohort for blind in run) == sum(blind.cohort == cohort for blind in queue)
    }
    reached = [ends[cohort] for cohort in whole if cohort <= run[-1].cohort]
    return (certified, max(reached)) if reached else None


def _digest(items: Iterable[object]) -> str | None:
    listed = list(items)
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest() if listed else None
