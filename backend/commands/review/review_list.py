"""The tasks of a project that are most worth labelling; :mod:`camvo.scores.suggestions` has the rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from backend.learning.projects import closed_controls
from backend.ledger import blind_tasks, open_rounds, rounds
from backend.ledger.open_rounds import OpenRound
from backend.ledger.projects import Project
from camvo.scores import suggestions
from camvo.scores.suggestions import Candidate, Suggestion

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
    """A task to label, and why; the numbers are those of :class:`camvo.scores.suggestions.Suggestion`."""

    task: int
    gain: float
    wrong: float
    lesson: float
    novelty: float
    answers: tuple[DecidedQuestion, ...]

    @property
    def why(self) -> str:
        """The reasons, in a few words."""
        weakest = min(self.answers, key=lambda answer: answer.behind / max(answer.voted, 1))
        reasons = [f"{weakest.behind} of {weakest.voted} agree"]
        if weakest.voted < weakest.asked:
            reasons.append(f"{weakest.asked - weakest.voted} did not answer")
        if self.novelty > 0.8:
            reasons.append("new ground")
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
    """

    project: str
    tasks: tuple[SuggestedTask, ...]
    open: int
    blind: int
    blind_next: tuple[int, ...]


def review_list(connection: Connection, project: Project, limit: int) -> ReviewList:
    """Return the ``limit`` tasks of a project that are most worth labelling, and as many blind ones.

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
        {arm for by_control in rounds_of.values() for round_ in by_control.values() for arm in round_.votes}
    )
    candidates = sorted(
        (_candidate(task, by_control, arms) for task, by_control in rounds_of.items()), key=_by_possible_gain
    )[:_MOST]
    labelled = [
        number
        for control, epoch in epochs.items()
        for number in open_rounds.labelled_round_ids(connection, project.key, control, epoch)
    ]
    chosen = _suggest(connection, candidates, rounds_of, labelled, limit) if candidates else []
    return ReviewList(
        project=project.key,
        tasks=tuple(
            SuggestedTask(
                suggestion.task,
                suggestion.gain,
                suggestion.wrong,
                suggestion.lesson,
                suggestion.novelty,
                tuple(
                    _decided(control, round_, has_closed_set)
                    for control, round_ in rounds_of[suggestion.task].items()
                ),
            )
            for suggestion in chosen
        ),
        open=len(rounds_of),
        blind=open_rounds.count_blind_tasks(connection, project.key),
        blind_next=tuple(blind_tasks.waiting(connection, project.key, epochs, limit)),
    )


def _suggest(
    connection: Connection,
    candidates: Sequence[Candidate],
    rounds_of: Mapping[int, Mapping[str, OpenRound]],
    labelled: Sequence[int],
    limit: int,
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
    )


def _candidate(task: int, by_control: Mapping[str, OpenRound], arms: int) -> Candidate:
    return Candidate(
        task,
        wrong=sum(1.0 - round_.score for round_ in by_control.values()),
        dispute=sum(
            suggestions.dispute(round_.votes, round_.label, round_.score, arms)
            for round_ in by_control.values()
        ),
    )


def _by_possible_gain(candidate: Candidate) -> tuple[float, int]:
    return -candidate.most, candidate.task


def _decided(control: str, round_: OpenRound, has_closed_set: Mapping[str, bool]) -> DecidedQuestion:
    votes = [vote for vote in round_.votes.values() if vote is not None]
    label = round_.label if has_closed_set.get(control) else None
    return DecidedQuestion(
        control, label, round_.score, len(round_.votes), len(votes), votes.count(round_.label)
    )
