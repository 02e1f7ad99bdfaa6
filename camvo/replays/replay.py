"""Replay a table of votes: the decisions and costs of a policy, as if it had queried the models itself."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.numerics.small import is_known
from camvo.policies import ensemble
from camvo.policies.policy import Observation, Plan, Policy
from camvo.replays.lookahead import LookaheadState, plan_window
from camvo.scores.scorer import GROWTH, MOST_CONFIRMED, MOST_ROUNDS, FinishedRound, Scorer
from camvo.state.contribution import Contribution, revision
from camvo.state.earlier import NOTHING_EARLIER, Earlier
from camvo.state.state import State
from camvo.student import STUDENT, StudentVote, StudiedText, hashed_ngrams, teach
from camvo.twins import once_each
from camvo.typing import Array, Confidences, Votes
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE, OrderedVote


@dataclass(frozen=True, slots=True, eq=False)
class VotesTable:
    """The votes of K models on n items.

    Attributes:
        labels: the label set, M labels.
        prices: model → the cost of asking it about one item. All prices have the same unit.
        contexts: the embeddings of the items, shape (n, d).
        votes: the position of each vote in ``labels``, shape (n, K) in the order of ``prices``; −1 where a
            model gave no vote.
        truth: the position of the right label in ``labels``, shape (n,); −1 if it is unknown.
        confidences: how sure each model says it is of its vote, in [0, 1], shape (n, K); NaN where it says
            nothing. ``None`` if no model does.
        texts: the text of each item, n of them, for the student; ``None`` if there are none.
        aggregation: how the votes become one answer: votes for labels, or for labels on a scale, which is
            then ``labels``.

    Raises:
        InvalidParameterError: the shapes do not agree in n or K, a vote or a truth is no position in the
            labels, or a confidence is outside [0, 1].

    >>> table = VotesTable(
    ...     labels=("neg", "pos"),
    ...     prices={"small": 1.0, "large": 9.0},
    ...     contexts=np.ones((2, 3)),
    ...     votes=np.array([[1, 1], [1, 0]]),
    ...     truth=np.array([1, 0]),
    ... )
    >>> table.full_cost
    10.0
    """

    labels: tuple[str, ...]
    prices: Mapping[str, float]
    contexts: Array
    votes: NDArray[np.int64]
    truth: NDArray[np.int64]
    confidences: Array | None = None
    texts: Sequence[str] | None = None
    aggregation: Aggregation = LABEL_VOTE

    def __post_init__(self) -> None:
        for name, positions in (("votes", self.votes), ("truth", self.truth)):
            _check_positions(name, positions, len(self.labels))
        n = len(self.truth)
        if isinstance(self.aggregation, OrderedVote) and self.aggregation.scale != self.labels:
            raise InvalidParameterError("the labels of a table are those of its scale, in the same order")
        if self.votes.shape != (n, len(self.prices)) or self.contexts.ndim != 2 or len(self.contexts) != n:
            raise InvalidParameterError(
                f"{n} items and {len(self.prices)} models need votes of shape ({n}, {len(self.prices)}) and"
                f" contexts of shape ({n}, d), got {self.votes.shape} and {self.contexts.shape}"
            )
        if self.texts is not None and len(self.texts) != n:
            raise InvalidParameterError(f"{n} items need {n} texts, got {len(self.texts)}")
        if self.confidences is not None:
            if self.confidences.shape != self.votes.shape:
                raise InvalidParameterError(
                    f"confidences must have the shape of the votes, {self.votes.shape};"
                    f" got {self.confidences.shape}"
                )
            given = self.confidences[~np.isnan(self.confidences)]
            if not ((given >= 0.0) & (given <= 1.0)).all():
                raise InvalidParameterError("a confidence must be in [0, 1], or NaN where there is none")

    def take(self, items: NDArray[np.int64]) -> VotesTable:
        """The table of these items, given as positions, in their order."""
        return replace(
            self,
            contexts=self.contexts[items],
            votes=self.votes[items],
            truth=self.truth[items],
            confidences=None if self.confidences is None else self.confidences[items],
            texts=None if self.texts is None else [self.texts[item] for item in items.tolist()],
        )

    @property
    def full_cost(self) -> float:
        """The cost of asking every model about one item, by its cheaper arm, in the unit of the prices."""
        return float(sum(once_each(self.prices).values()))


def _check_positions(name: str, positions: NDArray[np.int64], labels: int) -> None:
    whole = isinstance(positions, np.ndarray) and positions.dtype.kind in "iub"
    if not whole or ((positions < -1) | (positions >= labels)).any():
        raise InvalidParameterError(
            f"{name} must be an array of whole numbers: positions in the labels from 0 to {labels - 1},"
            " or −1 where there is none"
        )


_QUESTION: Final = "label"
"""The name under which the policy sees the table's one question."""


