"""Which tasks a human should label next: those whose label, once known, puts the most right.

The gain of a label is a number of wrong labels put right:

- its own: the label that was voted for is wrong with probability 1 − score.
- what it teaches. Which models are right shows where their votes are in doubt, by p(1 − p) for a vote that is
  right with probability p: a task on which all agree, or few were asked, teaches little. And it shows most
  where people have labelled nothing alike: that is the variance eᵀ(I + Σ eeᵀ)⁻¹e which LinUCB's linear model
  has left after the contexts of the tasks that they labelled. The most that one label can teach counts as
  :data:`TEACHES` of a wrong label put right.

Tasks are chosen one after another, each as if those before it were labelled. Of near-duplicates the second
waits for a later list, when it is known what the first one was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.typing import Array

TEACHES: Final = 0.25
"""See docs/review.md: on real votes more finds fewer wrong labels and teaches no more than that is worth."""

_LIKENESS: Final = 8
"""A cosine to this power says how much one task is another's double: 0.43 at 0.9, 0.06 at 0.7."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that nobody has labelled.

    Attributes:
        task: its number.
        wrong: how many of its labels are wrong, in expectation.
        dispute: how much its models' votes are in doubt, in [0, 1] for each question.
    """

    task: int
    wrong: float
    dispute: float

    @property
    def most(self) -> float:
        """What labelling it may be worth at the most."""
        return self.wrong + TEACHES * self.dispute


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A task to label, and why.

    Attributes:
        task: its number.
        wrong: how many of its labels are wrong, in expectation.
        lesson: what its labels teach, in wrong labels put right.
        novelty: how little is known from tasks like it, in [0, 1]: 1 where there is none.
    """

    task: int
    wrong: float
    lesson: float
    novelty: float

    @property
    def gain(self) -> float:
        """What labelling it is worth, in wrong labels put right."""
        return self.wrong + self.lesson


def dispute(votes: Mapping[str, str | None], label: str, score: float, arms: int) -> float:
    """How much the votes on one question are in doubt: the mean of 4p(1 − p) over all ``arms``, in [0, 1].

    p is the score for a vote for ``label``; what is left is shared alike by the other answers. An arm that
    gave no vote counts as certain.
    """
    cast = [vote for vote in votes.values() if vote is not None]
    others = {*cast} - {label}
    chances = [score if vote == label else (1.0 - score) / len(others) for vote in cast]
    return sum(4.0 * p * (1.0 - p) for p in chances) / arms


def suggest(
    candidates: Sequence[Candidate], contexts: Array, labelled: Array, count: int
) -> list[Suggestion]:
    """The tasks to label next, the one with the largest gain first; ties go to the lower number.

    Args:
        candidates: n tasks.
        contexts: their embeddings, shape (n, d).
        labelled: the embeddings of the tasks that people have labelled, shape (m, d).
        count: how many are wanted.

    Raises:
        InvalidParameterError: the shapes do not fit.
    """
    if contexts.ndim != 2 or labelled.shape[1:] != contexts.shape[1:] or len(contexts) != len(candidates):
        raise InvalidParameterError(
            f"{len(candidates)} tasks with contexts {contexts.shape}, labelled ones {labelled.shape}"
        )
    unit, known = _unit(contexts), _unit(labelled)
    inverse = np.linalg.inv(np.eye(unit.shape[1]) + known.T @ known)
    novelty = np.einsum("nd,nd->n", unit @ inverse, unit)
    wrong = np.array([one.wrong for one in candidates], dtype=np.float64)
    teaches = TEACHES * np.array([one.dispute for one in candidates], dtype=np.float64)
    numbers = np.array([one.task for one in candidates])
    alike = np.zeros(len(candidates))
    left = np.ones(len(candidates), dtype=np.bool_)
    found: list[Suggestion] = []
    for _ in range(min(count, len(candidates))):
        gain = np.where(left, (wrong + teaches * novelty) * (1.0 - alike), -np.inf)
        best = np.flatnonzero(gain == gain.max())
        at = int(best[np.argmin(numbers[best])])
        lesson = float(teaches[at] * novelty[at])
        found.append(Suggestion(candidates[at].task, float(wrong[at]), lesson, float(novelty[at])))
        left[at] = False
        solved = inverse @ unit[at]
        inverse -= np.outer(solved, solved) / (1.0 + unit[at] @ solved)
        novelty = np.maximum(novelty - (unit @ solved) ** 2 / (1.0 + unit[at] @ solved), 0.0)
        alike = np.maximum(alike, np.clip(unit @ unit[at], 0.0, 1.0) ** _LIKENESS)
    return found


def _unit(rows: Array) -> Array:
    """The rows with length 1; those without a direction stay as they are."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0.0, length, 1.0), dtype=np.float64)
