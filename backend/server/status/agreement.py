"""How far people, models and the vote agree, and whether people lean on predictions that they see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from backend.learning.annotators import AnsweredQuestion
from backend.learning.teaching import person
from backend.ledger.human_annotations import Annotation
from camvo.annotators import (
    EPSILON,
    Agreement,
    AltTest,
    Anchoring,
    Suggested,
    alt_test,
    anchoring,
    cohen_kappa,
    krippendorff_alpha,
)

_VOTE: Final = "the vote"
_NOTHING: Final = "–"


@dataclass(frozen=True, slots=True)
class _VoterAgreement:
    """How far the vote or one model agrees with people who did not see the prediction.

    Attributes:
        voter: the model's name, or ``the vote``.
        kappa: Cohen's κ; ``None`` if it cannot be computed.
        alt_test: kind of people (docs/annotators.md) → the alternative annotator test with that kind's ε;
            empty if nobody labelled enough tasks with others.
    """

    voter: str
    kappa: Agreement | None
    alt_test: dict[str, AltTest]


@dataclass(frozen=True, slots=True)
class AgreementReport:
    """The agreement on one question (docs/annotators.md).

    Attributes:
        control: the name of its control tag.
        people: Krippendorff's α among people who did not see the prediction.
        voters: the vote first, then each model.
        anchoring: how much more often people give the vote's label when they see it.
    """

    control: str
    people: Agreement | None
    voters: tuple[_VoterAgreement, ...]
    anchoring: Anchoring | None


def agreement_reports(questions: Iterable[AnsweredQuestion]) -> tuple[AgreementReport, ...]:
    """Report on each question whose answers are labels and that people have answered.

    α, κ and the alternative annotator test use only labels of people who did not see the prediction.
    """
    reports = (_report(question) for question in questions if question.is_labels)
    return tuple([found for found in reports if found is not None])


def suggested(question: AnsweredQuestion) -> Iterator[Suggested]:
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
    lean = anchoring([*suggested(question)])
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
        tuple(_voter(name, votes[name], blind, by_person) for name in sorted(votes, key=_vote_first)),
        lean,
    )


def _blind_labels(said: Sequence[Annotation], control: str) -> dict[str, str]:
    """Person → the label that they gave without seeing the prediction; the last one, if there are several."""
    blind = (annotation for annotation in said if not annotation.prediction_shown)
    return {person(annotation): annotation.labels[control] for annotation in blind}


def _vote_first(name: str) -> tuple[bool, str]:
    return name != _VOTE, name


def _voter(
    name: str,
    votes: Mapping[int, str],
    blind: Mapping[int, Mapping[str, str]],
    by_person: Mapping[str, Mapping[int, str]],
) -> _VoterAgreement:
    kappa = cohen_kappa([(label, [*blind[task].values()]) for task, label in votes.items()])
    tests = {kind: alt_test(by_person, votes, epsilon) for kind, epsilon in EPSILON.items()}
    return _VoterAgreement(name, kappa, {kind: test for kind, test in tests.items() if test is not None})


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
