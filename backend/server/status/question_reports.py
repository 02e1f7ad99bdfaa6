"""What is known of a question: its labels, its annotators and models, and how far they agree.

An annotator is named by their id in Label Studio, and nobody before 20 labels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any, Final, Literal

import numpy as np
from sqlalchemy import Connection

from backend.learning.annotators import AnsweredQuestion
from backend.learning.states import latest_findings
from backend.learning.teaching import aggregation_of, person
from backend.ledger.blind_tasks import BlindQueue, BlindQueues
from backend.ledger.human_annotations import Annotation
from backend.ledger.missing_votes import UNREAD, MissingVotes
from backend.ledger.reports import (
    SCORE_BINS,
    CallsRow,
    JudgedRow,
    ProjectSums,
    QuestionSums,
    RoundsRow,
    VotesRow,
)
from backend.ledger.rounds import ProjectRounds
from backend.questions import ConfigQuestion
from backend.questions.label_config import labels_decided
from backend.server.status.promises import (
    certify_report,
    estimate_report,
    guarantee_report,
    recall_reports,
    score_check_report,
    shares_report,
    stops_report,
)
from backend.server.status.report import (
    AgreementReport,
    AnnotatorReport,
    BestSingleReport,
    ConfusionCount,
    ExamplesReport,
    LabelCount,
    LabelsReport,
    ModelReport,
    QuestionableLabel,
    QuestionableReport,
    QuestionReport,
    ScaleReport,
    Share,
    VoterAgreement,
    VotesReport,
)
from camvo.annotators import (
    EPSILON,
    Agreement,
    AltTest,
    Anchoring,
    AnnotatorReliability,
    Suggested,
    alt_test,
    anchoring,
    cohen_kappa,
    fit_reliabilities,
    krippendorff_alpha,
)
from camvo.replays.measures import scale_quality
from camvo.scores.reviews import ExampleTrial
from camvo.student import STUDENT
from camvo.votes import registry
from camvo.votes.labels import OrderedVote

HISTOGRAM = 20
"""Number of bars of the histogram of scores."""

_MOST_NAMES = 12
"""Labels that are shown separately; all others are shown as one."""

_OTHER = "other labels"
"""The name of all labels beyond the most frequent ones."""


def _labels_report(
    sums: QuestionSums,
    plan: Mapping[str, Any] | None,
    score_counts: Sequence[int],
    judged: Sequence[JudgedRow],
    *,
    closed: bool,
) -> LabelsReport:
    """Describe the labels of one question in an epoch."""
    counts = sums.latest_labels() if closed else Counter[str]()
    width = SCORE_BINS // HISTOGRAM
    return LabelsReport(
        histogram=tuple(sum(score_counts[start : start + width]) for start in range(0, SCORE_BINS, width)),
        blocks=tuple(sums.blocks()),
        shares=_shares(counts),
        confusion=_confusion(judged) if closed else (),
        scale=_scale_report(plan, judged),
    )


def _scale_report(plan: Mapping[str, Any] | None, judged: Sequence[JudgedRow]) -> ScaleReport | None:
    """Compare voted labels with those of people; ``None`` unless they are on a scale."""
    vote = None if plan is None else aggregation_of(plan)
    if not isinstance(vote, OrderedVote):
        return None
    place = {label: number for number, label in enumerate(vote.scale)}
    pairs = [(place[row.label], place[row.human]) for row in judged if {row.label, row.human} <= place.keys()]
    labels, truth = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    quality = scale_quality(labels, truth)
    if quality is None:
        return None
    exact = float((labels == truth).mean())
    return ScaleReport(len(pairs), exact, quality.within_one, quality.absolute, quality.kappa)


def _shares(counts: Counter[str]) -> tuple[LabelCount, ...]:
    named = [LabelCount(label, count) for label, count in _ordered(counts)[:_MOST_NAMES]]
    rest = counts.total() - sum(share.count for share in named)
    return (*named, *([LabelCount(_OTHER, rest)] if rest else []))


def _confusion(judged: Sequence[JudgedRow]) -> tuple[ConfusionCount, ...]:
    seen = Counter(label for row in judged for label in (row.label, row.human))
    names = {label for label, _ in _ordered(seen)[:_MOST_NAMES]}
    cells = Counter(
        tuple(label if label in names else _OTHER for label in (row.label, row.human)) for row in judged
    )
    return tuple(ConfusionCount(vote, human, count) for (vote, human), count in sorted(cells.items()))


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


_SHOWN = 50
"""Labels that are listed at most for each question."""

_CERTAIN = 0.9
"""The score from which a vote against a single annotator is a reason to look again."""


def _questionable_report(
    connection: Connection, project: str, judged: Sequence[JudgedRow], *, closed: bool
) -> QuestionableReport:
    """List the questionable labels of one question."""
    differing = [row for row in judged if row.confirmed < 0.5]
    people = ProjectSums(connection, project).annotators([row.task for row in differing])
    listed = sorted(
        (_label(row, people, closed=closed) for row in differing),
        key=lambda label: (not label.certain, -label.score, label.task),
    )
    return QuestionableReport(
        labels=len(listed), certain=sum(label.certain for label in listed), listed=tuple(listed[:_SHOWN])
    )


def _label(row: JudgedRow, people: Mapping[int, int], *, closed: bool) -> QuestionableLabel:
    annotators = people.get(row.task, 0)
    return QuestionableLabel(
        task=row.task,
        vote=row.label if closed else None,
        human=row.human if closed else None,
        score=row.score,
        annotators=annotators,
        certain=row.score >= _CERTAIN and annotators == 1,
    )


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """Where a project's questions are read.

    Attributes:
        asked: the questions of the label config by name.
        every_round: whether every round is read, for the labels' shares and the tasks with a sought label.
        unpredicted: how many of its tasks have no round; ``None`` if that is unknown.
        recall: label → the share of the tasks with it that must be found.
    """

    connection: Connection
    project: str
    target: float
    closed: Mapping[str, bool]
    asked: Mapping[str, ConfigQuestion] = field(default_factory=dict)
    every_round: bool = False
    unpredicted: int | None = None
    recall: Mapping[str, float] = field(default_factory=dict)


def question_reports(source: QuestionSource, rounds: Sequence[RoundsRow]) -> tuple[QuestionReport, ...]:
    """A report for each control and epoch, the current epoch of a control first."""
    connection, project = source.connection, source.project
    queues = BlindQueues(connection, project).all()
    found = latest_findings(connection, project)
    by_question: dict[tuple[str, str], list[RoundsRow]] = {}
    latest = ProjectRounds(connection, project).latest_epochs()
    for row in rounds:
        by_question.setdefault((row.control, row.epoch), []).append(row)
    listed = []
    for (control, epoch), rows in by_question.items():
        last_at = max(row.last_at for row in rows)
        queue = queues.get((control, epoch), BlindQueue())
        count = QuestionSums(connection, project, control, epoch).count
        report = QuestionReport(
            control=control,
            epoch=epoch,
            current=latest.get(control) == epoch,
            rounds=sum(row.rounds for row in rows),
            last_at=last_at,
            audit=Share.of((row.checked, row.confirmed) for row in rows if row.audit),
            reviewed=Share.of((row.checked, row.confirmed) for row in rows if not row.audit),
            guarantee=guarantee_report(queue, source.target, count),
            votes=None,
            stops=stops_report(found.get((control, epoch))),
        )
        listed.append(_with_labels(source, report, queue) if report.current else report)
    return tuple(sorted(listed, key=lambda report: (report.control, not report.current, -report.last_at)))


def _sought(recall: Mapping[str, float], question: ConfigQuestion | None) -> dict[str, float]:
    """The labels of a question that must be found; none if it is not in the label config."""
    labels = () if question is None else labels_decided(question)
    return {label: target for label, target in recall.items() if label in labels}


def _with_labels(source: QuestionSource, report: QuestionReport, queue: BlindQueue) -> QuestionReport:
    """The report of a current epoch, with what is read from its single labels."""
    sums = QuestionSums(source.connection, source.project, report.control, report.epoch)
    plan = sums.latest_plan()
    score_counts, checked = sums.scores(), sums.checked()
    judged = [] if plan is None else sums.judged(aggregation_of(plan).reward)
    closed, asked = source.closed.get(report.control, False), source.asked.get(report.control)
    return replace(
        report,
        votes=VotesReport.of(plan),
        estimate=estimate_report(score_counts, checked, represented=queue.complete),
        score_check=score_check_report(checked),
        labels=_labels_report(sums, plan, score_counts, judged, closed=closed),
        questionable=_questionable_report(source.connection, source.project, judged, closed=closed),
        certify=certify_report(queue, score_counts, source.target, source.unpredicted),
        shares=shares_report(sums, asked, queue) if asked and source.every_round else None,
        recall=(
            recall_reports(sums, queue, _sought(source.recall, asked), tasks=source.every_round)
            if asked
            else ()
        ),
    )


_VOTE: Final = "the vote"
_NOTHING: Final = "–"


def agreement_reports(questions: Iterable[AnsweredQuestion]) -> tuple[AgreementReport, ...]:
    """Report on each question whose answers are labels and that people have answered.

    α, κ and the alternative annotator test use only labels of people who did not see the prediction.
    """
    reports = (_report(question) for question in questions if question.is_labels)
    return tuple([found for found in reports if found is not None])


def _suggested(question: AnsweredQuestion) -> Iterator[Suggested]:
    """Every label of a known person beside the vote's label, and whether the person saw it."""
    for task, said in question.annotations.items():
        round_ = question.rounds.get(task)
        for annotation in said if round_ is not None else ():
            if round_ is not None and annotation.completed_by is not None:
                agreed = annotation.labels[question.control] == round_.label
                shown = annotation.prediction_shown
                yield Suggested(annotation.completed_by, round_.score, shown, agreed)


