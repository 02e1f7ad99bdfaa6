"""A state that gets the next contexts in advance, so that a replay scores and learns faster.

LinUCB reads A⁻¹ only at the contexts that it scores. For m announced contexts these are the m×m values
eᵢᵀA⁻¹eⱼ. A round is a rank-one update of that matrix, and of A⁻¹, which is (d/m)² times as large. A⁻¹
and b are therefore updated only once, after the last announced context, by one product of matrices. Apart
from rounding, the scores equal those of a state that updates A⁻¹ after every round. A server cannot do this,
because it does not know the next tasks.

Announced contexts are matched by identity; callers must not mutate them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.linalg.blas import dger

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Choice, Ensemble, Situation
from camvo.policies.policy import UNREAD, Estimates, Observation, Plan, Policy
from camvo.state.arm import NOT_LINEAR, Arm, Inverse, Update, score
from camvo.state.state import State, check_contexts
from camvo.subsets.oracle import Demand, cheapest_subsets
from camvo.typing import Array


class _AnnouncedContexts:
    """The next m contexts."""

    def __init__(self, contexts: Sequence[Array], dimension: int) -> None:
        self.contexts = check_contexts(contexts, dimension)
        self._objects = tuple(contexts)  # references keep their ids from being reused
        self._rows = {id(context): row for row, context in enumerate(contexts)}

    def rows(self, contexts: Sequence[Array]) -> list[int] | None:
        """Return the rows of these contexts in ``contexts``, or ``None`` if one of them was not announced."""
        try:
            return [self._rows[id(context)] for context in contexts]
        except KeyError:
            return None

    def span(self, contexts: Sequence[Array]) -> slice | None:
        """Return the rows of these contexts, or ``None`` if they are not announced in this order."""
        rows = self.rows(contexts)
        return _span(rows) if rows else None


class _ArmLookahead:
    """One arm's estimates for the announced contexts, and its updates from them that A⁻¹ and b still lack."""

    __slots__ = ("_estimates", "_gram", "_learnt", "_refreshed", "_solved", "announced")

    def __init__(self, announced: _AnnouncedContexts, solved: Array, estimates: Array) -> None:
        self.announced = announced
        self._solved = solved
        self._estimates = estimates
        self._gram: Array | None = None
        self._learnt: list[tuple[int, bool, float]] = []
        self._refreshed = 0

    def learn(self, updates: Sequence[Update]) -> bool:
        """Record updates; false, and nothing is recorded, if a context was not announced."""
        rows = self.announced.rows([context for context, _, _ in updates])
        if rows is None:
            return False
        self._learnt.extend(
            [(row, grows, shift) for row, (_, grows, shift) in zip(rows, updates, strict=True)]
        )
        return True

    def estimates(self) -> Array:
        """Return eᵀA⁻¹b and eᵀA⁻¹e of each context after all recorded updates, shape (2, m)."""
        if self._refreshed < len(self._learnt):
            self._refresh()
        return self._estimates

    def _refresh(self) -> None:
        if self._gram is None:
            self._gram = self.announced.contexts @ self._solved.T
        gram, (q, squares) = self._gram, self._estimates
        for row, grows, shift in self._learnt[self._refreshed :]:
            column, innovation = gram[row], shift
            if grows:
                scale = 1.0 / math.sqrt(1.0 + max(column.item(row), 0.0))
                column, innovation = column * scale, (shift - q.item(row)) * scale
                dger(-1.0, column, column, a=gram.T, overwrite_a=1)
            q += column * innovation
        squares[:] = gram.diagonal()
        self._refreshed = len(self._learnt)

    def settle(self, inverse: Inverse, b: Array) -> None:
        """Apply the recorded updates to A⁻¹ and b in place."""
        contexts = self.announced.contexts
        if growing := [row for row, grows, _ in self._learnt if grows]:
            rows = _span(growing) or growing
            inverse.update(contexts[rows], self._solved[rows], +1)
        if self._learnt:
            learnt = [row for row, _, _ in self._learnt]
            b += np.array([shift for _, _, shift in self._learnt]) @ contexts[_span(learnt) or learnt]


class _LookaheadArm(Arm):
    """An arm that updates A⁻¹ and b only after the announced contexts."""

    lookahead: _ArmLookahead | None = None

    @property
    def inverse(self) -> Inverse:
        """LinUCB's A⁻¹, up to date."""
        self._settle()
        return super().inverse

    @property
    def b(self) -> Array:
        """LinUCB's b, shape (d,), up to date."""
        self._settle()
        return super().b

    def _learn_contexts(self, updates: Sequence[Update], withdrawn: Sequence[Array]) -> None:
        if withdrawn or self.lookahead is None or not self.lookahead.learn(updates):
            self._settle()
            super()._learn_contexts(updates, withdrawn)

    def _settle(self) -> None:
        if self.lookahead is not None:
            self.lookahead.settle(super().inverse, super().b)
            self.lookahead = None


