"""What the blind labels of one question certify, which labels that covers, and what became of it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from sqlalchemy import Connection

from backend.ledger.blind_tasks import BlindQueue, QueuedTask
from backend.ledger.certificates import Certificates, Issued, Reason
from backend.ledger.reports import SCORE_BINS, CheckedRow, ProjectSums, QuestionSums
from backend.questions import ConfigQuestion
from backend.questions.controls import AnyOf, OneOf
from backend.server.status.formats import of
from backend.server.status.report import (
    Basis,
    CertificateReport,
    CertifyReport,
    EstimateReport,
    FoundTasks,
    GuaranteeReport,
    RecallReport,
    RestartReport,
    ScoreCheckReport,
    SharesReport,
    StopsReport,
)
from camvo.numerics.small import clopper_pearson
from camvo.scores.calibration import ScoreCheck
from camvo.scores.guarantee import Certified, Guarantee, ScoreCounts, label_found, labels_to_certify
from camvo.shares import Answer, Arrival, answer_shares, random_sample
from camvo.state.contribution import Restart
from camvo.typing import Array
from camvo.votes.sets import read_subset


def shares_report(sums: QuestionSums, question: ConfigQuestion, queue: BlindQueue) -> SharesReport | None:
    """Estimate the shares of a question's labels. Reads every round of the question."""
    options = question.control
    if not isinstance(options, OneOf | AnyOf):
        return None
    found = random_sample(_arrivals(queue), queue.ends.values())
    if found is None:
        return None
    arrivals, through = found
    sample = [*sums.blind_answers([arrival.round for arrival in arrivals]).values()]
    several = isinstance(options, AnyOf)
    predicted: Counter[Answer] = Counter()
    for label, tasks in sums.first_labels(through).items():
        predicted[_answer(label, several)] += tasks
    shares = answer_shares(
        [label.value for label in options.labels],
        predicted,
        [
            (_answer(label, several), None if human is None else _answer(human, several))
            for label, human in sample
        ],
    )
    newest = ProjectSums(sums.connection, sums.project).newest_round()
    every = sums.first_labels(newest, represented=False)
    return SharesReport(
        tasks=predicted.total(),
        beyond=every.total() - predicted.total(),
        blind=len(sample),
        unknown=sum(human is None for _, human in sample),
        deleted=len(arrivals) - len(sample),
        labels=tuple(shares),
    )


def recall_reports(
    sums: QuestionSums, queue: BlindQueue, targets: Mapping[str, float], *, tasks: bool
) -> tuple[RecallReport, ...]:
    """Say which tasks hold a share of those with a label, by label.

    Without ``tasks`` it only says how many blind labels there are; with them it reads every round.
    """
    if not targets:
        return ()
    found = random_sample(_arrivals(queue), queue.ends.values())
    if found is None:
        return tuple([RecallReport(label, target) for label, target in targets.items()])
    arrivals, through = found
    answers = sums.blind_answers([arrival.round for arrival in arrivals])
    if not tasks:
        said = Counter(human for _, human in answers.values())
        return tuple(
            [
                RecallReport(label, target, blind=len(arrivals), labelled=said[label])
                for label, target in targets.items()
            ]
        )
    likely = sums.likely(through)
    newest = ProjectSums(sums.connection, sums.project).newest_round()
    every = sums.first_labels(newest, represented=False).total()

    def report(label: str, target: float) -> RecallReport:
        scores = {number: known.get(label, 0.0) for number, known in likely.items()}
        blind: list[tuple[float, bool | None]] = []
        for arrival in arrivals:
            human = answers.get(arrival.round, ("", None))[1]
            blind.append((scores.get(arrival.round, 0.0), None if human is None else human == label))

        def among(share: float) -> FoundTasks | None:
            if (sure := label_found(blind, share)) is None:
                return None
            return FoundTasks(share, sure, sum(score >= sure.threshold for score in scores.values()))

        easier = [each for share in _LOWER if share < target and (each := among(share)) is not None]
        return RecallReport(
            label,
            target,
            tasks=len(scores),
            beyond=every - len(scores),
            blind=len(blind),
            labelled=sum(has is True for _, has in blind),
            found=among(target),
            easier=tuple(easier),
        )

    return tuple([report(label, target) for label, target in targets.items()])


