"""The interface of every policy: whom to ask, how to decide, what to learn.

A policy holds parameters and no state. For each task its four methods are called in turn::

    plan         = policy.plan(observations, costs)         before anyone is asked; frozen
    arms         = policy.ask(plan, votes)                  again and again, until nobody is left to ask
    decisions    = policy.decide(plan, votes)               the label and its score, for each question
    contribution = policy.contribution(plan, q, votes, y)   what the state of question q learns from it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from camvo.policies.background_fits import Material
from camvo.policies.estimates import Observation
from camvo.policies.plan import Plan
from camvo.state.contribution import Contribution
from camvo.typing import Votes
from camvo.votes.decision import Decision


class Policy(Protocol):
    """The interface of every policy; votes are arm → question → label (:data:`camvo.typing.Votes`).

    >>> import camvo
    >>> import numpy as np
    >>> policy: camvo.Policy = camvo.Sequential()
    >>> state = camvo.State(dimension=2)
    >>> seen = {"mood": camvo.Observation(state, np.array([1.0, 0.0]), ("neg", "pos"))}
    >>> plan = policy.plan(seen, {"small": 0.1, "large": 5.0})
    >>> votes = {arm: {"mood": "pos"} for arm in policy.ask(plan, {})}
    >>> policy.ask(plan, votes), policy.decide(plan, votes)["mood"].label
    ((), 'pos')
    >>> state.add(policy.contribution(plan, "mood", votes, "pos"))
    """

    def material(self, seen: Observation, costs: Mapping[str, float]) -> Material | None:
        """What a :class:`Study` of the question would be made of by now; ``None`` where there is no need."""
        ...

    def plan(self, observations: Mapping[str, Observation], costs: Mapping[str, float]) -> Plan:
        """Decide whom to ask first, from each question's observation and each arm's price in $."""
        ...

    def plan_window(
        self, tasks: Sequence[Mapping[str, Observation]], costs: Mapping[str, float]
    ) -> list[Plan]:
        """The plans of several tasks with the same questions, states and prices; as :meth:`plan` of each."""
        ...

    def ask(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The arms to ask now, given the votes so far; nobody means that the task is decided."""
        ...

    def decide(self, plan: Plan, votes: Votes) -> dict[str, Decision]:
        """The decision on each question that has a vote."""
        ...

    def contribution(
        self, plan: Plan, question: str, votes: Votes, label: str, *, human: bool = False
    ) -> Contribution:
        """What the state of ``question`` learns when its label is ``label``."""
        ...
