"""The score of a decision: the panel's probability of its label, calibrated on human labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from camvo.scores import calibration, panel_fit
from camvo.scores.calibration import IDENTITY, Calibration
from camvo.scores.panel import Panel
from camvo.typing import Array
from camvo.votes.decision import Decision

GROWTH: Final = 0.1
"""A scorer is refitted when the number of rounds or of human labels has changed by this share."""

MOST_ROUNDS: Final = 2000
"""A scorer is fitted to this many of the latest rounds; more would hardly change a score."""

MOST_CONFIRMED: Final = 5000
"""A scorer is also fitted to this many of the latest rounds with a human label."""


@dataclass(frozen=True, slots=True)
class FinishedRound:
    """A finished round on one question.

    Attributes:
        votes: arm → vote, or ``None`` if the arm gave no vote.
        label: the label that was decided.
        confirmed: the reward of the label by a human's answer, in [0, 1]; ``None`` without one.
    """

    votes: Mapping[str, str | None]
    label: str
    confirmed: float | None = None


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores the decisions on one question.

    Attributes:
        labels: the label set.
        panel: the model of correlated errors.
        calibration: the map from the panel's probability to the score; the identity without human labels.

    >>> from camvo.scores.panel import Panel
    >>> scorer = Scorer(("neg", "pos"), Panel.prior(("a", "b", "c")))
    >>> round(scorer.score({"a": "pos", "b": "pos", "c": "neg"}, "pos"), 2)
    0.71
    """

    labels: tuple[str, ...]
    panel: Panel
    calibration: Calibration = IDENTITY

    def score(self, votes: Mapping[str, str], label: str) -> float:
        """Compute the calibrated probability that ``label`` is right, given arm → vote.

        Raises:
            InvalidParameterError: a vote is outside the label set.
        """
        return float(self.calibration(self.panel.posterior(votes, self.labels)[label]))

    def score_decision(self, votes: Mapping[str, str], decision: Decision) -> float:
        """Compute the score of a decision: :func:`blend_scores` of :meth:`score` and the decision's own."""
        return float(blend_scores(self.score(votes, decision.label), decision.score, decision.trust))


def blend_scores(scores: ArrayLike, own: ArrayLike, trust: ArrayLike) -> Array:
    """Blend the scorer's score with the decision's own score, which human labels or contexts taught.

    The two complement each other: the panel knows how errors are correlated, the fitted vote knows which
    models are right, and what the task's context says.

    Args:
        scores: the scorer's scores, in [0, 1], any shape.
        own: the decisions' own scores, in [0, 1], of the same shape.
        trust: the share of the own scores, in [0, 1], of the same shape.

    Returns:
        The blended scores, of the same shape.
    """
    share = np.asarray(trust, dtype=np.float64)
    return share * np.asarray(own, dtype=np.float64) + (1.0 - share) * np.asarray(scores, dtype=np.float64)


def fit_scorer(rounds: Iterable[FinishedRound], arms: Sequence[str], labels: Sequence[str]) -> Scorer:
    """Fit a scorer: the panel to all votes, the calibration to human labels.

    Args:
        rounds: finished rounds, including those in which only some models were asked. Rounds whose label is
            not in the label set are ignored.
        arms: the names of the K models. Votes of other models, and votes outside the label set, are ignored.
        labels: the label set.
    """
    position = {label: at for at, label in enumerate(labels)}
    known = [finished for finished in rounds if finished.label in position]
    rows = [[position.get(finished.votes.get(arm) or "", -1) for arm in arms] for finished in known]
    votes = np.array(rows, dtype=np.int64).reshape(len(known), len(arms))
    panel = panel_fit.fit_panel(votes, arms, len(labels))
    checked = [at for at, finished in enumerate(known) if finished.confirmed is not None]
    decided = [position[known[at].label] for at in checked]
    chances = panel.chances(votes[checked], len(labels))[np.arange(len(checked)), decided]
    right = [known[at].confirmed for at in checked]
    return Scorer(
        tuple(labels), panel, calibration.fit_calibration(chances, np.array(right, dtype=np.float64))
    )
