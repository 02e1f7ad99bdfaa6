"""Which tasks a human should label next: the tasks whose labels correct the most errors.

The gain of labelling a task is measured in corrected labels:

- Its own labels: the label that was voted for is wrong with probability 1 − score.
- What it teaches. Labels show which models are right where their votes are in doubt, by p(1 − p) for a vote
  that is right with probability p. A task on which all agree, or few were asked, teaches little. Labels also
  teach most where nothing similar has been labelled. This is measured by eᵀ(I + Σ eeᵀ)⁻¹e, the variance that
  LinUCB's linear model still has after the contexts e of the labelled tasks. One label counts for at most
  :data:`TEACHES` corrected labels.

Tasks are chosen one after another, each as if those before it were labelled. The second of two
near-duplicates therefore waits for a later list, when the label of the first is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import betainc

from camvo.errors import InvalidParameterError
from camvo.typing import Array

_MIN_SHARE: Final = 0.1
"""The smallest share of rounds with examples, and of rounds without: comparing them needs both."""

_GRID_CELLS: Final = 4096


@dataclass(frozen=True, slots=True)
class ExampleTrial:
    """A model's votes on human-labelled rounds, with and without examples in the prompt.

    Attributes:
        right_with: the sum of rewards of its votes with examples.
        votes_with: the number of its votes with examples.
        right_without: the sum of rewards of its votes without examples.
        votes_without: the number of its votes without examples.
    """

    right_with: float = 0.0
    votes_with: int = 0
    right_without: float = 0.0
    votes_without: int = 0

    @property
    def helps(self) -> float:
        """The probability that the model is right more often with examples, in [0, 1].

        Both accuracies have uniform priors, so their posteriors are Beta distributions.
        """
        edges = np.linspace(0.0, 1.0, _GRID_CELLS + 1, dtype=np.float64)
        middles: Array = (edges[1:] + edges[:-1]) / 2.0
        mass = np.diff(_accuracy_below(self.right_with, self.votes_with, edges))
        return float(mass @ _accuracy_below(self.right_without, self.votes_without, middles))

    @property
    def share(self) -> float:
        """The share of rounds to show examples in: :attr:`helps`, clipped so that both ways are tried."""
        return min(max(self.helps, _MIN_SHARE), 1.0 - _MIN_SHARE)


def _accuracy_below(right: float, votes: int, share: Array) -> Array:
    """The probability that the accuracy is below each value of ``share``, in the shape of ``share``."""
    return np.asarray(betainc(1.0 + right, 1.0 + votes - right, share), dtype=np.float64)


_SHARE: Final = 0.02
_SPREAD: Final = 0.03
"""The prior mean of ρ∞, measured by counting real votes again (docs/review.md), and its deviation."""

_HALF: Final = 100.0
"""n½: the number of labels that teach half of what all labels can teach."""

_IDLE: Final = 5.0
"""A lead time counts as at most this many times the median, because people leave tasks open."""

_UNKNOWN_SECONDS, _UNKNOWN_LABELS = 20.0, 3
"""The prior of lead times: three labels of 20 seconds, added to the known ones."""


@dataclass(frozen=True, slots=True)
class TaughtBefore:
    """The effect of labels so far, on tasks that were labelled after their votes were counted again.

    Attributes:
        labels: how many labels had taught when they were counted again.
        wrong: the expected number of wrong labels among these tasks, by their first scores.
        gained: how many more labels were right as counted again than at first; may be negative.
        moved: how many labels became right or wrong when they were counted again.
    """

    labels: float = 0.0
    wrong: float = 0.0
    gained: float = 0.0
    moved: float = 0.0


NOTHING_SEEN: Final = TaughtBefore()


def _taught_share(seen: TaughtBefore) -> float:
    """ρ∞, the share of wrong labels that human labels on other tasks can put right, at least 0.

    It is the mean of the prior and of what was seen, each by its precision.
    """
    reached = seen.labels / (seen.labels + _HALF)
    exposure = seen.wrong * reached
    if exposure <= 0.0:
        return _SHARE
    observed = seen.gained / exposure
    variance = max(seen.moved, 1.0) / exposure**2
    precision = 1.0 / _SPREAD**2
    return max((_SHARE * precision + observed / variance) / (precision + 1.0 / variance), 0.0)


def teaches(wrong: float, labels: int, seen: TaughtBefore = NOTHING_SEEN) -> float:
    """How many labels of other tasks one more human label is expected to put right.

    ``wrong`` is W, the expected number of wrong labels on open tasks, and ``labels`` is n, the number of
    human labels that have taught already.

    Raises:
        InvalidParameterError: ``wrong`` or ``labels`` is negative.
    """
    if wrong < 0.0 or labels < 0:
        raise InvalidParameterError(f"wrong and labels must be at least 0, got {wrong} and {labels}")
    return wrong * _taught_share(seen) * _HALF / (labels + _HALF) ** 2


def seconds_per_label(lead_times: Sequence[float]) -> float:
    """The mean of lead times in seconds, each counted as five times the median at most, with a prior."""
    longest = _IDLE * float(np.median(lead_times)) if len(lead_times) else 0.0
    total = sum(min(seconds, longest) for seconds in lead_times)
    return (total + _UNKNOWN_LABELS * _UNKNOWN_SECONDS) / (len(lead_times) + _UNKNOWN_LABELS)


TEACHES: Final = 0.25
"""The most that one label teaches, in corrected labels. On real votes a larger value finds fewer wrong labels
without teaching enough in return (docs/review.md)."""

_SIMILARITY_POWER: Final = 8
"""The cosine to this power is the similarity of two tasks: 0.43 for a cosine of 0.9, 0.06 for 0.7."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that no human has labelled.

    Attributes:
        task: its id.
        wrong: the expected number of wrong labels among its questions.
        dispute: the sum of :func:`dispute` over its questions.
    """

    task: int
    wrong: float
    dispute: float

    def most(self, teaches: float = TEACHES) -> float:
        """The largest possible gain of labelling the task, if one label teaches this much at most."""
        return self.wrong + teaches * self.dispute


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A task to label, and why.

    Attributes:
        task: its id.
        wrong: the expected number of wrong labels among its questions.
        lesson: what its labels teach, in corrected labels.
        novelty: how little similar tasks have taught, in [0, 1]; 1 if no similar task has been labelled.
    """

    task: int
    wrong: float
    lesson: float
    novelty: float

    @property
    def gain(self) -> float:
        """The gain of labelling the task, in corrected labels."""
        return self.wrong + self.lesson


