"""Replay a table of votes: the decisions and costs of a policy, as if it had queried the models itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.policies.estimates import Observation
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.replays.lookahead import LookaheadState
from camvo.replays.student_arm import QUESTION, StudentArm
from camvo.replays.votes_table import VotesTable
from camvo.replays.windows import plan_window
from camvo.state.contribution import Contribution, revision
from camvo.student.student import STUDENT
from camvo.typing import Array, Confidences, Votes

_AHEAD = 64
"""The number of contexts that are announced together. More would hardly be faster."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The decisions of a policy on n items, in the order of the replay.

    Attributes:
        labels: positions in the table's label set, shape (n,); −1 where no model answered.
        scores: the policy's own scores in [0, 1], shape (n,); NaN where no model answered.
        costs: the cost of each item, in the unit of the table's prices, shape (n,).
        asked: whether each model was asked, shape (n, K), in the order of the table's prices.
        trust: the trust in each score, in [0, 1], shape (n,) (:class:`camvo.votes.decision.Decision`).
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
    student: bool = False,
) -> Trace:
    """Run a policy over the items in order, and let it learn from them as the backend does.

    Args:
        policy: any policy.
        table: the items. The policy sees only the votes of the models that it asks.
        lambda_l: λ_L > 0, the ridge penalty of the state.
        window: the number of items that are planned on the same state. The state learns from them
            afterwards, in order. The server does this with tasks that arrive together. The paper's value
            is 1.
        human: whether a human labels each item after its decision, shape (n,). The truth then replaces the
            voted label in the rewards, as it does for an annotation on the server. By default no item has a
            human label.
        progress: called after each window with its number of items.
        student: whether the student (:mod:`camvo.student.student`) votes too, for nothing. It is taught by
            the labels that the other models voted for, and by those of humans. It does not appear in the
            trace.

    Returns:
        The decisions, in the order of the table.

    Raises:
        InvalidParameterError: the window is smaller than 1, ``human`` does not have shape (n,), or ``human``
            names an item whose truth is unknown, or the student has no texts.

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
        raise InvalidParameterError(f"window must be at least 1, got {window}")
    if human is not None:
        _check_human(human, table.truth)
    state = LookaheadState(table.contexts.shape[1], lambda_l)
    pupil = StudentArm(state, table) if student else None
    prices = table.prices if pupil is None else {**table.prices, STUDENT: 0.0}
    positions = {label: position for position, label in enumerate(table.labels)}
    trace = Trace(
        labels=np.full(n, -1),
        scores=np.full(n, np.nan),
        costs=np.zeros(n),
        asked=np.zeros(table.votes.shape, dtype=np.bool_),
        trust=np.zeros(n),
    )
    for items, observations in _windows(state, table, window):
        contributions: list[Contribution] = []
        asked: list[list[bool]] = []
        for item, plan in zip(items, plan_window(policy, observations, prices), strict=True):
            votes, confidences = _ask(policy, plan, table, item, pupil)
            asked.append([arm in votes for arm in table.prices])
            decision = policy.decide(plan, votes, confidences=confidences).get(QUESTION)
            if decision is None:
                continue
            trace.labels[item], trace.scores[item] = positions[decision.label], decision.score
            trace.trust[item] = decision.trust
            learn = partial(policy.contribution, plan, QUESTION, votes, confidences=confidences)
            taught = learn(decision.label)
            if pupil is not None:
                taught = pupil.taught_too(taught, item, policy, plan, votes, confidences)
            contributions.append(taught)
            if human is not None and human[item]:
                truth = table.labels[table.truth[item]]
                corrected = learn(truth, human=True)
                if pupil is not None:
                    corrected = pupil.taught_by_human(corrected, item, truth)
                contributions.append(revision(taught, corrected))
        trace.asked[items.start : items.stop] = asked
        state.add(*contributions)
        if progress is not None:
            progress(len(items))
    trace.costs[:] = trace.asked @ np.array([*table.prices.values()])
    return trace


def _check_human(human: NDArray[np.bool_], truth: NDArray[np.int64]) -> None:
    """Check that ``human`` has one value for each item, and names only items whose truth is known."""
    if human.shape != truth.shape:
        raise InvalidParameterError(
            f"human must have shape {truth.shape}, one value for each item; got {human.shape}"
        )
    (unknown,) = np.nonzero(human & (truth < 0))
    if unknown.size:
        raise InvalidParameterError(
            f"human names {unknown.size} items whose truth is unknown; the first is item {unknown[0]}"
        )


def _windows(
    state: LookaheadState, table: VotesTable, window: int
) -> Iterator[tuple[range, list[Mapping[str, Observation]]]]:
    """Yield the items of each window with their observations, and announce their contexts to the state."""
    block = window * max(_AHEAD // window, 1)
    for start in range(0, len(table.truth), block):
        contexts = [*table.contexts[start : start + block]]
        state.announce(contexts)
        for first in range(0, len(contexts), window):
            chunk = contexts[first : first + window]
            items = range(start + first, start + first + len(chunk))
            yield items, [{QUESTION: Observation(state, context, table.labels)} for context in chunk]


def _ask(
    policy: Policy, plan: Plan, table: VotesTable, item: int, pupil: StudentArm | None
) -> tuple[Votes, Confidences]:
    """Collect the votes that the policy asks for on one item, and their confidences."""
    row = dict(zip(table.prices, table.votes[item].tolist(), strict=True))
    sure = _confidences(table, item)
    said = None if pupil is None else pupil.vote(item)
    if said is not None:
        sure[STUDENT] = said.confidence
    votes: dict[str, dict[str, str]] = {}
    confidences: dict[str, dict[str, float]] = {}
    while wanted := policy.ask(plan, votes, confidences=confidences):
        for arm in wanted:
            if arm == STUDENT and pupil is not None:
                votes[arm] = {} if said is None else {QUESTION: said.label}
            else:
                votes[arm] = {QUESTION: table.labels[row[arm]]} if row[arm] >= 0 else {}
            if votes[arm] and arm in sure:
                confidences[arm] = {QUESTION: sure[arm]}
    return votes, confidences


def _confidences(table: VotesTable, item: int) -> dict[str, float]:
    """Model → its confidence in its vote on one item, for the models that gave one."""
    if table.confidences is None:
        return {}
    row = zip(table.prices, table.confidences[item].tolist(), strict=True)
    return {arm: confidence for arm, confidence in row if not math.isnan(confidence)}
