"""The panel: how likely each label is right when the models' errors go together, learnt without any truth.

Lemma 1 and :func:`camvo.votes.labels.label_posterior` take errors as independent. They are not: hard texts are hard
for all models, and where models err they err alike, so that scores of 0.99 stand on labels of which 85% are
right. Here every task has its own distribution p of answers, and the truth is one more answer to the task:

- p is drawn from a symmetric Dirichlet distribution over the M labels with total ν: with ν near 0 one label
  has it all, with a larger ν several are plausible to everybody. ν differs between tasks, log-normally.
- a model slips with its own probability ε and names any label at random; else its vote is drawn from p.
- the truth is drawn from p as well, as the vote of a model that slips in 6% of the tasks (:data:`SLIP`).

Where models err independently, ν comes out near 0 and this is the one-coin posterior, with accuracies that
nobody had to know; where they err together, agreement counts for less the more they do. The likelihood of a
vote pattern is exact (:func:`likelihood`): a model's vote depends on p and its slip alone, and integrating p
out leaves sums over how many of a label's votes were no slips. What was asked may depend on earlier votes, as
in sequential voting: the likelihood of what was seen is right all the same.

Votes cannot show what all models misread, such as a convention of the people who label. SLIP stands for it:
between 3% and 6% of the labels of published test sets are contestable, and a score that is too high does more
harm than one that is too low. :mod:`camvo.scores.calibration` learns the rest from human labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.scores.panel_likelihood import NODES, WEIGHTS, Likelihood
from camvo.scores.panel_patterns import tabulate_patterns
from camvo.typing import Array
from camvo.weights.near_copies import merge_copies

SLIP = 0.06
"""How often the truth itself is not what the task's distribution of answers would give."""

USUAL_SLIP, USUAL_DOUBT, USUAL_SPREAD = 0.1, 0.3, 1.0
"""ε, ν and σ before any vote: the centre of the prior, and of what real vote tables show."""


@dataclass(frozen=True, slots=True)
class Panel:
    """What the votes say about the models.

    Attributes:
        arms: the names of the K models.
        seats: which model each of them is a near-copy of (:mod:`camvo.weights.near_copies`), shape (K,).
        slips: ε of each seat, in the order of the seats.
        doubt: the median of ν.
        spread: σ, the standard deviation of ln ν between tasks.
    """

    arms: tuple[str, ...]
    seats: tuple[int, ...]
    slips: tuple[float, ...]
    doubt: float
    spread: float

    @classmethod
    def usual(cls, arms: Sequence[str]) -> Panel:
        """What is believed before any vote."""
        seats = tuple(range(len(arms)))
        return cls(tuple(arms), seats, (USUAL_SLIP,) * len(seats), USUAL_DOUBT, USUAL_SPREAD)

    def chances(self, votes: NDArray[np.int64], labels: int) -> Array:
        """The probability that each label is right, given the votes that came.

        Args:
            votes: the position of each vote in the label set, shape (n, K); −1 where a model gave none.
            labels: M, the number of labels.

        Returns:
            Shape (n, M); rows sum to 1. A row without a vote is uniform.

        Raises:
            InvalidParameterError: the votes have another shape, or one is outside the label set.
        """
        check_panel_votes(votes, self.arms, labels)
        if labels == 1:
            return np.ones((len(votes), 1))
        seen = tabulate_patterns(merge_copies(votes, self.seats))
        named = self._named(seen.rows, labels)[seen.index]
        there = seen.ranked >= 0
        rest = np.maximum(1.0 - named.sum(axis=1), 0.0) / np.maximum(labels - there.sum(axis=1), 1)
        chances = np.repeat(rest[:, None], labels, axis=1)
        item, position = np.nonzero(there)
        chances[item, seen.ranked[item, position]] = named[item, position]
        chances = (1.0 - SLIP) * chances + SLIP / labels
        return np.asarray(chances / chances.sum(axis=1, keepdims=True), dtype=np.float64)

    def posterior(self, votes: Mapping[str, str], labels: Sequence[str]) -> dict[str, float]:
        """:meth:`chances` of one round: label → probability, as :func:`camvo.votes.labels.label_posterior` says it.

        Args:
            votes: arm → label. An arm that the panel does not know is left out.
            labels: the label set.

        Raises:
            InvalidParameterError: a vote outside the label set.
        """
        for arm, vote in votes.items():
            if vote not in labels:
                raise InvalidParameterError(f"the vote of {arm!r} is outside the label set")
        row = tuple([labels.index(votes[arm]) if arm in votes else -1 for arm in self.arms])
        return dict(zip(labels, _chances_of(self, row, len(labels)), strict=True))

    def _named(self, rows: NDArray[np.int64], labels: int) -> Array:
        """For each pattern, the probability that an answer without a slip is its first, second, … label."""
        likelihood = Likelihood(rows, labels)
        doubts = self.doubt * np.exp(self.spread * NODES)
        return likelihood.next_answer(np.array(self.slips), doubts, WEIGHTS)


@lru_cache(maxsize=4096)
def _chances_of(panel: Panel, row: tuple[int, ...], labels: int) -> tuple[float, ...]:
    """The chances of one round: most rounds look like many before them, and the likelihood is not quick."""
    return tuple(panel.chances(np.array([row], dtype=np.int64), labels)[0].tolist())


def check_panel_votes(votes: NDArray[np.int64], arms: Sequence[str], labels: int) -> None:
    """Refuse what are no votes of these models.

    Raises:
        InvalidParameterError: the votes have another shape, or one is outside the label set.
    """
    if votes.ndim != 2 or votes.shape[1] != len(arms) or labels < 1 or votes.max(initial=-1) >= labels:
        raise InvalidParameterError(
            f"votes of shape {votes.shape}, up to {votes.max(initial=-1)}, are none of {len(arms)} models on"
            f" {labels} labels"
        )
