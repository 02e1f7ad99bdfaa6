"""Whom a plan asks about tasks whose votes are all known: many tasks at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from camvo.joint.plans.worth import Worth
from camvo.joint.vote_rows import Rows, renumber
from camvo.numerics.tolerances import TIE
from camvo.state.vote_patterns import UNASKED


def walk(plan: Worth, votes: Rows, floor: float = -np.inf) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Follow a plan, without confidences and about one question.

    It is what :func:`camvo.stages.stages.next_arms` asks for.

    Args:
        plan: the plan.
        votes: each task's votes, shape (n, K) in the order of the plan's arms, as in vote rows.
        floor: what a task without any vote is worth, in the unit of the plan.

    Returns:
        Which arms are asked about each task, shape (n, K); and whether the plan ends by asking all arms, also
        those that it does not know, shape (n,).
    """
    lattice = plan.beliefs.lattice
    asked = np.zeros(votes.shape, dtype=np.bool_)
    finished = np.zeros(len(votes), dtype=np.bool_)
    going = np.arange(len(votes))
    while len(going):
        cast = np.where(asked[going], votes[going], UNASKED)
        nodes = lattice.find(cast if lattice.named else renumber(cast))
        values = np.where(asked[going], -np.inf, plan.asking[nodes])
        best = values.argmax(axis=1)
        gains = values[np.arange(len(going)), best]
        stopping = np.maximum(plan.stopping[nodes], floor)
        if plan.finishing is not None:
            finished[going] = plan.finishing[nodes] >= np.maximum(gains, stopping) - TIE
        further = (gains > stopping + TIE) & ~finished[going]
        asked[going[further], best[further]] = True
        going = going[further]
    return asked, finished
