"""One question asked about many tasks: the policy, its prices and its learned state in one object.

A policy works on several questions at once and holds no state, so its callers pass mappings by question and
keep the state themselves. :class:`Question` does both for the usual case of one question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from camvo.errors import InvalidParameterError
from camvo.policies.estimates import Observation
from camvo.policies.joint import Joint
from camvo.policies.policy import Policy
from camvo.questions.task import KEY, Task
from camvo.state.state import State
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE


class Question:
    """One question, the models that can answer it and what has been learned about them.

    To add or remove a model or to change a price, make a new question with the same ``state``. A question
    is not safe to use from several threads at once.

    Args:
        labels: the label set, at least one label and no label twice; the items of a ranking; empty for a
            number or a free text.
        prices: model → expected price of asking it about one task, finite and not negative, in any one unit.
        dimension: d, the length of every embedding. It may be left out if ``state`` is given.
        policy: decides which models to ask and how their votes count; :class:`camvo.Joint` by default.
        aggregation: how votes become one answer; a weighted vote over ``labels`` by default.
        lambda_l: λ_L > 0, the ridge strength of the linear model in a new state; 1 by default.
        state: the state to continue from, for example ``camvo.State.restore(snapshot)``. It is used in
            place, not copied.

    Attributes:
        labels: the label set.
        prices: model → price.
        policy: the policy.
        aggregation: the aggregation.
        state: what has been learned so far. ``state.snapshot()`` saves it.

    Raises:
        InvalidParameterError: an argument is out of its range, or does not fit ``state``.

    >>> import camvo
    >>> answers = {"small": "pos", "large": "pos"}
    >>> question = camvo.Question(("neg", "pos"), prices={"small": 0.1, "large": 5.0}, dimension=3)
    >>> task = question.task([0.6, 0.8, 0.0])
    >>> while models := task.ask():
    ...     task.add({model: answers[model] for model in models})
    >>> label, score = task.decide()
    >>> label, round(score, 2)
    ('pos', 0.9)
    >>> task.learn()
    >>> task.learn(human="neg")  # a person's label, later; it replaces what the votes taught
    >>> snapshot = question.state.snapshot()
    >>> again = camvo.Question(
    ...     ("neg", "pos"), prices={"small": 0.1, "large": 5.0}, state=camvo.State.restore(snapshot)
    ... )
    >>> again.state.rounds
    1
    """

    def __init__(
        self,
        labels: Sequence[str],
        *,
        prices: Mapping[str, float],
        dimension: int | None = None,
        policy: Policy | None = None,
        aggregation: Aggregation = LABEL_VOTE,
        lambda_l: float | None = None,
        state: State | None = None,
    ) -> None:
        self.labels = _checked_labels(labels)
        aggregation.guess(self.labels)  # refuses labels that the aggregation cannot decide between
        self.prices = _checked_prices(prices)
        self.policy: Policy = Joint() if policy is None else policy
        self.aggregation = aggregation
        self.state = _checked_state(state, dimension, lambda_l, linear=self.policy.linear(aggregation))

    def task(self, embedding: ArrayLike) -> Task:
        """Plan one task.

        The plan is frozen: what other tasks teach later does not change it, so any number of tasks may be
        open at the same time.

        Args:
            embedding: the task's embedding, shape (d,), finite. It is copied.

        Raises:
            InvalidParameterError: the embedding has another shape or is not finite, or the policy cannot
                plan for these models and prices.
        """
        try:
            context = np.array(embedding, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidParameterError("the embedding is not an array of numbers") from error
        if context.shape != (self.state.dimension,):
            raise InvalidParameterError(
                f"the embedding has shape {context.shape}, the question expects ({self.state.dimension},)"
            )
        observation = Observation(self.state, context, self.labels, self.aggregation)
        plan = self.policy.plan({KEY: observation}, self.prices)
        return Task(self.policy, plan, self.state, self.labels, self.aggregation)


def _checked_labels(labels: Sequence[str]) -> tuple[str, ...]:
    checked = tuple(labels)
    if isinstance(labels, str) or not all(isinstance(label, str) for label in checked):
        raise InvalidParameterError(f"labels must be a sequence of strings, got {labels!r}")
    if len(set(checked)) < len(checked):
        raise InvalidParameterError(f"labels must differ from each other, got {', '.join(checked)}")
    return checked


def _checked_prices(prices: Mapping[str, float]) -> dict[str, float]:
    if not isinstance(prices, Mapping) or not prices:
        raise InvalidParameterError("prices must map at least one model to its price")
    for model, price in prices.items():
        if not isinstance(price, int | float | np.number) or not (math.isfinite(price) and price >= 0.0):
            raise InvalidParameterError(
                f"the price of {model!r} must be finite and not negative, got {price!r}"
            )
    return {model: float(price) for model, price in prices.items()}


def _checked_state(
    state: State | None, dimension: int | None, lambda_l: float | None, *, linear: bool
) -> State:
    if state is None:
        if dimension is None:
            raise InvalidParameterError(
                "a new question needs the length of its embeddings", fix="pass dimension=, or a state="
            )
        return State(dimension, 1.0 if lambda_l is None else lambda_l, linear=linear)
    if linear and not state.linear:
        raise InvalidParameterError(
            "the state keeps no linear models of the context, which the policy reads",
            fix="make the state with linear=True, or choose another policy",
        )
    parameters = (("dimension", dimension, state.dimension), ("lambda_l", lambda_l, state.lambda_l))
    for name, argument, value in parameters:
        if argument is not None and argument != value:
            raise InvalidParameterError(
                f"{name} is {argument}, but the state has {value}", fix=f"leave out {name}= or state="
            )
    return state
