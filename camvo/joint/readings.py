"""Rival readings of the votes: when the votes do not tell which arms to believe.

Some arms may agree with one another far more than the model of votes explains, because they follow another
reading of the task, or one another. If their reading explains all votes nearly as well as the model's, the
votes say which labels differ but not which are right, and only human labels decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from camvo.joint.models import Kinds, fit_vote_model, model_by
from camvo.joint.two_coins import TwoCoins
from camvo.joint.votes import Rows, VoteRows, agreement, closest_group, renumber
from camvo.typing import Array

_FEWEST_ROUNDS: Final = 100
_TOGETHER_OF_TWO, _TOGETHER = 0.15, 0.03
"""The least corrected agreement of a group beyond the model's, and one over the root of the rounds.

With more labels, kinds of items explain most agreement of arms that err on the same items.
"""

_LEAST_APART: Final = 0.1
"""The least share of rounds that the two readings label differently."""

_BEARABLE_OF_TWO, _BEARABLE, _ERRORS = 0.35, 0.3, 1.0
"""By how much the model's reading must be more likely, in nats a round that the two label differently, with
a standard error to spare."""


@dataclass(frozen=True, slots=True, eq=False)
class Doubt:
    """A reading of the votes that is nearly as likely as the model's.

    Attributes:
        arms: the positions of the arms that follow it.
        model: the model of the votes in which it is right.
    """

    arms: tuple[int, ...]
    model: TwoCoins | Kinds


def doubt_of(model: TwoCoins | Kinds, votes: VoteRows, labels: int) -> Doubt | None:
    """The reading of the arms that agree most beyond the model, if it is nearly as likely."""
    counted = votes.counts > 0.0
    rows, counts = votes.rows[counted], votes.counts[counted]
    rounds = float(counts.sum())
    if rounds < _FEWEST_ROUNDS or rows.shape[1] < 3 or labels < 2:
        return None
    beyond = (agreement(rows, counts) - model.agreement) * labels / (labels - 1)
    group, together = closest_group(beyond)
    least, bearable = (_TOGETHER_OF_TWO, _BEARABLE_OF_TWO) if labels == 2 else (_TOGETHER, _BEARABLE)
    if len(group) < 2 or together < least + 1.0 / np.sqrt(rounds):
        return None
    ours, theirs = model.beliefs(rows)[0], _reading(group, rows, counts, labels, model.temper)
    apart = float(counts @ (ours.argmax(axis=1) != theirs.argmax(axis=1))) / rounds
    if apart < _LEAST_APART:
        return None
    certain, rival = (model_by(belief, rows, counts, labels, model.temper) for belief in (ours, theirs))
    leads = certain.beliefs(rows)[1] - rival.beliefs(rows)[1]
    lead, error = float(counts @ leads) / rounds, float(np.sqrt(counts @ leads**2)) / rounds
    return Doubt(tuple(group), rival) if lead - _ERRORS * error < bearable * apart else None


def _reading(group: list[int], rows: Rows, counts: Array, labels: int, temper: Array) -> Array:
    """The probability of each number's label by the votes of a group alone, shape (P, G)."""
    among = rows[:, group]
    numbered = among if labels == 2 else renumber(among)
    right, _ = fit_vote_model(numbered, counts, labels, temper[group]).beliefs(numbered)
    belief = np.zeros((len(rows), max(min(rows.shape[1], labels), 2)))
    if labels == 2:
        return right
    for number, label in zip(numbered.T, among.T, strict=True):
        voted = np.flatnonzero(label >= 0)
        belief[voted, label[voted]] = right[voted, number[voted]]
    return belief