def _report(question: AnsweredQuestion) -> AgreementReport | None:
    blind = {task: _blind_labels(said, question.control) for task, said in question.annotations.items()}
    lean = anchoring([*_suggested(question)])
    votes: dict[str, dict[int, str]] = defaultdict(dict)
    for task, round_ in question.rounds.items():
        if blind.get(task):
            votes[_VOTE][task] = round_.label
            for arm, label in round_.votes.items():
                if label is not None:
                    votes[arm][task] = label
    if not votes and lean is None:
        return None
    by_person: dict[str, dict[int, str]] = defaultdict(dict)
    for task, said in blind.items():
        for name, label in said.items():
            by_person[name][task] = label
    return AgreementReport(
        question.control,
        krippendorff_alpha([[*said.values()] for said in blind.values()]),
        tuple(
            _voter(name, votes[name], blind, by_person)
            for name in sorted(votes, key=lambda name: (name != _VOTE, name))
        ),
        lean,
    )


def _blind_labels(said: Sequence[Annotation], control: str) -> dict[str, str]:
    """Person → the label that they gave without seeing the prediction; the last one, if there are several."""
    blind = (annotation for annotation in said if not annotation.prediction_shown)
    return {person(annotation): annotation.labels[control] for annotation in blind}


def _voter(
    name: str,
    votes: Mapping[int, str],
    blind: Mapping[int, Mapping[str, str]],
    by_person: Mapping[str, Mapping[int, str]],
) -> VoterAgreement:
    kappa = cohen_kappa([(label, [*blind[task].values()]) for task, label in votes.items()])
    tests = {kind: alt_test(by_person, votes, epsilon) for kind, epsilon in EPSILON.items()}
    return VoterAgreement(name, kappa, {kind: test for kind, test in tests.items() if test is not None})


