"""Count again: what today's state makes of the votes of a past round. No model is asked.

A round is decided by what was known when it ended. Rounds and human labels since then show what votes are
worth. The votes are kept, so counting them again costs nothing.
"""

from __future__ import annotations

from camvo.policies.past_rounds.past_round import QUESTION, PastRound
from camvo.policies.policy import Policy
from camvo.state.state import State
from camvo.votes.decision import Decision


def recount(policy: Policy, state: State, past: PastRound) -> Decision | None:
    """Decide a past round again, by the votes that were cast and by what the state knows today.

    The state is not changed. It contains what the round itself taught, as for every other round. A fit that
    the policy needs is computed for the first round and kept for the others of the same labels and arms.

    Args:
        policy: the project's policy of today.
        state: the question's state of today.
        past: the round; votes of arms outside its ``costs`` are ignored.

    Returns:
        The decision; ``None`` if no arm of ``costs`` voted.

    Raises:
        InvalidParameterError: the context does not fit the state, or ``costs`` is empty.

    >>> import camvo
    >>> import numpy as np
    >>> policy, east = camvo.Baseline(), np.array([1.0, 0.0])
    >>> question = camvo.Question(("neg", "pos"), prices={"a": 1.0, "b": 1.0}, dimension=2, policy=policy)
    >>> past = PastRound(east, {"a": "neg", "b": "pos"}, ("neg", "pos"), {"a": 1.0, "b": 1.0})
    >>> recount(policy, question.state, past).label
    'neg'
    >>> for _ in range(20):  # "b" turns out to be right, and "a" wrong
    ...     task = question.task(east)
    ...     task.add({"a": "neg", "b": "pos"})
    ...     task.learn(human="pos")
    >>> recount(policy, question.state, past).label
    'pos'
    """
    plan = policy.plan({QUESTION: past.observation(state)}, past.costs)
    return policy.decide(plan, past.cast, confidences=past.sure).get(QUESTION)