def _answer(label: str, several: bool) -> Answer:
    return frozenset(read_subset(label) if several else [label])


def _arrivals(queue: BlindQueue) -> list[Arrival]:
    counting = {blind.task for blind in queue.resting}
    return [Arrival(blind.round_id, blind.place, blind.task, blind.task in counting) for blind in queue]


_LOWER = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""Targets that are tried if the blind tasks cannot be expected to certify the project's own."""

_MOST = 5000
_MANY = 1000
"""Where the number of tasks is not known, more labels are advised only if no target can do with so many."""


def certify_report(
    queue: BlindQueue, score_counts: Sequence[int], target: float, unpredicted: int | None = None
) -> CertifyReport | None:
    """Say how many blind labels are needed, or would do for less; ``None`` without a label."""
    if not sum(score_counts):
        return None
    run, behind = queue.run, queue.behind
    audits = [(blind.score, blind.reward) for blind in run if blind.reward is not None]
    scores = _scores(score_counts)
    waiting = sum(blind.reward is None for blind in behind)
    next_task = behind[0].task if behind else None
    wanted = labels_to_certify(audits, scores, target, most=_MOST)
    found = partial(
        CertifyReport, waiting=waiting, next_task=next_task, unpredicted=unpredicted, wanted=wanted
    )
    if wanted is not None and wanted <= waiting:
        return found(target, wanted)
    held = _held(audits, target)
    found = partial(found, held=held)
    possible = _MOST if unpredicted is None else min(waiting + unpredicted, _MOST)
    own = wanted if wanted is not None and wanted <= possible else None
    lower = [share for share in _LOWER if (held or 0.0) < share < target]
    bounds = [waiting]
    if unpredicted is None and (own is None or own > _MANY):
        bounds.append(_MANY)
    if own is None:
        bounds.append(possible)
    for most in bounds:
        for share in lower:
            if needed := labels_to_certify(audits, scores, share, most=most):
                return found(share, needed)
    return found(target, own)


def _held(audits: Sequence[tuple[float, float]], target: float) -> float | None:
    """The highest lower target that is certified already; the bounds hold whichever is chosen by them."""
    guarantee = Guarantee(target=target)
    guarantee.update(audits)
    bound = guarantee.bounds.max()
    return next((share for share in _LOWER if share < target and share <= bound), None)


def _scores(score_counts: Sequence[int]) -> list[tuple[float, int]]:
    return [((place + 0.5) / SCORE_BINS, count) for place, count in enumerate(score_counts)]


def stops_report(found: Mapping[str, Any] | None) -> StopsReport | None:
    """The findings about one question, from :func:`camvo.state.state.findings`."""
    if found is None:
        return None
    since, restarts = found["since"], [Restart.from_dict(restart) for restart in found["restarts"]]
    return StopsReport(
        tried=found["all"]["tried"],
        right=found["all"]["right"],
        since=since["tried"],
        wrong=since["tried"] - since["right"],
        promised=since["promised"],
        rounds=found["rounds"],
        relearning=bool(restarts) and not since["tried"],
        restarts=tuple(_restart_report(restart) for restart in reversed(restarts)),
    )


def _restart_report(restart: Restart) -> RestartReport:
    return RestartReport(
        kind=restart.kind,
        after=restart.at,
        model=restart.arm,
        history=restart.history,
        before=restart.before,
        version=restart.version,
        message=_message(restart),
    )