def dispute(votes: Mapping[str, str | None], label: str, score: float, arms: int) -> float:
    """How much the votes on one question are in doubt, in [0, 1]: the mean of 4p(1 − p) over all arms.

    p is the probability that an arm's vote is right. It is the score for a vote for ``label``; the other
    answers share 1 − score equally. An arm without a vote counts as certain.
    """
    cast = [vote for vote in votes.values() if vote is not None]
    others = {*cast} - {label}
    chances = [score if vote == label else (1.0 - score) / len(others) for vote in cast]
    return sum(4.0 * p * (1.0 - p) for p in chances) / arms


def suggest(
    candidates: Sequence[Candidate], contexts: Array, labelled: Array, count: int, teaches: float = TEACHES
) -> list[Suggestion]:
    """Choose at most ``count`` tasks to label next, by descending gain; ties go to the lower task id.

    ``contexts`` are the embeddings of the n candidates, shape (n, d), zeros where the text is not embedded,
    and ``labelled`` those of the tasks that humans have labelled, shape (m, d).

    Raises:
        InvalidParameterError: the shapes do not match.
    """
    if contexts.ndim != 2 or labelled.shape[1:] != contexts.shape[1:] or len(contexts) != len(candidates):
        raise InvalidParameterError(
            f"contexts {contexts.shape}, labelled {labelled.shape} do not match {len(candidates)} candidates"
        )
    unit, known = _unit(contexts), _unit(labelled)
    inverse = np.linalg.inv(np.eye(unit.shape[1]) + known.T @ known)
    novelty = np.einsum("nd,nd->n", unit @ inverse, unit)
    embedded = unit.any(axis=1)
    if not embedded.all():  # unknown values of a task are the average of the others
        novelty[~embedded] = novelty[embedded].mean() if embedded.any() else 1.0
    wrong = np.array([candidate.wrong for candidate in candidates], dtype=np.float64)
    lessons = teaches * np.array([candidate.dispute for candidate in candidates], dtype=np.float64)
    numbers = np.array([candidate.task for candidate in candidates])
    similarity = np.zeros(len(candidates))
    remaining = np.ones(len(candidates), dtype=np.bool_)
    suggestions: list[Suggestion] = []
    for _ in range(min(count, len(candidates))):
        gain = np.where(remaining, (wrong + lessons * novelty) * (1.0 - similarity), -np.inf)
        best = np.flatnonzero(gain == gain.max())
        at = int(best[np.argmin(numbers[best])])
        lesson = float(lessons[at] * novelty[at])
        suggestions.append(Suggestion(candidates[at].task, float(wrong[at]), lesson, float(novelty[at])))
        remaining[at] = False
        solved = inverse @ unit[at]
        inverse -= np.outer(solved, solved) / (1.0 + unit[at] @ solved)
        novelty = np.maximum(novelty - (unit @ solved) ** 2 / (1.0 + unit[at] @ solved), 0.0)
        similarity = np.maximum(similarity, np.clip(unit @ unit[at], 0.0, 1.0) ** _SIMILARITY_POWER)
    return suggestions


def _unit(rows: Array) -> Array:
    """Scale rows to length 1; rows of zeros stay as they are."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0.0, length, 1.0), dtype=np.float64)
