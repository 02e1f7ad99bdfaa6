"""The plan: what a policy knew and decided before the first model was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from camvo.numerics.significant import significant
from camvo.policies.estimates import Estimates
from camvo.stages.stages import Stages
from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a policy knew and decided before the first model was asked. Frozen.

    Attributes:
        arms: the K models that could be asked, in alphabetical order, so that their order in a
            configuration changes nothing.
        costs: the expected price of asking each of them, $, shape (K,).
        estimates: question → the arms' estimates.
        weights: question → the weights that the arms' votes will have, each of shape (K,).
        subset: the models to ask first, in the order of ``arms``.
        confidence: δ_A of the subset on its weakest question. ``None`` if no set reached δ, so that all arms
            are asked, or if the policy does not compute δ_A.
        complete: whether the search for the subset examined every set that it had to. If not, a cheaper
            subset may exist.
        propensity: the probability that each arm is asked independently of the votes, shape (K,).
        stages: the order in which arms are asked and when to stop; ``None`` if the policy does not ask in
            stages.

    >>> import camvo
    >>> question = camvo.Question(("neg", "pos"), prices={"small": 0.1, "large": 5.0}, dimension=2)
    >>> plan = question.task([1.0, 0.0]).plan
    >>> plan.arms, plan.costs.tolist(), plan.subset
    (('large', 'small'), [5.0, 0.1], ('large', 'small'))
    """

    arms: tuple[str, ...]
    costs: Array
    estimates: Mapping[str, Estimates]
    weights: Mapping[str, Array]
    subset: tuple[str, ...]
    confidence: float | None
    propensity: Array
    complete: bool = True
    stages: Stages | None = None

    def staged(self, stages: Stages) -> Plan:
        """The same plan with its arms asked in stages."""
        first = frozenset(stages.first)
        return replace(
            self,
            subset=tuple([arm for arm in self.arms if arm in first]),
            propensity=np.array([1.0 if arm in first else stages.propensity for arm in self.arms]),
            stages=stages,
        )

    def with_contexts(self, contexts: Mapping[str, Array]) -> Plan:
        """The same plan with contexts that are known only now: question → its context, shape (d,)."""
        estimates = {
            question: replace(columns, context=contexts[question])
            for question, columns in self.estimates.items()
        }
        return replace(self, estimates=estimates)

    def describe(self, question: str) -> dict[str, Any]:
        """The plan for one question as plain JSON, stored with the round. The context is stored apart.

        What a human label may teach later is exact. What is only shown has six significant digits: the rest
        would take most of the round's bytes.
        """
        estimates = self.estimates[question]
        columns = {
            "cost": significant(self.costs),
            "propensity": self.propensity,
            "rewards": estimates.rewards,
            "agreement": estimates.agreement,
            "q": estimates.q,
            "lower": significant(estimates.lower),
            "weight": self.weights[question],
            "correctness": significant(estimates.correctness),
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        arms = {arm: dict(zip(columns, row, strict=True)) for arm, row in zip(self.arms, rows, strict=True)}
        described: dict[str, Any] = {
            "labels": list(estimates.labels),
            "subset": list(self.subset),
            "confidence": self.confidence,
            "complete": self.complete,
            "arms": arms,
        }
        if estimates.histories:
            described["histories"] = dict(estimates.histories)
        if self.stages is not None:
            described |= self.stages.describe(question)
        return described