def _message(restart: Restart) -> str:
    certain = "Labels are given only when no further vote can change them, until stops are learnt anew"
    if restart.kind == "stops":
        return (
            f"early labels differed from the label of more models in {restart.wrong} of "
            f"{of(restart.rounds, 'round')} that chance tested, where at most "
            f"{restart.promised or 0.0:.1f} were promised. {certain}"
        )
    if restart.kind == "tasks":
        return (
            "the models disagree with each other more often than before, so the tasks have probably become "
            f"harder. {certain}"
        )
    new = "Its earlier votes are kept but count no more"
    if restart.kind == "arm":
        return (
            f"{restart.arm} agrees with the other models more or less often than before, so it has probably "
            f"changed. {new}"
        )
    known = "" if restart.before is None else f" instead of {restart.before}"
    back = "It had this version before, and its votes of that time count again"
    return f"{restart.arm} answers as {restart.version}{known}. {back if restart.resumed else new}"


LEAST = 10
"""Checked labels from which on a share is estimated from them."""


def estimate_report(
    score_counts: Sequence[int], checked: Sequence[CheckedRow], *, represented: bool = True
) -> EstimateReport | None:
    """Estimate the share of right labels; ``None`` without a label.

    ``represented`` says whether the blind tasks represent all others. Otherwise their labels count like
    reviewed ones.
    """
    labels = sum(score_counts)
    if not labels:
        return None
    blind = [row.confirmed for row in checked if row.audit]
    reviewed = [row for row in checked if not (row.audit and represented)]
    if len(blind) >= LEAST and represented:
        low, high = clopper_pearson(sum(blind), len(blind))
        return EstimateReport("blind", labels, len(blind), sum(blind) / len(blind), low, high)
    if len(reviewed) >= LEAST:
        found = _counts(score_counts, reviewed).share_right()
        return EstimateReport("reviewed", labels, len(reviewed), found.share, found.low, found.high)
    return EstimateReport("score", labels, len(checked), _mean_score(score_counts), None, None)


def _mean_score(score_counts: Sequence[int]) -> float:
    """The mean score of labels that are sorted into bins."""
    middles = (np.arange(SCORE_BINS) + 0.5) / SCORE_BINS
    return float(np.average(middles, weights=np.asarray(score_counts, dtype=np.float64)))


def score_check_report(checked: Sequence[CheckedRow]) -> ScoreCheckReport | None:
    """Check the scores against blind labels, and against reviewed ones if there are not enough of those.

    People agree easily with a prediction that they see. So reviewed labels can say that scores promise too
    much, but not that they promise too little.
    """
    for basis, audit in (("blind", True), ("reviewed", False)):
        labels = [(row.score, row.confirmed) for row in checked if row.audit is audit]
        if len(labels) >= LEAST and (found := ScoreCheck.of(labels)) is not None:
            return _report("blind" if basis == "blind" else "reviewed", found)
    return None


def _report(basis: Basis, found: ScoreCheck) -> ScoreCheckReport:
    off = None if basis == "reviewed" and found.off == "low" else found.off
    return ScoreCheckReport(basis, found.count, found.score, found.share, found.low, found.high, off)


def _counts(score_counts: Sequence[int], reviewed: Sequence[CheckedRow]) -> ScoreCounts:
    labels: Array = np.asarray(score_counts, dtype=np.float64)
    checked, right = np.zeros(SCORE_BINS), np.zeros(SCORE_BINS)
    for row in reviewed:
        place = int(ScoreCounts.bin_of(np.asarray(row.score)))
        checked[place] += 1.0
        right[place] += row.confirmed
    return ScoreCounts(np.maximum(labels, checked), checked, right)


class _CountLabels(Protocol):
    """Counts a question's labels with at least a score, up to a round (``None`` for all)."""

    def __call__(
        self, score: float, through: int | None, *, represented: bool = False, shown: bool = False
    ) -> int:
        """The number, on request only of tasks that blind ones represent, or that wait for an annotation."""


def guarantee_report(queue: BlindQueue, target: float, count: _CountLabels) -> GuaranteeReport:
    """The report on one question in one epoch, apart from other questions on the same tasks."""
    latest, run, void = queue.latest, queue.run, queue.void
    guarantee, certified = _certified(run, target)
    last = max((blind.recount for blind in void), default=0)
    _, voided = _certified([blind for blind in void if blind.recount == last], target)
    labels = _covered_labels(queue, certified, count)
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
        acceptable=_acceptable(queue, target, count),
    )


