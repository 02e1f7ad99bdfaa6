"""Iterative relabelling: past rounds that today's state would not be content with (the paper's conclusion).

Early rounds are decided by models nobody knows yet. Once more is known, the same votes are worth more or
less: where they are no longer confident enough, asking whoever was not asked yet is cheaper than a new round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from camvo.policies.camvo import CaMVo
from camvo.policies.estimates import Observation
from camvo.state.state import State
from camvo.typing import Array
from camvo.votes.aggregation import Aggregation
from camvo.votes.decision import Decision
from camvo.votes.labels import LABEL_VOTE

_QUESTION = "label"


@dataclass(frozen=True, slots=True, eq=False)
class PastRound:
    """What is stored of one decided round.

    Attributes:
        key: whatever identifies the round to the caller.
        context: the embedding, shape (d,).
        votes: arm → its vote, ``None`` for an arm that was asked and gave none.
        labels: the label set, or the items that were ranked.
        costs: what asking each of today's arms about it would cost, $.
        aggregation: how votes on it are counted.
    """

    key: str
    context: Array
    votes: Mapping[str, str | None]
    labels: tuple[str, ...]
    costs: Mapping[str, float]
    aggregation: Aggregation = LABEL_VOTE


@dataclass(frozen=True, slots=True)
class Revisit:
    """A past round that is worth another look.

    Attributes:
        key: the round's.
        confidence: δ_A of its votes under today's state.
        decision: what its votes say under today's state, ``None`` where none of today's arms voted.
        ask: the arms to ask, in alphabetical order; nobody where all were asked already, so that only a human
            or a new prompt can help.
    """

    key: str
    confidence: float
    decision: Decision | None
    ask: tuple[str, ...]


def revisit(
    policy: CaMVo, state: State, rounds: Iterable[PastRound], *, new_prompt: bool = False
) -> list[Revisit]:
    """The rounds whose confidence under today's state is below the policy's δ, least confident first.

    Nothing is changed. What a round taught is part of today's state, so its own votes are among the evidence
    for the arms that cast them. Votes of arms that are not among its ``costs`` are not counted: they left.

    Args:
        policy: its δ is the confidence asked for; it chooses whom to ask.
        state: of the question, as it is today.
        rounds: of one question, in any order.
        new_prompt: the votes were given to a prompt that is not used any more, so every arm may be asked
            again and the votes do not count towards the new round's confidence. Otherwise the arms that
            were not asked yet are to complete the votes that are there.
    """
    found = (_look(policy, state, past, new_prompt=new_prompt) for past in rounds)
    return sorted((again for again in found if again), key=lambda again: again.confidence)


def _look(policy: CaMVo, state: State, past: PastRound, *, new_prompt: bool) -> Revisit | None:
    seen = Observation(state, past.context, past.labels, past.aggregation)
    plan = policy.plan({_QUESTION: seen}, past.costs)
    votes = {
        arm: {} if vote is None else {_QUESTION: vote}
        for arm, vote in past.votes.items()
        if arm in past.costs
    }
    confidence = policy.confidence_in(plan, votes)
    if confidence >= policy.delta:
        return None
    ask = plan.subset if new_prompt else policy.complement(plan, votes)
    return Revisit(past.key, confidence, policy.decide(plan, votes).get(_QUESTION), ask)
