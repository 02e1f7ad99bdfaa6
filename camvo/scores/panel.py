"""The panel: the probability of each label if models' errors are correlated, learnt without ground truth.

Lemma 1 and :func:`.label_posterior` assume that errors are independent. Real errors are correlated: a hard
text is hard for all models, and models that err tend to err alike. Under independence, labels with a score
of 0.99 were right in only 85% of the cases. In the panel every task has its own distribution p of answers,
and the truth is one more answer:

- p is drawn from a symmetric Dirichlet distribution over the M labels with total ν. If ν is near 0, one label
  has all the probability. With a larger ν several labels are plausible to all models. ν varies between tasks
  log-normally.
- A model slips with its own probability ε and then names a label at random. Otherwise its vote is drawn from
  p.
- The truth is drawn from p too, like the vote of a model that slips in 6% of the tasks (:data:`SLIP`).

If models err independently, ν is estimated near 0, and the panel is the one-coin posterior with estimated
accuracies. The more errors are correlated, the less agreement counts. The likelihood of a vote pattern is
exact (:mod:`camvo.scores.panel_likelihood`). A vote depends on p and the model's slip alone, and integrating
p out leaves sums over how many of a label's votes were not slips. Which models are asked may depend on
earlier votes, as where a plan asks one after another; the likelihood stays correct.

Votes cannot reveal what all models misread, such as a convention of the annotators. :data:`SLIP` accounts for
it: between 3% and 6% of the labels of published test sets are contestable, and overconfidence does more harm
than underconfidence. :mod:`camvo.scores.calibration` learns the rest from human labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.scores.near_copies import merge_copies
from camvo.scores.panel_likelihood import NODES, WEIGHTS, PatternLikelihood
from camvo.scores.panel_patterns import tabulate_patterns
from camvo.typing import Array

SLIP = 0.06
"""The probability that the truth is a random label instead of a draw from the task's answers."""

PRIOR_SLIP, PRIOR_DOUBT, PRIOR_SPREAD = 0.1, 0.3, 1.0
"""The prior medians of ε, ν and σ, typical of real vote tables."""


@dataclass(frozen=True, slots=True)
class Panel:
    """The parameters of the panel, estimated from votes.

    Attributes:
        arms: the names of the K models.
        seats: the seat of each model; near-copies share one (:mod:`camvo.scores.near_copies`). Shape (K,).
        slips: ε of each seat, seats ascending.
        doubt: the median of ν over tasks.
        spread: σ, the standard deviation of ln ν over tasks.
    """

    arms: tuple[str, ...]
    seats: tuple[int, ...]
    slips: tuple[float, ...]
    doubt: float
    spread: float

    @classmethod
    def prior(cls, arms: Sequence[str]) -> Panel:
        """The panel before any vote: every parameter at its prior median."""
        seats = tuple(range(len(arms)))
        return cls(tuple(arms), seats, (PRIOR_SLIP,) * len(seats), PRIOR_DOUBT, PRIOR_SPREAD)

    def chances(self, votes: NDArray[np.int64], labels: int) -> Array:
        """Compute the probability that each label is right in n rounds, given the votes.

        Args:
            votes: label positions, shape (n, K); −1 for no vote.
            labels: M, the number of labels.

        Returns:
            The probabilities, shape (n, M); rows sum to 1. A row without a vote is uniform.

        Raises:
            InvalidParameterError: the votes have another shape, or a vote is outside the label set.
        """
        check_panel_votes(votes, self.arms, labels)
        if labels == 1:
            return np.ones((len(votes), 1))
        table = tabulate_patterns(merge_copies(votes, self.seats))
        named = self._next_answer(table.rows, labels)[table.index]
        is_named = table.ranked >= 0
        rest = np.maximum(1.0 - named.sum(axis=1), 0.0) / np.maximum(labels - is_named.sum(axis=1), 1)
        chances = np.repeat(rest[:, None], labels, axis=1)
        item, rank = np.nonzero(is_named)
        chances[item, table.ranked[item, rank]] = named[item, rank]
        chances = (1.0 - SLIP) * chances + SLIP / labels
        return np.asarray(chances / chances.sum(axis=1, keepdims=True), dtype=np.float64)

    def posterior(self, votes: Mapping[str, str], labels: Sequence[str]) -> dict[str, float]:
        """Compute :meth:`chances` of one round, in the form of :func:`camvo.votes.labels.label_posterior`.

        Args:
            votes: arm → label. Arms that the panel does not know are ignored.
            labels: the label set.

        Returns:
            Label → probability; the values sum to 1.

        Raises:
            InvalidParameterError: a vote is outside the label set.
        """
        for arm, vote in votes.items():
            if vote not in labels:
                raise InvalidParameterError(f"the vote of {arm!r} is outside the label set")
        row = tuple([labels.index(votes[arm]) if arm in votes else -1 for arm in self.arms])
        return dict(zip(labels, _chances_of(self, row, len(labels)), strict=True))

    def _next_answer(self, rows: NDArray[np.int64], labels: int) -> Array:
        """The probability that an answer without a slip is the label at each rank, shape (P, K)."""
        likelihood = PatternLikelihood(rows, labels)
        doubts = self.doubt * np.exp(self.spread * NODES)
        return likelihood.next_answer(np.array(self.slips), doubts, WEIGHTS)


@lru_cache(maxsize=4096)
def _chances_of(panel: Panel, row: tuple[int, ...], labels: int) -> tuple[float, ...]:
    """The chances of one round, cached: most rounds repeat earlier ones."""
    return tuple(panel.chances(np.array([row], dtype=np.int64), labels)[0].tolist())


def check_panel_votes(votes: NDArray[np.int64], arms: Sequence[str], labels: int) -> None:
    """Check that votes have shape (n, K) for the K ``arms`` and are below ``labels``.

    Raises:
        InvalidParameterError: the votes have another shape, or a vote is outside the label set.
    """
    if votes.ndim != 2 or votes.shape[1] != len(arms) or labels < 1 or votes.max(initial=-1) >= labels:
        raise InvalidParameterError(
            f"votes of shape {votes.shape} with a maximum of {votes.max(initial=-1)} do not fit"
            f" {len(arms)} models and {labels} labels"
        )
