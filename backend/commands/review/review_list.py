"""The tasks of a project that are most worth labelling, by :mod:`camvo.scores.reviews.suggestions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection

from backend.commands.review.pricing import Pricing
from backend.learning.projects import closed_controls
from backend.ledger import blind_tasks, open_rounds, rounds
from backend.ledger.open_rounds import OpenRound
from backend.ledger.projects import Project
from camvo.scores.reviews import suggestions
from camvo.scores.reviews.label_value import teaches
from camvo.scores.reviews.suggestions import Candidate, Suggestion
from camvo.student.taught_texts import without_silent_student

_MOST = 2000
"""Candidates at most: the tasks with the largest possible gain."""


@dataclass(frozen=True, slots=True)
class DecidedQuestion:
    """How one question of a task was decided, without any of the task's text.

    Attributes:
        control: the name of the control tag.
        label: the voted label; ``None`` for answers outside a closed set, which may quote the text.
        score: the probability that the label is right.
        asked: how many models were asked.
        voted: how many of them voted.
        behind: how many of these voted for the label.
    """

    control: str
    label: str | None
    score: float
    asked: int
    voted: int
    behind: int


@dataclass(frozen=True, slots=True)
class SuggestedTask:
    """A task to label, and why.

    Attributes:
        task: its number.
        gain: how many labels are expected to be put right; its parts ``wrong`` and ``lesson``, and
            ``novelty``, are those of :class:`camvo.scores.reviews.suggestions.Suggestion`.
        answers: how its questions were decided.
        value_usd: what the gain is worth, in $; ``None`` without a price of labels.
        models_first: whether a dollar for further votes of models brings more here than one for a label.
    """

    task: int
    gain: float
    wrong: float
    lesson: float
    novelty: float
    answers: tuple[DecidedQuestion, ...]
    value_usd: float | None = None
    models_first: bool = False

    @property
    def why(self) -> str:
        """The reasons, in a few words."""
        weakest = min(self.answers, key=lambda answer: answer.behind / max(answer.voted, 1))
        reasons = [f"{weakest.behind} of {weakest.voted} agree"]
        if weakest.voted < weakest.asked:
            reasons.append(f"{weakest.asked - weakest.voted} did not answer")
        if self.novelty > 0.8:
            reasons.append("new ground")
        if self.models_first:
            reasons.append("ask more models first")
        return ", ".join(reasons)


@dataclass(frozen=True, slots=True)
class ReviewList:
    """The tasks of one project that are left to label.

    Attributes:
        project: its key.
        tasks: the tasks to label next, the best first.
        open: how many tasks have a prediction and no annotation.
        blind: how many more are blind for an audit.
        blind_next: the first of these, in the order of the queue; only labels without a gap certify.
        label_usd: what a label costs, in $; ``None`` without a price of labels.
        worth_usd: what one more right label is worth, in $; ``None`` without a price of labels.
        worthwhile: how many open tasks there are whose label is worth its price; ``None`` without one.
        models_first: how many open tasks there are on which models bring more for a dollar.
    """

    project: str
    tasks: tuple[SuggestedTask, ...]
    open: int
    blind: int
    blind_next: tuple[int, ...]
    label_usd: float | None = None
    worth_usd: float | None = None
    worthwhile: int | None = None
    models_first: int = 0


def review_list(
    connection: Connection, project: Project, limit: int, pricing: Pricing | None = None
) -> ReviewList:
    """Return the ``limit`` tasks of a project that are most worth labelling, and as many blind ones.

    With a price of labels, what a label teaches is estimated from the project's own labels, and each task is
    compared with what models would bring there for the same money.

    These tasks are left out of the former:

    - tasks that are blind for an audit: if their scores decided which of them are labelled, the guarantee
      that rests on them would not hold;
    - tasks that were annotated or skipped;
    - tasks whose latest round is of an earlier epoch.
    """
    epochs, has_closed_set = open_rounds.latest_epochs(connection, project.key), dict[str, bool]()
    if (closed := closed_controls(project)) is not None:
        epochs, has_closed_set = {name: epochs[name] for name in closed if name in epochs}, dict(closed)
    rounds_of: dict[int, dict[str, OpenRound]] = {}
    for control, epoch in sorted(epochs.items()):
        for round_ in open_rounds.latest_per_task(connection, project.key, control, epoch):
            rounds_of.setdefault(round_.task, {})[control] = round_
    arms = len(
        {
            arm
            for by_control in rounds_of.values()
            for round_ in by_control.values()
            for arm in without_silent_student(round_.votes)
        }
    )
    every = [_candidate(task, by_control, arms) for task, by_control in rounds_of.items()]
    lesson = _lesson(every, pricing)
    candidates = sorted(every, key=lambda candidate: (-candidate.most(lesson), candidate.task))[:_MOST]
    labelled = [
        number
        for control, epoch in epochs.items()
        for number in open_rounds.labelled_round_ids(connection, project.key, control, epoch)
    ]
    chosen = (
        _suggest(connection, candidates, rounds_of, labelled, limit=limit, lesson=lesson)
        if candidates
        else []
    )
    return ReviewList(
        project=project.key,
        tasks=tuple(
            _suggested(suggestion, rounds_of[suggestion.task], has_closed_set, pricing)
            for suggestion in chosen
        ),
        **_priced(every, lesson, pricing),
        open=len(rounds_of),
        blind=open_rounds.count_blind_tasks(connection, project.key),
        blind_next=tuple(blind_tasks.waiting(connection, project.key, epochs, limit)),
    )


def _suggest(
    connection: Connection,
    candidates: Sequence[Candidate],
    rounds_of: Mapping[int, Mapping[str, OpenRound]],
    labelled: Sequence[int],
    *,
    limit: int,
    lesson: float,
) -> list[Suggestion]:
    """Choose among the candidates, each with the context of its first question."""
    first_rounds = [next(iter(rounds_of[candidate.task].values())).id for candidate in candidates]
    contexts = rounds.contexts(connection, first_rounds)
    labelled_contexts = rounds.contexts(connection, labelled)
    d = len(contexts[0])  # rounds from before a change of the embedder may have another dimension
    comparable = [number for number, context in enumerate(contexts) if len(context) == d]
    return suggestions.suggest(
        [candidates[number] for number in comparable],
        np.array([contexts[number] for number in comparable]),
        np.array([context for context in labelled_contexts if len(context) == d]).reshape(-1, d),
        limit,
        lesson,
    )


def _lesson(candidates: Sequence[Candidate], pricing: Pricing | None) -> float:
    """The most that one label teaches, in corrected labels.

    With a price of labels it is such that a label on an average task teaches what the project's labels do.
    """
    if pricing is None or not candidates:
        return suggestions.TEACHES
    wrong = sum(candidate.wrong for candidate in candidates)
    doubt = sum(candidate.dispute for candidate in candidates) / len(candidates)
    return teaches(wrong, pricing.taught, pricing.seen) / doubt if doubt > 0.0 else 0.0


def _suggested(
    suggestion: Suggestion,
    by_control: Mapping[str, OpenRound],
    has_closed_set: Mapping[str, bool],
    pricing: Pricing | None,
) -> SuggestedTask:
    return SuggestedTask(
        suggestion.task,
        suggestion.gain,
        suggestion.wrong,
        suggestion.lesson,
        suggestion.novelty,
        tuple(_decided(control, round_, has_closed_set) for control, round_ in by_control.items()),
        None if pricing is None else suggestion.gain * pricing.worth_usd,
        pricing is not None and _models_first(suggestion.task, suggestion.gain, pricing),
    )


def _models_first(task: int, gain: float, pricing: Pricing) -> bool:
    """Whether a dollar brings more right labels if models are asked than if a person is."""
    return pricing.models.get(task, 0.0) * pricing.label_usd > gain


def _priced(candidates: Sequence[Candidate], lesson: float, pricing: Pricing | None) -> dict[str, Any]:
    """What the whole list says about prices; a label on new ground counts, so this errs towards labels."""
    if pricing is None:
        return {}
    gains = {candidate.task: candidate.most(lesson) for candidate in candidates}
    return {
        "label_usd": pricing.label_usd,
        "worth_usd": pricing.worth_usd,
        "worthwhile": sum(gain * pricing.worth_usd >= pricing.label_usd for gain in gains.values()),
        "models_first": sum(_models_first(task, gain, pricing) for task, gain in gains.items()),
    }


def _candidate(task: int, by_control: Mapping[str, OpenRound], arms: int) -> Candidate:
    return Candidate(
        task,
        wrong=sum(1.0 - round_.score for round_ in by_control.values()),
        dispute=sum(
            suggestions.dispute(round_.votes, round_.label, round_.score, arms)
            for round_ in by_control.values()
        ),
    )


def _decided(control: str, round_: OpenRound, has_closed_set: Mapping[str, bool]) -> DecidedQuestion:
    said = without_silent_student(round_.votes)
    votes = [vote for vote in said.values() if vote is not None]
    label = round_.label if has_closed_set.get(control) else None
    return DecidedQuestion(control, label, round_.score, len(said), len(votes), votes.count(round_.label))