class LookaheadState(State):
    """A :class:`State` to which the next contexts can be announced. It learns the same as any other state."""

    def __init__(self, dimension: int, lambda_l: float = 1.0, *, linear: bool = True) -> None:
        super().__init__(dimension, lambda_l, linear=linear)
        self._announced: _AnnouncedContexts | None = None

    def announce(self, contexts: Sequence[Array]) -> None:
        """Announce the contexts, shape (d,) each, that will be scored next: these same objects, unchanged.

        The state holds K·m·d numbers for them until it scores a context that was not announced.
        """
        self._announced = _AnnouncedContexts(contexts, self.dimension)

    def score(self, arms: Sequence[str], context: Array) -> tuple[Array, Array]:
        """Score as :meth:`State.score` does; an announced context takes a fraction of the time."""
        q, widths = self.score_window(arms, [context])
        return q[0], widths[0]

    def score_window(self, arms: Sequence[str], contexts: Sequence[Array]) -> tuple[Array, Array]:
        """The estimates and widths of :meth:`State.score` for m contexts, shape (m, K) each."""
        if not self.linear:
            raise InvalidParameterError(NOT_LINEAR)
        announced = self._announced
        span = None if announced is None else announced.span(contexts)
        if announced is None or span is None:
            self._announced = announced = _AnnouncedContexts(contexts, self.dimension)
            span = slice(None)
        scored = self._rewarded(arms)
        lookaheads = _lookaheads(
            announced, [arm for arm in scored.values() if isinstance(arm, _LookaheadArm)]
        )
        estimates = np.zeros((len(arms), 2, len(contexts)))
        for position, lookahead in zip(scored, lookaheads, strict=True):
            estimates[position] = lookahead.estimates()[:, span]
        q, squares = estimates.transpose(1, 2, 0)
        return q, np.sqrt(np.maximum(squares, 0.0))

    _arm = _LookaheadArm


def _lookaheads(announced: _AnnouncedContexts, arms: Sequence[_LookaheadArm]) -> list[_ArmLookahead]:
    """Return the lookahead of every arm; the missing ones are computed together."""
    missing = [arm for arm in arms if arm.lookahead is None or arm.lookahead.announced is not announced]
    if missing:
        solved = np.empty((len(missing), *announced.contexts.shape))
        for arm, vectors in zip(missing, solved, strict=True):
            arm.inverse.solve(announced.contexts, vectors)
        estimates = score(solved, np.array([arm.b for arm in missing]), announced.contexts)
        for position, arm in enumerate(missing):
            arm.lookahead = _ArmLookahead(announced, solved[position], estimates[position])
    return [arm.lookahead for arm in arms if arm.lookahead is not None]


def _span(rows: list[int]) -> slice | None:
    """Return consecutive rows as a slice, which indexes without a copy, and ``None`` for other rows."""
    first, end = rows[0], rows[0] + len(rows)
    return slice(first, end) if rows == [*range(first, end)] else None


def plan_window(
    policy: Policy, tasks: Sequence[Mapping[str, Observation]], costs: Mapping[str, float]
) -> list[Plan]:
    """Plan tasks that share questions, states and prices, as ``policy.plan`` plans each of them.

    A :class:`LookaheadState` is scored once for all tasks. A policy that is not an :class:`Ensemble` plans
    them one by one.
    """
    if not costs or not tasks or not tasks[0]:
        raise InvalidParameterError("a window needs at least one model, one task and one question")
    if len(tasks) == 1 or not isinstance(policy, Ensemble):
        return [policy.plan(task, costs) for task in tasks]
    questions = tuple(tasks[0])
    if any(tuple(task) != questions for task in tasks):
        raise InvalidParameterError("tasks that are planned together must have the same questions")
    arms = tuple(sorted(costs))
    by_question = [_estimate(policy, [task[question] for task in tasks], arms) for question in questions]
    situations = [
        Situation(task, costs, dict(zip(questions, row, strict=True)))
        for task, *row in zip(tasks, *by_question, strict=True)
    ]
    choices = _choose(policy, situations)
    return [policy.assemble(*each) for each in zip(situations, choices, strict=True)]


def _estimate(policy: Ensemble, observations: Sequence[Observation], arms: Sequence[str]) -> list[Estimates]:
    """Estimate one question in every task, as ``policy.estimate`` does for each."""
    state = observations[0].state
    if any(other.state is not state for other in observations):
        raise InvalidParameterError("tasks that are planned together must share one state for each question")
    if not isinstance(state, LookaheadState):
        return [policy.estimate(observation, arms) for observation in observations]
    shape = (len(observations), len(arms))
    if policy.linear(observations[0].aggregation):
        q, width = state.score_window(arms, [observation.context for observation in observations])
    else:
        q, width = np.full(shape, UNREAD), np.zeros(shape)
    return policy.estimates(observations, arms, q, width)


def _choose(policy: Ensemble, situations: Sequence[Situation]) -> list[Choice]:
    """Choose the arms to ask first in every task, as ``policy.choose`` does for each."""
    first = situations[0]
    count = len(first.costs)
    if not (isinstance(policy, CaMVo) and policy.searches_table(count)):
        return [policy.choose(situation) for situation in situations]
    demands: list[Demand] = []
    for question, columns in first.estimates.items():
        each = [situation.estimates[question] for situation in situations]
        weights = policy.counted(np.array([one.weights for one in each]), columns.rewards)
        demands.append((np.array([one.lower for one in each]), weights))
    subsets = cheapest_subsets(
        first.prices_with_waits,
        demands,
        policy.delta,
        policy.k_min,
        held=policy.newcomers([*first.estimates.values()]),
    )
    return [policy.choice(subset, count) for subset in subsets]