def has_student(policy: Policy, table: VotesTable, wanted: bool | None) -> bool:
    """Whether the student votes in a replay; by default if the policy has one and the table has texts."""
    able = ensemble.has_student(policy) and table.aggregation == LABEL_VOTE
    return able and (table.texts is not None if wanted is None else wanted)


_Answers: TypeAlias = tuple[Votes, Confidences]
"""Votes on one item, and the confidences of those arms that gave one."""


class _StudentArm:
    """The student of one replay."""

    def __init__(self, state: State, table: VotesTable) -> None:
        if table.texts is None:
            raise InvalidParameterError("the student needs the texts of the items")
        self._state = state
        self._ngrams = [hashed_ngrams(text) for text in table.texts]

    def vote(self, item: int) -> StudentVote | None:
        """The student's vote on an item, by the current state; ``None`` if it gives none."""
        student = teach(self._state.texts.lessons)
        return None if student is None else student.vote(self._ngrams[item])

    def studied(self, item: int, policy: Policy, plan: Plan, answers: _Answers) -> StudiedText | None:
        """The item's text, which teaches the student beside the label that the other arms voted for.

        ``None`` if the student has enough texts.
        """
        if self._state.texts.full:
            return None
        votes = {arm: said for arm, said in answers[0].items() if arm != STUDENT}
        sure = {arm: said for arm, said in answers[1].items() if arm != STUDENT}
        decision = policy.decide(plan, votes, confidences=sure).get(_QUESTION)
        return StudiedText(self._ngrams[item], None if decision is None else decision.label)


def _all_answers(table: VotesTable, item: int, pupil: _StudentArm | None) -> _Answers:
    """The votes of all models and of the student on one item, and the confidences of those that gave one."""
    row = zip(table.prices, table.votes[item].tolist(), strict=True)
    votes = {arm: {_QUESTION: table.labels[vote]} if vote >= 0 else {} for arm, vote in row}
    sure = _confidences(table, item)
    if pupil is not None:
        vote = pupil.vote(item)
        votes[STUDENT] = {} if vote is None else {_QUESTION: vote.label}
        if vote is not None:
            sure[STUDENT] = vote.confidence
    return votes, {arm: {_QUESTION: confidence} for arm, confidence in sure.items() if votes[arm]}


def _asked_for(policy: Policy, plan: Plan, said: _Answers) -> _Answers:
    """Collect the votes that the policy asks for on one item, and their confidences."""
    known, sure = said
    votes: dict[str, Mapping[str, str]] = {}
    confidences: dict[str, Mapping[str, float]] = {}
    while wanted := policy.ask(plan, votes, confidences=confidences):
        votes |= {arm: known[arm] for arm in wanted}
        confidences |= {arm: sure[arm] for arm in wanted if arm in sure}
    return votes, confidences


def _confidences(table: VotesTable, item: int) -> dict[str, float]:
    """Model → its confidence in its vote on one item, for the models that gave one."""
    if table.confidences is None:
        return {}
    row = zip(table.prices, table.confidences[item].tolist(), strict=True)
    return {arm: confidence for arm, confidence in row if not math.isnan(confidence)}


_Correction: TypeAlias = Callable[[], Contribution]


