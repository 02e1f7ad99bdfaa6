"""The interface of every policy: which models to ask, how to decide, what to learn.

A policy holds parameters and no state. These four methods are called in turn for each task::

    plan         = policy.plan(observations, costs)         before any model is asked; frozen
    arms         = policy.ask(plan, votes)                  repeatedly, until it returns no arm
    decisions    = policy.decide(plan, votes)               the label and its score, for each question
    contribution = policy.contribution(plan, q, votes, y)   what the state of question q learns from it

The last three also take how sure the models say they are of these votes
(:data:`camvo.typing.Confidences`). A policy may ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from camvo.policies.background_fits import FitData
from camvo.policies.estimates import Observation
from camvo.policies.plan import Plan
from camvo.state.contribution import Contribution
from camvo.typing import NO_CONFIDENCES, Confidences, Votes
from camvo.votes.aggregation import Aggregation
from camvo.votes.decision import Decision


class Policy(Protocol):
    """The interface of every policy; votes are arm → question → label (:data:`camvo.typing.Votes`).

    >>> import camvo
    >>> import numpy as np
    >>> policy: camvo.Policy = camvo.Joint()
    >>> state = camvo.State(dimension=2)
    >>> observations = {"mood": camvo.Observation(state, np.array([1.0, 0.0]), ("neg", "pos"))}
    >>> plan = policy.plan(observations, {"small": 0.1, "large": 5.0})
    >>> votes = {arm: {"mood": "pos"} for arm in policy.ask(plan, {})}
    >>> policy.ask(plan, votes), policy.decide(plan, votes)["mood"].label
    ((), 'pos')
    >>> state.add(policy.contribution(plan, "mood", votes, "pos"))
    """

    def linear(self, aggregation: Aggregation) -> bool:
        """Whether it reads the linear models of the context; if not, the state need not keep them."""
        ...

    def reads_context(self, aggregation: Aggregation) -> bool:
        """Whether it reads the context itself, apart from what a fit reads of it."""
        ...

    def fit_data(self, observation: Observation, costs: Mapping[str, float]) -> FitData | None:
        """The data a background fit would use now, or ``None`` if no fit is needed."""
        ...

    def plan(self, observations: Mapping[str, Observation], costs: Mapping[str, float]) -> Plan:
        """Plan a task from each question's observation and each arm's price in $."""
        ...

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The arms to ask now, given the votes so far; empty if the task can be decided."""
        ...

    def decide(
        self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES
    ) -> dict[str, Decision]:
        """The decision on each question that has a vote."""
        ...

    def contribution(
        self,
        plan: Plan,
        question: str,
        votes: Votes,
        label: str,
        *,
        human: bool = False,
        confidences: Confidences = NO_CONFIDENCES,
    ) -> Contribution:
        """What the state of ``question`` learns if the label is ``label``, a human's or the voted one."""
        ...
