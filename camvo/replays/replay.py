"""Replay a table of votes: the decisions and costs of a policy, as if it had queried the models itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.policies.estimates import Observation
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.replays.lookahead import LookaheadState
from camvo.replays.review_queue import ReviewQueue
from camvo.replays.texts.student_arm import QUESTION, StudentArm
from camvo.replays.votes_table import VotesTable
from camvo.replays.windows import plan_window
from camvo.state.contribution import Contribution, revision
from camvo.student.student import STUDENT
from camvo.typing import Array, Confidences, Votes
from camvo.votes.labels import LABEL_VOTE

Answers: TypeAlias = tuple[Votes, Confidences]
"""Votes on one item, and the confidences of those arms that gave one."""

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
        labelled_at: the number of items that had been decided when a human labelled each item, shape (n,); 0
            for items that no human labels.
    """

    labels: NDArray[np.int64]
    scores: Array
    costs: Array
    asked: NDArray[np.bool_]
    trust: Array
    labelled_at: NDArray[np.int64]


def replay(
    policy: Policy,
    table: VotesTable,
    *,
    lambda_l: float = 1.0,
    window: int = 1,
    human: NDArray[np.bool_] | None = None,
    reviewed: float = 0.0,
    complete: bool = False,
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
        reviewed: the share of the decided items that humans label from a review queue, in [0, 1]: after each
            window, those of all unlabelled items that have the lowest scores of the policy.
        complete: whether the models that were left out are asked about every item that a human labels. Their
            votes then teach with the label, and are paid for.
        progress: called after each window with its number of items.
        student: whether the student (:mod:`camvo.student.student`) votes too, for nothing. It is taught by
            the labels that the other models voted for, and by those of humans. It does not appear in the
            trace.

    Returns:
        The decisions, in the order of the table.

    Raises:
        InvalidParameterError: the window is smaller than 1, ``reviewed`` is not in [0, 1], ``human`` does not
            have shape (n,), or names an item whose truth is unknown, or the student has no texts.

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
    human = np.zeros(n, dtype=np.bool_) if human is None else human
    _check_human(human, table.truth)
    queue = ReviewQueue(reviewed)
    state = LookaheadState(table.contexts.shape[1], lambda_l, linear=policy.linear(LABEL_VOTE))
    pupil = StudentArm(state, table) if student else None
    prices = table.prices if pupil is None else {**table.prices, STUDENT: 0.0}
    positions = {label: position for position, label in enumerate(table.labels)}
    trace = Trace(
        labels=np.full(n, -1),
        scores=np.full(n, np.nan),
        costs=np.zeros(n),
        asked=np.zeros(table.votes.shape, dtype=np.bool_),
        trust=np.zeros(n),
        labelled_at=np.zeros(n, dtype=np.int64),
    )
    for items, observations in _windows(state, table, window):
        contributions: list[Contribution] = []
        asked: list[list[bool]] = []
        for item, plan in zip(items, plan_window(policy, observations, prices), strict=True):
            said = _all_answers(table, item, pupil)
            votes, confidences = _ask(policy, plan, said)
            asked.append([arm in votes for arm in table.prices])
            decision = policy.decide(plan, votes, confidences=confidences).get(QUESTION)
            if decision is None:
                continue
            trace.labels[item], trace.scores[item] = positions[decision.label], decision.score
            trace.trust[item] = decision.trust
            taught = policy.contribution(plan, QUESTION, votes, decision.label, confidences=confidences)
            if pupil is not None:
                taught = pupil.taught_too(taught, item, policy, plan, votes, confidences)
            contributions.append(taught)
            if table.truth[item] >= 0:
                truth = table.labels[table.truth[item]]
                answers = said if complete else (votes, confidences)
                correct = partial(_correction, policy, plan, answers, truth, taught, pupil, item)
                if human[item]:
                    contributions.append(correct())
                    trace.labelled_at[item] = item + 1
                else:
                    queue.add(item, decision.score, correct)
        for reviewed_item, correction in queue.due():
            contributions.append(correction())
            trace.labelled_at[reviewed_item] = items.stop
        trace.asked[items.start : items.stop] = asked
        state.add(*contributions)
        state.restart_if_due()
        if progress is not None:
            progress(len(items))
    if complete:
        trace.asked[trace.labelled_at > 0] = True
    trace.costs[:] = trace.asked @ np.array([*table.prices.values()])
    return trace


def _correction(  # noqa: PLR0917 - a round, and whom its label teaches
    policy: Policy,
    plan: Plan,
    answers: Answers,
    truth: str,
    taught: Contribution,
    pupil: StudentArm | None,
    item: int,
) -> Contribution:
    """What a human label changes of what the round taught."""
    votes, confidences = answers
    corrected = policy.contribution(plan, QUESTION, votes, truth, human=True, confidences=confidences)
    if pupil is not None:
        corrected = pupil.taught_by_human(corrected, item, truth)
    return revision(taught, corrected)


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


def _ask(policy: Policy, plan: Plan, said: Answers) -> Answers:
    """Collect the votes that the policy asks for on one item, and their confidences."""
    known, sure = said
    votes: dict[str, Mapping[str, str]] = {}
    confidences: dict[str, Mapping[str, float]] = {}
    while wanted := policy.ask(plan, votes, confidences=confidences):
        votes |= {arm: known[arm] for arm in wanted}
        confidences |= {arm: sure[arm] for arm in wanted if arm in sure}
    return votes, confidences


def _all_answers(table: VotesTable, item: int, pupil: StudentArm | None) -> Answers:
    """The votes of all models and of the student on one item, and the confidences of those that gave one."""
    row = zip(table.prices, table.votes[item].tolist(), strict=True)
    votes = {arm: {QUESTION: table.labels[vote]} if vote >= 0 else {} for arm, vote in row}
    sure = _confidences(table, item)
    if pupil is not None:
        vote = pupil.vote(item)
        votes[STUDENT] = {} if vote is None else {QUESTION: vote.label}
        if vote is not None:
            sure[STUDENT] = vote.confidence
    return votes, {arm: {QUESTION: confidence} for arm, confidence in sure.items() if votes[arm]}


def _confidences(table: VotesTable, item: int) -> dict[str, float]:
    """Model → its confidence in its vote on one item, for the models that gave one."""
    if table.confidences is None:
        return {}
    row = zip(table.prices, table.confidences[item].tolist(), strict=True)
    return {arm: confidence for arm, confidence in row if not math.isnan(confidence)}