class _ReviewQueue:
    """Items by their score. Humans label the lowest until they have labelled a given share of all items."""

    def __init__(self, share: float) -> None:
        if not 0.0 <= share <= 1.0:
            raise InvalidParameterError(f"reviewed must be in [0, 1], got {share}")
        self._share = share
        self._waiting: list[tuple[float, int, _Correction]] = []
        self._added = self._labelled = 0

    def add(self, item: int, score: float, correct: _Correction) -> None:
        """Queue an item."""
        if self._share:
            self._added += 1
            heapq.heappush(self._waiting, (score, item, correct))

    def due(self) -> Iterator[tuple[int, _Correction]]:
        """Take out the items that humans label now, the lowest score first."""
        while self._waiting and self._labelled + 1 <= self._share * self._added:
            self._labelled += 1
            _, item, correct = heapq.heappop(self._waiting)
            yield item, correct


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
        trust: the trust in each score, in [0, 1], shape (n,) (:class:`camvo.votes.aggregation.Decision`).
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
    earlier: Earlier = NOTHING_EARLIER,
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
        student: whether the student (:mod:`camvo.student`) votes too, for nothing. It is taught by
            the labels that the other models voted for, and by those of humans. It is no column of the trace's
            ``asked``. By default it votes if the policy is :class:`camvo.Joint` and the table has texts.
        earlier: what earlier projects taught about the models.

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
    state = LookaheadState(table.contexts.shape[1], lambda_l, linear=policy.linear(table.aggregation))
    state.earlier = earlier
    pupil = _StudentArm(state, table) if has_student(policy, table, student) else None
    trace = Trace.blank(*table.votes.shape)
    run = _Run(policy, table, trace, pupil, human, _ReviewQueue(reviewed), complete)
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
    pupil: _StudentArm | None
    human: NDArray[np.bool_]
    queue: _ReviewQueue
    complete: bool
    positions: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        positions = {label: position for position, label in enumerate(self.table.labels)}
        object.__setattr__(self, "positions", positions)

    def decided(self, items: range, plans: Iterable[Plan]) -> list[Contribution]:
        """Ask and decide about the items of a window, and return what the state learns from them."""
        asked, taught = [], []
        for item, plan in zip(items, plans, strict=True):
            known = _all_answers(self.table, item, self.pupil)
            answers = _asked_for(self.policy, plan, known)
            asked.append([arm in answers[0] for arm in self.table.prices])
            taught += self._learnt(item, plan, known, answers)
        self.trace.asked[items.start : items.stop] = asked
        return taught

    def reviewed(self, decided: int) -> list[Contribution]:
        """Learn from the reviewed labels that are due once ``decided`` items have been decided."""
        taught = []
        for item, correction in self.queue.due():
            taught.append(correction())
            self.trace.labelled_at[item] = decided
        return taught

    def _learnt(self, item: int, plan: Plan, known: _Answers, answers: _Answers) -> list[Contribution]:
        """Write the decision into the trace, and return what it and its human label teach."""
        votes, confidences = answers
        decision = self.policy.decide(plan, votes, confidences=confidences).get(_QUESTION)
        if decision is None:
            return []
        self.trace.labels[item], self.trace.scores[item] = self.positions[decision.label], decision.score
        self.trace.trust[item] = decision.trust
        if said := votes.get(STUDENT):
            self.trace.student[item] = self.positions[said[_QUESTION]]
        taught = self.policy.contribution(plan, _QUESTION, votes, decision.label, confidences=confidences)
        studied = None if self.pupil is None else self.pupil.studied(item, self.policy, plan, answers)
        taught = replace(taught, taught=studied and studied.lesson(None))
        if self.table.truth[item] < 0:
            return [taught]
        correct = partial(self._correction, item, plan, known if self.complete else answers, taught, studied)
        if self.human[item]:
            self.trace.labelled_at[item] = item + 1
            return [taught, correct()]
        self.queue.add(item, decision.score, correct)
        return [taught]

    def _correction(
        self, item: int, plan: Plan, answers: _Answers, taught: Contribution, studied: StudiedText | None
    ) -> Contribution:
        """The correction of a round's contribution by a human label."""
        votes, confidences = answers
        truth = self.table.labels[self.table.truth[item]]
        corrected = self.policy.contribution(
            plan, _QUESTION, votes, truth, human=True, confidences=confidences
        )
        return revision(taught, replace(corrected, taught=studied and studied.lesson(truth)))


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
            yield (
                items,
                [
                    {_QUESTION: Observation(state, context, table.labels, table.aggregation, task=name)}
                    for context, name in zip(chunk, _names(chunk, items), strict=True)
                ],
            )