def _acceptable(queue: BlindQueue, target: float, count: _CountLabels) -> int:
    """How many of the labels of which each is certified wait for an annotation."""
    if (cover := covered_rounds(queue, target)) is None:
        return 0
    certified, after, through = cover
    counted = partial(count, certified.threshold, represented=True, shown=True)
    return counted(through) - counted(after)


def _certified(run: Sequence[QueuedTask], target: float) -> tuple[Guarantee, Certified | None]:
    guarantee = Guarantee(target=target)
    guarantee.update((blind.score, blind.reward) for blind in run if blind.reward is not None)
    return guarantee, guarantee.certified()


@dataclass(frozen=True, slots=True)
class _CoveredCohort:
    """A cohort that the run reaches."""

    after: int
    through: int
    share: float


def _covered_cohorts(queue: BlindQueue) -> list[_CoveredCohort]:
    """The cohorts for whose labels the run speaks, in their order."""
    ends, every = queue.ends, Counter(blind.cohort for blind in queue)
    reached = Counter(blind.cohort for blind in queue.run if blind.cohort in ends)
    return [
        _CoveredCohort(
            after=max((end for other, end in ends.items() if other < cohort), default=0),
            through=ends[cohort],
            share=1.0 if len(reached) == 1 else reached[cohort] / every[cohort],
        )
        for cohort in sorted(reached)
    ]


def _covered_labels(queue: BlindQueue, certified: Certified | None, count: _CountLabels) -> int:
    """How many labels a certificate covers; see :func:`_covered_cohorts`."""
    if certified is None:
        return 0
    least, counted = certified.threshold, partial(count, represented=True)
    return sum(
        int(cohort.share * (counted(least, cohort.through) - counted(least, cohort.after)))
        for cohort in _covered_cohorts(queue)
    )


def covered_rounds(queue: BlindQueue, target: float) -> tuple[Certified, int, int] | None:
    """What the blind labels certify, and the rounds of which it covers every label.

    Of a cohort for which the run speaks in part only, no single label can be said to be covered.

    Returns:
        The certificate, the round after which it covers all labels, and the last one of them; ``None`` if
        there is no certificate or no whole cohort.
    """
    _, certified = _certified(queue.run, target)
    whole = [cohort for cohort in _covered_cohorts(queue) if cohort.share == 1.0]
    if certified is None or not whole:
        return None
    return certified, whole[0].after, whole[-1].through


_WHY: dict[Reason, str] = {
    "recounted": "votes were counted again since, which changed labels or scores",
    "question_changed": "the question, its prompt or the embedder has changed since",
    "labels_changed": "labels that it covers are gone, since their tasks were deleted",
    "evidence_changed": "people have changed or withdrawn answers that it rests on",
}
"""What each reason means for which a certificate no longer holds."""


def certificate_reports(connection: Connection, project: str) -> tuple[CertificateReport, ...]:
    """The certificates of a project, the latest first. Reads every round that one covers."""
    return tuple(
        CertificateReport(
            number=standing.certificate.number,
            issued_at=standing.certificate.issued_at,
            labels=standing.certificate.labels,
            labels_hash=standing.certificate.labels_hash,
            file_hash=standing.certificate.file_hash,
            reason=standing.reason,
            message=_holds(standing.certificate) if standing.reason is None else _WHY[standing.reason],
        )
        for standing in Certificates(connection, project).standings()
    )


def _holds(certificate: Issued) -> str:
    """What a certificate says that nothing has overtaken."""
    certified = sum(found.get("certified", 0) for found in certificate.evidence.values())
    return "it holds" if certified else "it certifies no label, since it rests on too few blind labels"


def _digest(items: Iterable[object]) -> str | None:
    listed = list(items)
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest() if listed else None
