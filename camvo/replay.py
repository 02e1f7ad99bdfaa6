"""Replaying a table of votes through a policy: what would it have cost, how right would it have been?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.estimates import Observation
from camvo.policy import Policy
from camvo.state import State
from camvo.typing import Array

_QUESTION = "label"


@dataclass(frozen=True, slots=True, eq=False)
class VotesTable:
    """The votes of K models on n items, as if all of them had been asked.

    Attributes:
        labels: the label set, M labels.
        prices: model → what asking it about one item costs, in any one unit.
        contexts: the items' embeddings, shape (n, d).
        votes: the position of each vote in ``labels``, shape (n, K) in the order of ``prices``; −1 where a
            model gave no answer.
        truth: the position of the right label, shape (n,).
    """

    labels: tuple[str, ...]
    prices: Mapping[str, float]
    contexts: Array
    votes: NDArray[np.int64]
    truth: NDArray[np.int64]

    def __post_init__(self) -> None:
        n = len(self.truth)
        if self.votes.shape != (n, len(self.prices)) or self.contexts.ndim != 2 or len(self.contexts) != n:
            raise InvalidParameterError(
                f"{n} items and {len(self.prices)} models, but votes {self.votes.shape}"
                f" and contexts {self.contexts.shape}"
            )

    @property
    def full_cost(self) -> float:
        """What asking every model about one item costs."""
        return float(sum(self.prices.values()))


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What a policy did, item by item; every array has shape (n,), ``asked`` (n, K).

    ``labels`` are positions in the table's label set, −1 where no model answered; ``scores`` are NaN there.
    """

    labels: NDArray[np.int64]
    scores: Array
    costs: Array
    asked: NDArray[np.bool_]


def replay(policy: Policy, table: VotesTable, *, lambda_l: float = 1.0) -> Trace:
    """Run a policy over the items in order, label-free, learning from each before the next.

    Args:
        policy: any policy.
        table: the votes, which the policy sees only where it asks.
        lambda_l: λ_L of the state.
    """
    arms = tuple(table.prices)
    state = State(table.contexts.shape[1], lambda_l)
    labels = np.full(len(table.truth), -1)
    scores, costs = np.full(len(labels), np.nan), np.zeros(len(labels))
    asked = np.zeros(table.votes.shape, dtype=np.bool_)
    for item, (context, row) in enumerate(zip(table.contexts, table.votes.tolist(), strict=True)):
        plan = policy.plan({_QUESTION: Observation(state, context, table.labels)}, table.prices)
        votes: dict[str, dict[str, str]] = {}
        while wanted := policy.ask(plan, votes):
            for arm in wanted:
                position = arms.index(arm)
                vote = row[position]
                votes[arm] = {_QUESTION: table.labels[vote]} if vote >= 0 else {}
                asked[item, position] = True
                costs[item] += table.prices[arm]
        decision = policy.decide(plan, votes).get(_QUESTION)
        if decision is None:
            continue
        labels[item], scores[item] = table.labels.index(decision.label), decision.score
        state.add(policy.contribution(plan, _QUESTION, votes, decision.label))
    return Trace(labels, scores, costs, asked)
