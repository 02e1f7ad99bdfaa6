"""Iterative relabelling: find past rounds whose confidence is too low today (the paper's conclusion).

Early rounds are decided before the policy knows the models. Later the same votes may turn out to be worth
less. If they are no longer confident enough, asking the models that were not asked yet costs less than a new
round.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from camvo.policies.camvo import CaMVo
from camvo.policies.past_rounds.past_round import QUESTION, PastRound
from camvo.state.state import State
from camvo.votes.decision import Decision


@dataclass(frozen=True, slots=True)
class Revisit:
    """A past round whose confidence is too low today.

    Attributes:
        key: the key of the past round.
        confidence: δ_A of its votes under today's state.
        decision: the decision from its votes under today's state; ``None`` if no arm of today's pool voted.
        ask: the arms to ask, in alphabetical order. Empty if all arms were asked already: then only a human
            or a new prompt can help.
    """

    key: str
    confidence: float
    decision: Decision | None
    ask: tuple[str, ...]


def find_revisits(
    policy: CaMVo, state: State, rounds: Iterable[PastRound], *, new_prompt: bool = False
) -> list[Revisit]:
    """Find the past rounds whose confidence under today's state is below the policy's δ.

    The state is not changed. Today's state includes what each round taught, so a round's own votes are part
    of the evidence about the arms that cast them. Votes of arms that have left the pool are ignored.

    Args:
        policy: chooses the arms to ask; its δ is the required confidence.
        state: the question's state today.
        rounds: past rounds on this one question, in any order.
        new_prompt: whether the prompt has changed since. If so, every arm may be asked again, and the old
            votes do not count towards the confidence of the new round. Otherwise only arms that were not
            asked yet are asked, to complete the votes.

    Returns:
        The rounds to revisit, the least confident first.

    Raises:
        InvalidParameterError: a context does not fit the state, or ``costs`` of a round is empty.
    """
    revisits = (_revisit(policy, state, past, new_prompt=new_prompt) for past in rounds)
    return sorted((revisit for revisit in revisits if revisit), key=lambda revisit: revisit.confidence)


def _revisit(policy: CaMVo, state: State, past: PastRound, *, new_prompt: bool) -> Revisit | None:
    """The round's revisit, or ``None`` if its confidence reaches δ."""
    plan = policy.plan({QUESTION: past.observation(state)}, past.costs)
    votes = past.cast
    confidence = policy.confidence_in(plan, votes)
    if confidence >= policy.delta:
        return None
    ask = plan.subset if new_prompt else policy.complement(plan, votes)
    return Revisit(past.key, confidence, policy.decide(plan, votes).get(QUESTION), ask)