def points(value: Anchoring | None) -> str:
    """How much more often people give a label that they see, in percentage points, with the 95% interval."""
    if value is None:
        return _NOTHING
    return f"{100.0 * value.more:+.0f} points ({100.0 * value.low:+.0f} to {100.0 * value.high:+.0f})"


def beyond_chance(value: Agreement | None) -> str:
    """α or κ with its 95% interval."""
    return _NOTHING if value is None else f"{value.value:.2f} ({value.low:.2f} to {value.high:.2f})"


def replaceable(tests: Mapping[str, AltTest]) -> str:
    """The kinds of people whom a voter may replace by the alternative annotator test."""
    if not tests:
        return _NOTHING
    return ", ".join(kind for kind, test in tests.items() if test.passed) or "nobody"


LEAST_LABELS: Final = 20
"""People with fewer labels are counted, but neither named nor judged."""


def annotator_reports(questions: Sequence[AnsweredQuestion]) -> tuple[AnnotatorReport, ...]:
    """Report on every annotator of a project, by id; those with few labels come last, in one row."""
    of_person: dict[int, list[_Label]] = defaultdict(list)
    for question in questions:
        for label in _labels(question):
            if label.annotation.completed_by is not None:
                of_person[label.annotation.completed_by].append(label)
    reliabilities = {
        question.control: fit_reliabilities(
            [question.peoples_task(task) for task in question.annotations], len(question.options)
        ).people
        for question in questions
        if question.is_labels
    }
    named = {number: labels for number, labels in sorted(of_person.items()) if len(labels) >= LEAST_LABELS}
    beside_vote = [label for question in questions if question.is_labels for label in _suggested(question)]
    rows = []
    for number, labels in named.items():
        own = {control: fits[str(number)] for control, fits in reliabilities.items() if str(number) in fits}
        lean = anchoring([label for label in beside_vote if label.person == number])
        rows.append(replace(_judged(number, labels, own), anchoring=lean))
    few = [labels for number, labels in of_person.items() if number not in named]
    if few:
        rows.append(_counted(None, len(few), [label for labels in few for label in labels]))
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class _Label:
    """One label of one person, and what there is to compare it with.

    ``taken`` is whether a shown prediction was taken over, ``None`` if none was shown; ``misled`` whether
    blind colleagues agreed on another label then.
    """

    annotation: Annotation
    agreement: float | None
    truth: float | None
    taken: bool | None
    misled: bool | None


