"""What a policy decides: the plan before anyone is asked, and the decision after the votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from camvo.courses import Courses
from camvo.estimates import Estimates
from camvo.stages import Stages
from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What was known and decided before the first model was asked.

    Attributes:
        arms: the K models that could be asked, in alphabetical order, so that their order in a
            configuration changes nothing.
        costs: the expected price of asking each of them, $, shape (K,).
        estimates: question → the arms' estimates.
        weights: question → the weights that the arms' votes will have, each of shape (K,).
        subset: the models to ask first, in the order of ``arms``.
        confidence: δ_A of the subset on its weakest question; ``None`` where no set reached δ (then all are
            asked) or the policy does not compute it.
        complete: false where the search for the subset ran out of its budget: a cheaper one may exist.
        propensity: the probability with which each arm is asked whatever the votes, shape (K,).
        stages: in which order arms are asked and when to stop, where a policy asks in stages.
    """

    arms: tuple[str, ...]
    costs: Array
    estimates: Mapping[str, Estimates]
    weights: Mapping[str, Array]
    subset: tuple[str, ...]
    confidence: float | None
    propensity: Array
    complete: bool = True
    stages: Stages | Courses | None = None

    def staged(self, stages: Stages | Courses, weights: Mapping[str, Array], chance: float) -> Plan:
        """The same plan with its arms asked in stages.

        Args:
            stages: in which order, and when to stop.
            weights: question → the weights that the arms' votes will have, each of shape (K,).
            chance: the probability with which everyone is asked whatever the votes.
        """
        first = np.array([arm in stages.first for arm in self.arms])
        return replace(
            self,
            weights=weights,
            subset=tuple([arm for arm, there in zip(self.arms, first, strict=True) if there]),
            propensity=np.where(first, 1.0, chance),
            stages=stages,
        )

    def describe(self, question: str) -> dict[str, Any]:
        """The plan for one question as plain JSON: what a round keeps of it (the context is kept beside)."""
        estimates = self.estimates[question]
        columns = {
            "cost": self.costs,
            "propensity": self.propensity,
            "rewards": estimates.rewards,
            "agreement": estimates.agreement,
            "q": estimates.q,
            "lower": estimates.lower,
            "weight": self.weights[question],
            "correctness": estimates.correctness,
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        arms = {arm: dict(zip(columns, row, strict=True)) for arm, row in zip(self.arms, rows, strict=True)}
        described = {
            "labels": list(estimates.labels),
            "subset": list(self.subset),
            "confidence": self.confidence,
            "complete": self.complete,
            "arms": arms,
        }
        if self.stages is not None:
            described |= self.stages.describe(question)
        return described


@dataclass(frozen=True, slots=True)
class Decision:
    """The label of one question; ``score`` is the probability that it is right given the votes that came.

    For a number or a ranking ``label`` is its text, ``score`` the reward it can expect, and ``posterior``
    holds nothing else. ``trust`` in [0, 1] is how far what human labels taught proved right on rounds
    that were held out; 0 where the policy does not learn from them.
    """

    label: str
    score: float
    posterior: Mapping[str, float]
    trust: float = 0.0
