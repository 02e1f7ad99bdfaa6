"""What the blind labels of one question certify, and which labels that covers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from backend.ledger.certificates.blind_queue import BlindQueue, QueuedTask
from backend.server.status.evidence import GuaranteeReport
from camvo.scores.guarantee import Certified, Guarantee

CountLabels = Callable[[float, int | None], int]
"""Counts a question's labels with at least a score, up to a round (``None`` for all)."""


def guarantee_report(queue: BlindQueue, target: float, count: CountLabels) -> GuaranteeReport:
    """The report on one question in one epoch, apart from other questions on the same tasks.

    Args:
        queue: the question's blind tasks, from the front of the queue; only those of its latest counting
            certify.
        target: the share of labels that must be right.
        count: counts the question's labels.
    """
    latest, run, void = queue.latest, queue.run, queue.void
    guarantee, certified = _certified(run, target)
    last = max((blind.recount for blind in void), default=0)
    _, voided = _certified([blind for blind in void if blind.recount == last], target)
    labels = covered_labels(queue, certified, count)
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
        blind=len(latest),
        labelled=sum(blind.reward is not None for blind in latest),
        run=len(run),
        next_task=latest[len(run)].task if len(run) < len(latest) else None,
        counting=_digest(blind.counting for blind in run),
        labels_hash=_digest([blind.task, blind.answers, blind.reward] for blind in run),
        recount=queue.recount,
        void=len(void),
        void_threshold=voided.threshold if voided else None,
    )


def _certified(run: Sequence[QueuedTask], target: float) -> tuple[Guarantee, Certified | None]:
    guarantee = Guarantee(target=target)
    guarantee.update((blind.score, blind.reward) for blind in run if blind.reward is not None)
    return guarantee, guarantee.certified()


@dataclass(frozen=True, slots=True)
class CoveredCohort:
    """A cohort that the run reaches.

    Attributes:
        after: the round after which it begins.
        through: its last round.
        share: the share of its labels for which the run speaks, in (0, 1].
    """

    after: int
    through: int
    share: float


def covered_cohorts(queue: BlindQueue) -> list[CoveredCohort]:
    """The cohorts for whose labels the run speaks, in their order.

    The run speaks for a cohort in proportion to the share of its blind tasks that are in the run. Otherwise a
    few labels of many new tasks, added to many labels of old ones, would speak for all new tasks. Blind tasks
    that certified labels of an earlier counting are not in the run, so for a cohort that was finished before
    a recount nothing speaks any more. A run within one cohort is a random sample of it, and speaks for all
    of it.

    Args:
        queue: the question's blind tasks.
    """
    ends, every = queue.ends, Counter(blind.cohort for blind in queue)
    reached = Counter(blind.cohort for blind in queue.run if blind.cohort in ends)
    return [
        CoveredCohort(
            after=max((end for other, end in ends.items() if other < cohort), default=0),
            through=ends[cohort],
            share=1.0 if len(reached) == 1 else reached[cohort] / every[cohort],
        )
        for cohort in sorted(reached)
    ]


def covered_labels(queue: BlindQueue, certified: Certified | None, count: CountLabels) -> int:
    """How many labels a certificate covers; see :func:`covered_cohorts`.

    Args:
        queue: the question's blind tasks.
        certified: the certificate, ``None`` if there is none.
        count: counts the question's labels.
    """
    if certified is None:
        return 0
    least = certified.threshold
    return sum(
        int(cohort.share * (count(least, cohort.through) - count(least, cohort.after)))
        for cohort in covered_cohorts(queue)
    )


def covered_rounds(queue: BlindQueue, target: float) -> tuple[Certified, int, int] | None:
    """What the blind labels certify, and the rounds of which it covers every label.

    Of a cohort for which the run speaks in part only, no single label can be said to be covered.

    Returns:
        The certificate, the round after which it covers all labels, and the last one of them; ``None`` if
        there is no certificate or no whole cohort.
    """
    _, certified = _certified(queue.run, target)
    whole = [cohort for cohort in covered_cohorts(queue) if cohort.share == 1.0]
    if certified is None or not whole:
        return None
    return certified, whole[0].after, whole[-1].through


def _digest(items: Iterable[object]) -> str | None:
    listed = list(items)
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest() if listed else None
