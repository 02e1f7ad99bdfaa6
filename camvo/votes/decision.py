"""The decision on one question after the votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one question and how sure it is.

    Attributes:
        label: the answer, written as a vote.
        score: the probability that the label is right, given the votes. For a number, a ranking or another
            answer with fractional rewards it is the expected reward, in [0, 1].
        posterior: answer → its probability or expected reward. For kinds whose answers cannot be listed it
            holds ``label`` alone.
        trust: the share of ``score`` in the score that is shown, in [0, 1]; the rest is a scorer's, which
            knows votes alone (:mod:`camvo.scores.scorer`). It is 0 if neither human labels nor the task's
            context told the policy anything.

    >>> decision = Decision("pos", 0.9, {"neg": 0.1, "pos": 0.9})
    >>> decision.label, decision.score
    ('pos', 0.9)
    """

    label: str
    score: float
    posterior: Mapping[str, float]
    trust: float = 0.0
