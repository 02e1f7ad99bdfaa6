"""Replaying a table of votes through a policy: what would it have cost, how right would it have been?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.policies.estimates import Observation
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.replays.lookahead import LookaheadState
from camvo.replays.votes_table import VotesTable
from camvo.replays.windows import plan_window
from camvo.state.contribution import Contribution, revision
from camvo.typing import Array, Votes

_QUESTION = "label"

_AHEAD = 64
"""Items whose contexts are announced together: products of matrices gain little from more."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What a policy did, item by item; every array has shape (n,), ``asked`` (n, K).

    ``labels`` are positions in the table's label set, −1 where no model answered; ``scores`` are NaN there.
    ``trust`` is how far each decision's own score is to be trusted (:class:`camvo.policies.plan.Decision`).
    """

    labels: NDArray[np.int64]
    scores: Array
    costs: Array
    asked: NDArray[np.bool_]
    trust: Array


def replay(
    policy: Policy,
    table: VotesTable,
    *,
    lambda_l: float = 1.0,
    window: int = 1,
    human: NDArray[np.bool_] | None = None,
    progress: Callable[[int], object] | None = None,
) -> Trace:
    """Run a policy over the items in order, learning from them as the backend does.

    Args:
        policy: any policy.
        table: the votes, which the policy sees only where it asks.
        lambda_l: λ_L of the state.
        window: how many items are planned on the same state before it learns from them, in order. The server
            plans like that what arrives together; 1 is the paper.
        human: whether a human labels each item after it was decided, shape (n,): the truth then replaces the
            voted label in the rewards, by the same revision as in the fit hook. Nobody, when left out.
        progress: called with the number of items that were done since the last call.

    Raises:
        InvalidParameterError: the window is smaller than 1, or ``human`` has another shape.

    >>> import camvo
    >>> table = camvo.VotesTable(
    ...     labels=("neg", "pos"),
    ...     prices={"small": 1.0, "large": 9.0},
    ...     contexts=np.ones((2, 3)),
    ...     votes=np.array([[1, 1], [1, 0]]),
    ...     truth=np.array([1, 0]),
    ... )
    >>> trace = camvo.replay(camvo.Single(model="small"), table)
    >>> trace.labels.tolist(), trace.costs.tolist()
    ([1, 1], [1.0, 1.0])
    """
    n = len(table.truth)
    if window < 1:
        raise InvalidParameterError(f"a window holds at least one item, got {window}")
    if human is not None and human.shape != (n,):
        raise InvalidParameterError(f"{n} items, but {human.shape} says who has a human label")
    state = LookaheadState(table.contexts.shape[1], lambda_l)
    positions = {label: position for position, label in enumerate(table.labels)}
    trace = Trace(
        labels=np.full(n, -1),
        scores=np.full(n, np.nan),
        costs=np.zeros(n),
        asked=np.zeros(table.votes.shape, dtype=np.bool_),
        trust=np.zeros(n),
    )
    for items, seen in _windows(state, table, window):
        learnt: list[Contribution] = []
        asked: list[list[bool]] = []
        for item, plan in zip(items, plan_window(policy, seen, table.prices), strict=True):
            votes = _ask(policy, plan, table, item)
            asked.append([arm in votes for arm in table.prices])
            decision = policy.decide(plan, votes).get(_QUESTION)
            if decision is None:
                continue
            trace.labels[item], trace.scores[item] = positions[decision.label], decision.score
            trace.trust[item] = decision.trust
            learnt.append(policy.contribution(plan, _QUESTION, votes, decision.label))
            if human is not None and human[item]:
                truth = table.labels[table.truth[item]]
                taught = policy.contribution(plan, _QUESTION, votes, truth, human=True)
                learnt.append(revision(learnt[-1], taught))
        trace.asked[items.start : items.stop] = asked
        state.add(*learnt)
        if progress is not None:
            progress(len(items))
    trace.costs[:] = trace.asked @ np.array([*table.prices.values()])
    return trace


def _windows(
    state: LookaheadState, table: VotesTable, window: int
) -> Iterator[tuple[range, list[Mapping[str, Observation]]]]:
    """The items that are planned together, and what a policy sees of each; the state knows what is coming."""
    block = window * max(_AHEAD // window, 1)
    for start in range(0, len(table.truth), block):
        contexts = [*table.contexts[start : start + block]]
        state.announce(contexts)
        for first in range(0, len(contexts), window):
            together = contexts[first : first + window]
            items = range(start + first, start + first + len(together))
            yield items, [{_QUESTION: Observation(state, context, table.labels)} for context in together]


def _ask(policy: Policy, plan: Plan, table: VotesTable, item: int) -> Votes:
    """The votes that the policy wants on one item."""
    row = dict(zip(table.prices, table.votes[item].tolist(), strict=True))
    votes: dict[str, dict[str, str]] = {}
    while wanted := policy.ask(plan, votes):
        for arm in wanted:
            votes[arm] = {_QUESTION: table.labels[row[arm]]} if row[arm] >= 0 else {}
    return votes
