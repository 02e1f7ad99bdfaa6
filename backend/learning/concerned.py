"""The tasks that new labels may concern, by what the votes say, the student's among them.

A label that is split, or from whose tasks a new one takes some, is *near* the new labels. A task is concerned
if the votes leave room for a label that is near: only then may its label be another one now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from backend.ledger.decided import DecidedTask
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE, label_posterior
from camvo.votes.relabelling import Relabelling

_LEAST_CHANCE: Final = 0.1
"""The least probability of a near label with which a task is concerned."""


class Concern:
    """Which tasks of a question may be concerned by new labels.

    Args:
        near: the labels that are near the new ones.
        aggregation: how the question counts votes.
        options: its labels before; empty if it lists none.
        tasks: its tasks, by which models are judged: how often they say what came out.
    """

    def __init__(
        self,
        near: Collection[str],
        aggregation: Aggregation,
        options: Sequence[str],
        tasks: Iterable[DecidedTask],
    ) -> None:
        self._near, self._options = frozenset(near), options
        self._closed = aggregation == LABEL_VOTE
        self._others = Relabelling(aggregation, dict.fromkeys(near), options, self._near)
        self._right = _accuracies(tasks) if near and self._closed else {}

    def __call__(self, task: DecidedTask) -> bool:
        """Whether a task is concerned. What people have said of it decides, unless it is blind."""
        if task.deciding is not None:
            return self.names(task.deciding)
        if self.names(task.label):
            return True
        votes = {arm: vote for arm, vote in task.votes.items() if vote is not None}
        named = any(map(self.names, votes.values()))
        if not named or not self._closed:
            return named
        known = {arm: vote for arm, vote in votes.items() if vote in self._options}
        chances = label_posterior(known, self._right, self._options)
        return sum(chances[label] for label in self._near if label in chances) >= _LEAST_CHANCE

    def names(self, vote: str) -> bool:
        """Whether a label, or an answer, names a label that is near."""
        return self._others.vote_if_valid(vote) is None


def _accuracies(tasks: Iterable[DecidedTask]) -> Mapping[str, float]:
    """Arm → the share of its votes that are the label that came out, with one right and one wrong vote."""
    votes, right = Counter[str](), Counter[str]()
    for task in tasks:
        for arm, vote in task.votes.items():
            votes[arm] += vote is not None
            right[arm] += vote == task.label
    return {arm: (right[arm] + 1.0) / (number + 2.0) for arm, number in votes.items()}