def _labels(question: AnsweredQuestion) -> Iterator[_Label]:
    reward, control = question.aggregation.reward, question.control
    for task, said in question.annotations.items():
        truth, round_ = question.truth(task), question.rounds.get(task)
        for annotation in said:
            label = annotation.labels[control]
            others = [other for other in said if other.completed_by != annotation.completed_by]
            taken = None
            if annotation.prediction_shown and round_ is not None:
                taken = reward(label, round_.label) == 1.0
            blind = registry.agreed_answer(
                question.aggregation,
                [other.labels[control] for other in others if not other.prediction_shown],
                question.options,
            )
            judged = truth is not None and not annotation.ground_truth
            yield _Label(
                annotation,
                fmean(reward(label, other.labels[control]) for other in others) if others else None,
                reward(label, truth) if judged and truth is not None else None,
                taken,
                reward(blind, label) < 1.0 if taken and blind is not None else None,
            )


def _judged(
    person: int, labels: Sequence[_Label], reliability: dict[str, AnnotatorReliability]
) -> AnnotatorReport:
    return replace(
        _counted(person, 1, labels),
        agreement=_share([label.agreement for label in labels]),
        truth=_share([label.truth for label in labels]),
        unchanged=_share([label.taken for label in labels]),
        anchored=_share([label.misled for label in labels]),
        reliability=reliability,
    )


def _counted(person: int | None, people: int, labels: Sequence[_Label]) -> AnnotatorReport:
    annotations = {label.annotation.annotation_id: label.annotation for label in labels}.values()
    seconds = [annotation.lead_time for annotation in annotations if annotation.lead_time is not None]
    return AnnotatorReport(
        person,
        people,
        len(labels),
        len({annotation.task for annotation in annotations}),
        sum(seconds) / 60.0 if seconds else None,
        median(seconds) if seconds else None,
    )


def _share(values: Sequence[float | None]) -> Share:
    return Share.of((1, float(value)) for value in values if value is not None)


_LEAST = 10
"""Checked votes that every model with a say needs."""