def _names(contexts: Sequence[Array], items: range) -> list[str]:
    """Names of the items without a context: all of them would explore at once, or none."""
    return ["" if is_known(context) else str(item) for context, item in zip(contexts, items, strict=True)]


def calibrated_scores(
    trace: Trace, table: VotesTable, human: NDArray[np.bool_] | None = None, *, growth: float = GROWTH
) -> Array:
    """The scores by a scorer fitted to earlier rounds (:mod:`camvo.scores.scorer`), NaN without a label.

    These scores, shape (n,), influence no decision, so they can be computed after the replay. ``human`` says
    whether a human labels each item right after its decision, in the place of ``trace.labelled_at``. The
    scorer is fitted again after this relative growth of the number of rounds, or of human labels.
    """
    scores = np.full(len(trace.labels), np.nan)
    arms = tuple(table.prices)
    (items,) = np.nonzero(trace.labels >= 0)
    votes, decided = np.where(trace.asked, table.votes, -1)[items], trace.labels[items]
    if (trace.student >= 0).any():
        arms, votes = (*arms, STUDENT), np.column_stack((votes, trace.student[items]))
    at = trace.labelled_at if human is None else np.where(human, np.arange(len(human)) + 1, 0)
    known_from = _known_from(at[items], items)
    own, trust = trace.scores[items], trace.trust[items]
    unlabelled = _finished_rounds(votes, decided, np.full(len(items), -1), arms, table.labels)
    labelled = _finished_rounds(votes, decided, table.truth[items], arms, table.labels)
    ends = [*_fit_points(known_from, growth), len(items)]
    for start, end in pairwise([0, *ends]):
        (confirmed,) = np.nonzero(known_from <= start)
        latest = sorted({*range(max(0, start - MOST_ROUNDS), start), *confirmed[-MOST_CONFIRMED:].tolist()})
        known = set(confirmed.tolist())
        rounds = [
            replace((labelled if at in known else unlabelled)[at], own=float(own[at]), trust=float(trust[at]))
            for at in latest
        ]
        fitted, some = Scorer.fit(rounds, arms, table.labels), slice(start, end)
        chances = fitted.panel.chances(votes[some], len(table.labels))
        scores[items[some]] = fitted.blend(chances, decided[some], own[some], trust[some])
    return scores


def _known_from(labelled_at: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of n decided items, after how many of them its human label is known; n + 1 for never."""
    known = np.searchsorted(items, labelled_at, side="left")
    return np.where(labelled_at > 0, np.maximum(known, np.arange(len(items)) + 1), len(items) + 1)


def _finished_rounds(
    votes: NDArray[np.int64],
    decided: NDArray[np.int64],
    truth: NDArray[np.int64],
    arms: tuple[str, ...],
    labels: tuple[str, ...],
) -> list[FinishedRound]:
    """Convert rows of label positions to rounds of the scorer; ``truth`` is −1 without a human label."""
    rows = zip(votes.tolist(), decided.tolist(), truth.tolist(), strict=True)
    return [
        FinishedRound(
            {arm: labels[vote] for arm, vote in zip(arms, row, strict=True) if vote >= 0},
            labels[label],
            float(label == right) if right >= 0 else None,
        )
        for row, label, right in rows
    ]


def _fit_points(known_from: NDArray[np.int64], growth: float) -> Iterator[int]:
    """Yield the numbers of rounds after which the scorer is fitted again."""
    fitted_rounds = fitted_labels = 0
    counts = np.searchsorted(np.sort(known_from), np.arange(1, len(known_from)), side="right")
    for rounds, labels in enumerate(counts.tolist(), start=1):
        if rounds - fitted_rounds > growth * fitted_rounds or labels - fitted_labels > growth * fitted_labels:
            fitted_rounds, fitted_labels = rounds, labels
            yield rounds
