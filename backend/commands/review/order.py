"""From the ledger to the tasks worth most to label (:mod:`camvo.scores.suggestions` has the rule)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from backend.errors import BadLabelConfigError
from backend.ledger import open_rounds, rounds
from backend.ledger.open_rounds import OpenRound
from backend.ledger.projects import Project
from backend.questions import parse_label_config
from camvo.scores import suggestions
from camvo.scores.suggestions import Candidate, Suggestion
from camvo.votes.labels import LABEL_VOTE

_MOST = 2000
"""Tasks that are looked at closely: those with the largest gain that they might have."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How one question of a task was decided, without a word of its text.

    Attributes:
        control: the question.
        label: the voted label, ``None`` where answers are not from a closed set and may quote the text.
        score: the probability that it is right.
        asked: how many models were asked.
        voted: how many of them gave a vote.
        behind: how many of these gave the label.
    """

    control: str
    label: str | None
    score: float
    asked: int
    voted: int
    behind: int


@dataclass(frozen=True, slots=True)
class Suggested:
    """One task to label, and why; the numbers are :class:`camvo.scores.suggestions.Suggestion`'s."""

    task: int
    gain: float
    wrong: float
    lesson: float
    novelty: float
    answers: tuple[Answer, ...]

    @property
    def why(self) -> str:
        """In a few words."""
        few = min(self.answers, key=lambda answer: answer.behind / max(answer.voted, 1))
        reasons = [f"{few.behind} of {few.voted} agree"]
        if few.voted < few.asked:
            reasons.append(f"{few.asked - few.voted} did not answer")
        if self.novelty > 0.8:
            reasons.append("new ground")
        return ", ".join(reasons)


@dataclass(frozen=True, slots=True)
class Review:
    """What is left to label of one project.

    Attributes:
        project: its key.
        tasks: the tasks to label next, the best first.
        open: how many tasks have a prediction and no annotation.
        blind: how many more are kept blind for an audit.
    """

    project: str
    tasks: tuple[Suggested, ...]
    open: int
    blind: int


def review(connection: Connection, project: Project, limit: int) -> Review:
    """The ``limit`` tasks of a project that are worth most to label.

    Tasks kept blind for an audit are not among them: which of them are labelled must not hang on their
    scores, or the guarantee that rests on them would not hold. Nor are those that somebody annotated or
    skipped, and those whose latest round is of an earlier epoch.
    """
    epochs, shown = open_rounds.latest_epochs(connection, project.key), {}
    if (known := _closed(project)) is not None:
        epochs, shown = {name: epochs[name] for name in known if name in epochs}, known
    found: dict[int, dict[str, OpenRound]] = {}
    for control, epoch in sorted(epochs.items()):
        for round_ in open_rounds.latest_per_task(connection, project.key, control, epoch):
            found.setdefault(round_.task, {})[control] = round_
    arms = len({arm for one in found.values() for round_ in one.values() for arm in round_.votes})
    candidates = sorted((_candidate(task, one, arms) for task, one in found.items()), key=_by_most)[:_MOST]
    labelled = [
        number
        for control, epoch in epochs.items()
        for number in open_rounds.labelled_round_ids(connection, project.key, control, epoch)
    ]
    chosen = _suggest(connection, candidates, found, labelled, limit) if candidates else []
    return Review(
        project=project.key,
        tasks=tuple(
            Suggested(
                one.task,
                one.gain,
                one.wrong,
                one.lesson,
                one.novelty,
                tuple(_answer(control, round_, shown) for control, round_ in found[one.task].items()),
            )
            for one in chosen
        ),
        open=len(found),
        blind=open_rounds.count_blind_tasks(connection, project.key),
    )


def _suggest(
    connection: Connection,
    candidates: Sequence[Candidate],
    found: Mapping[int, Mapping[str, OpenRound]],
    labelled: Sequence[int],
    limit: int,
) -> list[Suggestion]:
    """The choice among the candidates, each with the context of its first question."""
    firsts = [next(iter(found[one.task].values())).id for one in candidates]
    contexts, known = rounds.contexts(connection, firsts), rounds.contexts(connection, labelled)
    d = len(contexts[0])  # a control that came up last before the embedder was changed has another one
    same = [at for at, context in enumerate(contexts) if len(context) == d]
    return suggestions.suggest(
        [candidates[at] for at in same],
        np.array([contexts[at] for at in same]),
        np.array([context for context in known if len(context) == d]).reshape(-1, d),
        limit,
    )


def _closed(project: Project) -> dict[str, bool] | None:
    """Control → whether its answers are labels of the config; ``None`` where the config is not known."""
    if project.label_config is None:
        return None
    try:
        config = parse_label_config(project.label_config)
    except BadLabelConfigError:
        return None
    return {one.name: one.control.aggregation == LABEL_VOTE for one in config.questions}


def _candidate(task: int, answers: Mapping[str, OpenRound], arms: int) -> Candidate:
    return Candidate(
        task,
        wrong=sum(1.0 - one.score for one in answers.values()),
        dispute=sum(suggestions.dispute(one.votes, one.label, one.score, arms) for one in answers.values()),
    )


def _by_most(candidate: Candidate) -> tuple[float, int]:
    return -candidate.most, candidate.task


def _answer(control: str, round_: OpenRound, shown: Mapping[str, bool]) -> Answer:
    given = [vote for vote in round_.votes.values() if vote is not None]
    label = round_.label if shown.get(control) else None
    return Answer(control, label, round_.score, len(round_.votes), len(given), given.count(round_.label))
