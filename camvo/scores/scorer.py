"""The score of a decision: the panel's probability of its label, mapped to how often such were right."""

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
"""A scorer is fitted again when rounds or human labels have become this much more, or fewer."""

MOST_ROUNDS: Final = 2000
"""The latest rounds that it is fitted to: more would hardly change a score."""

MOST_CONFIRMED: Final = 5000
"""The latest rounds with a human label that it is fitted to as well."""


@dataclass(frozen=True, slots=True)
class FinishedRound:
    """A finished round: arm → vote (``None`` for none), the label decided, and how right it was, if known."""

    votes: Mapping[str, str | None]
    label: str
    confirmed: float | None = None


@dataclass(frozen=True, slots=True)
class Scorer:
    """The score of one question's decisions.

    Attributes:
        labels: the label set.
        panel: how the models' errors go together.
        calibration: from the panel's probability to the score; the identity until humans confirmed labels.
    """

    labels: tuple[str, ...]
    panel: Panel
    calibration: Calibration = IDENTITY

    def score(self, votes: Mapping[str, str], label: str) -> float:
        """The probability that ``label`` is right, given the votes.

        Raises:
            InvalidParameterError: a vote outside the label set.
        """
        return float(self.calibration(self.panel.posterior(votes, self.labels)[label]))

    def score_decision(self, votes: Mapping[str, str], decision: Decision) -> float:
        """The score of a decision, :func:`blend_scores` with its own."""
        return float(blend_scores(self.score(votes, decision.label), decision.score, decision.trust))


def blend_scores(scores: ArrayLike, own: ArrayLike, trust: ArrayLike) -> Array:
    """The mean of a scorer's score and the decision's own, where that was learnt from human labels.

    Each of the two knows what the other cannot: the panel how errors go together, the vote who of the models
    is right. Until the latter is trusted in full, it counts for less. All three have one shape.
    """
    share = np.asarray(trust, dtype=np.float64) / 2.0
    return share * np.asarray(own, dtype=np.float64) + (1.0 - share) * np.asarray(scores, dtype=np.float64)


def fit_scorer(rounds: Iterable[FinishedRound], arms: Sequence[str], labels: Sequence[str]) -> Scorer:
    """The scorer that fits the rounds: the panel to all votes, the calibration to what humans confirmed.

    Args:
        rounds: finished rounds, also those in which only some models were asked.
        arms: the names of the K models. Votes of others, and for labels outside the label set, are left out.
        labels: the label set.
    """
    position = {label: at for at, label in enumerate(labels)}
    known = [one for one in rounds if one.label in position]
    rows = [[position.get(one.votes.get(arm) or "", -1) for arm in arms] for one in known]
    votes = np.array(rows, dtype=np.int64).reshape(len(known), len(arms))
    panel = panel_fit.fit_panel(votes, arms, len(labels))
    checked = [at for at, one in enumerate(known) if one.confirmed is not None]
    decided = [position[known[at].label] for at in checked]
    chances = panel.chances(votes[checked], len(labels))[np.arange(len(checked)), decided]
    right = [known[at].confirmed for at in checked]
    return Scorer(
        tuple(labels), panel, calibration.fit_calibration(chances, np.array(right, dtype=np.float64))
    )
