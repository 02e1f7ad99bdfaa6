"""Whom a plan of the joint policy asks about tasks whose votes are all known: many tasks at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from camvo.joint.joint_fit import JointFit
from camvo.joint.plans.worth import Worth
from camvo.joint.vote_rows import Rows, renumber
from camvo.numerics.tolerances import TIE
from camvo.state.vote_patterns import UNASKED


def walk(fit: JointFit, worth: Worth, rows: Rows, cheapest: int) -> NDArray[np.bool_]:
    """Which arms are asked about each task, shape (n, K), if no round asks everyone.

    It is what :func:`camvo.stages.joint_stages.next_arms` asks for, without confidences, about one question.

    Args:
        fit: the fit; its arms are sorted by name.
        worth: the plan over its shortlist.
        rows: each task's votes, shape (n, K) in the order of ``fit.arms``, as in vote rows.
        cheapest: the position of the arm that is asked where nothing is worth its price and nobody voted.
    """
    lattice, positions = worth.beliefs.lattice, [fit.arms.index(arm) for arm in fit.shortlist]
    votes, floor = rows[:, positions], 1.0 / len(fit.labels)
    asked = np.zeros(votes.shape, dtype=np.bool_)
    going = np.arange(len(rows))
    while len(going):
        cast = np.where(asked[going], votes[going], UNASKED)
        nodes = lattice.find(cast if lattice.named else renumber(cast))
        values = np.where(asked[going], -np.inf, worth.asking[nodes])
        best = values.argmax(axis=1)
        gains = values[np.arange(len(going)), best]
        further = gains > np.maximum(worth.stopping[nodes], floor) + TIE
        asked[going[further], best[further]] = True
        going = going[further]
    everywhere = np.zeros(rows.shape, dtype=np.bool_)
    everywhere[:, positions] = asked
    _ask_until_somebody_votes(everywhere, rows, cheapest)
    return everywhere


def _ask_until_somebody_votes(asked: NDArray[np.bool_], rows: Rows, cheapest: int) -> None:
    """A task without any vote goes on to the cheapest arm; whoever is silent there is a rare case."""
    without = ~(asked & (rows >= 0)).any(axis=1)
    asked[without, cheapest] = True
