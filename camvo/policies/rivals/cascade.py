"""A cascade with a fixed threshold, as in FrugalGPT: dearer models are asked while the score is low."""

from __future__ import annotations

from dataclasses import dataclass

from camvo.errors import InvalidParameterError
from camvo.policies.baselines import Baseline
from camvo.policies.plan import Plan
from camvo.stages.asking_order import cheapest_first
from camvo.typing import NO_CONFIDENCES, Confidences, Votes


@dataclass(frozen=True, kw_only=True)
class Cascade(Baseline):
    """Ask one model after another, the cheapest first, until every question's score reaches the threshold.

    FrugalGPT (Chen, Zaharia and Zou, 2023) takes the answer of the last model asked and scores it by a
    network trained on labelled answers. There is no such network here, because there are no labels. The label
    is that of Algorithm 2's weighted vote of the models asked so far. Its score is the one-coin posterior
    (:func:`.label_posterior`), which treats errors as independent. All models asked get a reward, including
    those that were asked because the others disagreed.

    Attributes:
        threshold: the score in [0, 1] at which to stop.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.Cascade(threshold=0.8)
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> task = question.task([1.0, 0.0])
    >>> task.ask()
    ('small',)
    >>> task.add({"small": "pos"})
    >>> task.ask()  # the score is 0.75 so far
    ('large',)
    """

    threshold: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.threshold <= 1.0:
            raise InvalidParameterError(f"threshold must be a probability in [0, 1], got {self.threshold}")

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The next model; empty if every question reaches the threshold, or no model is left."""
        decisions = self.decide(plan, votes)
        if len(decisions) == len(plan.estimates) and all(
            decision.score >= self.threshold for decision in decisions.values()
        ):
            return ()
        order, _ = cheapest_first(dict(zip(plan.arms, plan.costs.tolist(), strict=True)))
        return next(((arm,) for arm in order if arm not in votes), ())