def best_single_report(
    models: Sequence[ModelReport],
    votes: VotesReport | None,
    tasks: int,
    labels_beside: Callable[[str, bool], Share],
) -> BestSingleReport | None:
    """Find the best single model by the best evidence there is; ``None`` before any answer."""
    asked = [model for model in models if model.in_pool and model.answered]
    for basis, share_of in _evidence(votes).items():
        shares = {model.name: share for model in asked if (share := share_of(model)) is not None}
        if len(shares) == len(asked) > 0:
            best = max(asked, key=lambda model: (shares[model.name], -model.cost_usd / model.answered))
            usd = best.cost_usd / best.answered * tasks
            by_people = basis in {"blind", "reviewed"}
            labels = labels_beside(best.name, basis == "blind") if by_people else None
            return BestSingleReport(best.name, usd, shares[best.name], basis, labels)
    return None


_Basis = Literal["blind", "reviewed", "votes", "agreement"]


def _evidence(votes: VotesReport | None) -> Mapping[_Basis, Callable[[ModelReport], float | None]]:
    """How right a model is, by each kind of evidence, the best first."""
    return {
        "blind": lambda model: model.audit.share if model.audit.count >= _LEAST else None,
        "reviewed": lambda model: model.reviewed.share if model.reviewed.count >= _LEAST else None,
        "votes": lambda model: None if votes is None else _estimated(votes, model.name),
        "agreement": lambda model: model.agreement.share,
    }


def _estimated(votes: VotesReport, model: str) -> float | None:
    """A model's accuracy as the votes alone show it, over all kinds of items."""
    accuracy = votes.accuracy.get(model)
    if accuracy is None or not votes.everyone:
        return None
    weights = votes.kinds or [1.0 / len(accuracy)] * len(accuracy)
    return sum(weight * share for weight, share in zip(weights, accuracy, strict=True))


def model_reports(
    connection: Connection, project: str, calls: Sequence[CallsRow], pool: Collection[str]
) -> tuple[ModelReport, ...]:
    """A report for each model that the project asks or has ever asked, by name.

    The student is among them once it has voted. Before, it would look like a model that fails.
    """
    sums = ProjectSums(connection, project)
    votes = sums.votes()
    tried = sums.example_trials()
    asked = MissingVotes(connection, project, None).of_models()
    heard = {row.model for row in votes if row.voted or row.model != STUDENT}
    names = {*pool, *(row.model for row in calls), *heard}
    return tuple(
        _model_report(
            connection,
            project,
            name,
            [row for row in calls if row.model == name and not row.under_way],
            [row for row in votes if row.model == name],
            in_pool=name in pool,
            tried=tried.get(name),
            unread={code: tasks for code, tasks in asked[name].failures.items() if code in UNREAD}
            if name in asked
            else {},
        )
        for name in sorted(names)
    )


def _model_report(
    connection: Connection,
    project: str,
    name: str,
    calls: Sequence[CallsRow],
    votes: Sequence[VotesRow],
    *,
    in_pool: bool,
    tried: ExampleTrial | None,
    unread: Mapping[str, int],
) -> ModelReport:
    median, p95 = (
        ProjectSums(connection, project).answer_seconds(name, quantile) for quantile in (0.5, 0.95)
    )
    return ModelReport(
        name=name,
        in_pool=in_pool,
        asked=sum(row.asked for row in votes),
        voted=sum(row.voted for row in votes),
        agreement=Share.of((row.compared, row.agreed) for row in votes),
        audit=Share.of((row.checked, row.confirmed) for row in votes if row.audit),
        reviewed=Share.of((row.checked, row.confirmed) for row in votes if not row.audit),
        calls=sum(row.calls for row in calls),
        failures={row.failure: row.calls for row in calls if row.failure is not None},
        median_seconds=median,
        p95_seconds=p95,
        cost_usd=sum(row.cost_usd for row in calls),
        examples=None if tried is None else _examples_report(tried),
        unread=unread,
    )


def _examples_report(tried: ExampleTrial) -> ExamplesReport:
    return ExamplesReport(
        shown=Share.of([(tried.votes_with, tried.right_with)]),
        left_out=Share.of([(tried.votes_without, tried.right_without)]),
        helps=tried.helps,
    )
