"""Replay a table of votes: the decisions and costs of a policy, as if it had queried the models itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.policies.estimates import Observation
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.replays.item_answers import Answers, all_answers, asked_for
from camvo.replays.lookahead import LookaheadState
from camvo.replays.review_queue import ReviewQueue
from camvo.replays.texts.student_arm import QUESTION, StudentArm, has_student
from camvo.replays.votes_table import VotesTable
from camvo.replays.windows import plan_window
from camvo.state.contribution import Contribution, revision
from camvo.student.taught_texts import STUDENT
from camvo.typing import Array
from camvo.votes.labels import LABEL_VOTE

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
        student: positions in the table's label set of what the student said, shape (n,); −1 where it was
            silent, or does not vote.
    """

    labels: NDArray[np.int64]
    scores: Array
    costs: Array
    asked: NDArray[np.bool_]
    trust: Array
    labelled_at: NDArray[np.int64]
    student: NDArray[np.int64]

    @classmethod
    def blank(cls, items: int, models: int) -> Trace:
        """The trace of n items about which none of K models was asked yet."""
        return cls(
            labels=np.full(items, -1),
            scores=np.full(items, np.nan),
            costs=np.zeros(items),
            asked=np.zeros((items, models), dtype=np.bool_),
            trust=np.zeros(items),
            labelled_at=np.zeros(items, dtype=np.int64),
            student=np.full(items, -1),
        )


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
    student: bool | None = None,
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
            the labels that the other models voted for, and by those of humans. It is no column of the trace's
            ``asked``. By default it votes if the policy is :class:`camvo.Joint` and the table has texts.

    Returns:
        The decisions, in the order of the table.

    Raises:
        InvalidParameterError: the window is smaller than 1, ``reviewed`` is not in [0, 1], ``human`` does not
            have shape (n,), or names an item whose truth is unknown, the student has no texts, or a model
            has the student's name.

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
    if window < 1:
        raise InvalidParameterError(f"window must be at least 1, got {window}")
    if STUDENT in table.prices:
        raise InvalidParameterError(f"{STUDENT!r} is the name of the student", fix="rename the model")
    human = np.zeros(len(table.truth), dtype=np.bool_) if human is None else human
    _check_human(human, table.truth)
    state = LookaheadState(table.contexts.shape[1], lambda_l, linear=policy.linear(LABEL_VOTE))
    pupil = StudentArm(state, table) if has_student(policy, table, student) else None
    trace = Trace.blank(*table.votes.shape)
    run = _Run(policy, table, trace, pupil, human, ReviewQueue(reviewed), complete)
    prices = table.prices if pupil is None else {**table.prices, STUDENT: 0.0}
    for items, observations in _windows(state, table, window):
        plans = plan_window(policy, observations, prices)
        state.add(*run.decided(items, plans), *run.reviewed(items.stop))
        state.restart_if_due()
        if progress is not None:
            progress(len(items))
    if complete:
        trace.asked[trace.labelled_at > 0] = True
    trace.costs[:] = trace.asked @ np.array([*table.prices.values()])
    return trace


@dataclass(frozen=True, slots=True)
class _Run:
    """One replay: it writes the decisions into the trace and returns what they teach.

    The attributes are as in :func:`replay`; ``queue`` holds the items that wait for a review.
    """

    policy: Policy
    table: VotesTable
    trace: Trace
    pupil: StudentArm | None
    human: NDArray[np.bool_]
    queue: ReviewQueue
    complete: bool
    positions: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        positions = {label: position for position, label in enumerate(self.table.labels)}
        object.__setattr__(self, "positions", positions)

    def decided(self, items: range, plans: Iterable[Plan]) -> list[Contribution]:
        """Ask and decide about the items of a window, and return what the state learns from them."""
        asked, taught = [], []
        for item, plan in zip(items, plans, strict=True):
            known = all_answers(self.table, item, self.pupil)
            answers = asked_for(self.policy, plan, known)
            asked.append([arm in answers[0] for arm in self.table.prices])
            taught += self._learnt(item, plan, known, answers)
        self.trace.asked[items.start : items.stop] = asked
        return taught

    def reviewed(self, decided: int) -> list[Contribution]:
        """What the human labels from the review queue teach, once so many items have been decided."""
        taught = []
        for item, correction in self.queue.due():
            taught.append(correction())
            self.trace.labelled_at[item] = decided
        return taught

    def _learnt(self, item: int, plan: Plan, known: Answers, answers: Answers) -> list[Contribution]:
        """Write the decision into the trace, and return what it and its human label teach."""
        votes, confidences = answers
        decision = self.policy.decide(plan, votes, confidences=confidences).get(QUESTION)
        if decision is None:
            return []
        self.trace.labels[item], self.trace.scores[item] = self.positions[decision.label], decision.score
        self.trace.trust[item] = decision.trust
        if said := votes.get(STUDENT):
            self.trace.student[item] = self.positions[said[QUESTION]]
        taught = self.policy.contribution(plan, QUESTION, votes, decision.label, confidences=confidences)
        if self.pupil is not None:
            taught = self.pupil.taught_too(taught, item, self.policy, plan, votes, confidences)
        if self.table.truth[item] < 0:
            return [taught]
        correct = partial(self._correction, item, plan, known if self.complete else answers, taught)
        if self.human[item]:
            self.trace.labelled_at[item] = item + 1
            return [taught, correct()]
        self.queue.add(item, decision.score, correct)
        return [taught]

    def _correction(self, item: int, plan: Plan, answers: Answers, taught: Contribution) -> Contribution:
        """What a human label changes of what the round taught."""
        votes, confidences = answers
        truth = self.table.labels[self.table.truth[item]]
        corrected = self.policy.contribution(
            plan, QUESTION, votes, truth, human=True, confidences=confidences
        )
        if self.pupil is not None:
            corrected = self.pupil.taught_by_human(corrected, item, truth)
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
