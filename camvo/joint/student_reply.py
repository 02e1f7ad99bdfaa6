"""What the student's reply changes of what is believed.

The student answers before any other arm is asked. So its vote and how sure it is are known when a task is
planned, and become a part of the beliefs. Plans need not know its confidence then.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from camvo.joint.beliefs import Beliefs
from camvo.typing import Array


@lru_cache(maxsize=32)
def told_by_student(beliefs: Beliefs, position: int, log_ratio: float) -> Beliefs:
    """The beliefs once the student has voted, and has said how sure it is.

    Nodes at which it has not voted keep their beliefs about labels. No task comes to them any more.

    Args:
        beliefs: the beliefs at the N nodes by votes alone.
        position: the student's position among the K arms.
        log_ratio: log P(confidence | right) − log P(confidence | wrong), in nats.
    """
    number = beliefs.lattice.rows[:, position]
    (voted,) = np.nonzero(number >= 0)
    odds = np.ones_like(beliefs.right)
    odds[voted, number[voted]] = np.exp(log_ratio)
    # How probable this confidence is at each node, beside one that tells nothing.
    likely: Array = 1.0 + (beliefs.right * (odds - 1.0)).sum(axis=1)
    votes = []
    for level, level_votes in zip(beliefs.lattice.steps, beliefs.votes, strict=True):
        chances = [told * likely[step.following] for step, told in zip(level, level_votes, strict=True)]
        votes.append(tuple([chance / chance.sum(axis=0) for chance in chances]))
    return Beliefs(beliefs.lattice, beliefs.right * odds / likely[:, None], tuple(votes))
