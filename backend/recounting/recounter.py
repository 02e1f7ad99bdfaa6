"""Recounts a project's stored votes. It changes nothing unless asked to store the new labels and scores."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import structlog
from sqlalchemy import Connection

from backend.learning.projects import project_settings, stored_questions
from backend.learning.states import States
from backend.learning.teaching import aggregation_of, confirmation, record_blind_answer, unanswered
from backend.ledger import Ledger, LedgerAccess, projects, recounts
from backend.ledger.blind_tasks import BlindQueues
from backend.ledger.events import StateKey
from backend.ledger.learning_data import LearningRounds
from backend.ledger.projects import Project
from backend.ledger.recounts import (
    CountableRound,
    CountedRounds,
    Counting,
    CountingReason,
    FurtherVote,
    FurtherVotes,
    Recount,
    RecountCheck,
    Recounts,
    differs,
)
from backend.ledger.rounds import ProjectRounds, QuestionRounds, Round
from backend.questions.question import ConfigQuestion, policy_for
from backend.settings import Settings
from backend.settings.policies import policy_of
from camvo.policies.past_rounds import FurtherPolicy, FurtherValue, PastRound, further_policy, recount
from camvo.policies.policy import Policy
from camvo.scores.scorer import Scorer
from camvo.state.state import State
from camvo.subsets.oracle import MOST_ARMS
from camvo.twins import not_voted, twins
from camvo.votes.aggregation import Aggregation, Decision
from camvo.votes.labels import LABEL_VOTE

_PAGE = 250
"""Rounds that are read at once."""

_PORTION = 10
"""Rounds that are decided between two pauses."""


_Relabelled = Mapping[int, tuple[str, float]]
"""Round → the label that it would get without its answer, and the label's agreement with the answer."""


@dataclass(slots=True)
class _QuestionCount:
    """The result of a recount of one question: ``results`` has the rounds that would change.

    Blind rounds are in ``results`` and ``blind``, but in no number; the scores are sums, and ``score_change``
    is one of absolute changes. ``checks`` is what it says of rounds that people have answered; none if
    nothing would change.
    """

    key: StateKey
    results: list[Recount] = field(default_factory=list)
    blind: set[int] = field(default_factory=set)
    counted: int = 0
    labels: int = 0
    score_change: float = 0.0
    score_before: float = 0.0
    score_after: float = 0.0
    prices: Mapping[str, float] = field(default_factory=dict)
    checks: list[RecountCheck] = field(default_factory=list)

    def add(self, kept: CountableRound, label: str, score: float) -> None:
        """Compare a round's new label and score with those of now."""
        if not kept.audit:
            self.counted += 1
            self.labels += label != kept.label
            self.score_change += abs(score - kept.score)
            self.score_before += kept.score
            self.score_after += score
        if differs((kept.label, kept.score), (label, score)):
            self.results.append(Recount(kept.id, kept.task, label, score, label != kept.label))
            if kept.audit:
                self.blind.add(kept.id)


@dataclass(frozen=True, slots=True)
class _QuestionCounter:
    """Counts one question's kept votes again, on some tasks or all. Runs slowly in a thread of its own."""

    ledger: Ledger
    policy: Policy
    models: Sequence[str]
    calibrate: bool
    pause: Callable[[], None]
    tasks: Sequence[int] | None = None

    def count(
        self, key: StateKey, state: State, relabel: Callable[[Mapping[str, float]], _Relabelled]
    ) -> _QuestionCount:
        """Count every kept round of a question by its state, which must not change meanwhile.

        ``relabel`` returns what this counting says of the answered rounds, by the prices of the models. The
        scores are calibrated on that: the labels that these rounds got first say how right an earlier
        counting was.
        """
        found, scorer, prices = _QuestionCount(key), None, dict[str, float]()
        for number, (kept, prices) in enumerate(self.rounds(key, state)):
            if number == 0:
                scorer = self.scorer(key, kept.plan, prices, relabelled=relabel(prices))
            if (decision := self.decision(kept, state, prices)) is not None:
                found.add(kept, decision.label, _score_of(kept, decision, prices, scorer))
        found.prices = prices
        return found

    def rounds(self, key: StateKey, state: State) -> Iterator[tuple[CountableRound, dict[str, float]]]:
        """Read a question's countable rounds, each with the prices of all models, the same for each."""
        last, prices = 0, dict[str, float]()
        while page := self._page(key, last):
            last = page[-1].id
            prices = prices or self._prices(page, state)
            for position, kept in enumerate(page):
                if position % _PORTION == 0:
                    self.pause()
                yield kept, prices

    def _page(self, key: StateKey, after: int) -> list[CountableRound]:
        with self.ledger.read() as connection:
            return CountedRounds(connection, key.project, key.control, key.epoch).countable(
                after=after, limit=_PAGE, tasks=self.tasks
            )

    def _prices(self, page: Sequence[CountableRound], state: State) -> dict[str, float]:
        """Every model whose votes may count: today's pool and those that the state knows, with a price.

        Prices decide nothing about votes that were cast. They are those of the first round that names the
        model, so that all rounds share one fit.
        """
        names = [*dict.fromkeys([*self.models, *state])]
        if len(names) > MOST_ARMS:
            names = list(self.models)
        known: dict[str, float] = {}
        for kept in page:
            for name, arm in kept.plan["arms"].items():
                known.setdefault(name, arm["cost"])
        usual = sum(known.values()) / len(known)
        return {name: known.get(name, usual) for name in names}

    def scorer(
        self,
        key: StateKey,
        plan: Mapping[str, Any],
        prices: Mapping[str, float],
        unanswered: Collection[int] = (),
        relabelled: _Relabelled = MappingProxyType({}),
    ) -> Scorer | None:
        """Fit the question's scorer; ``None`` if scores are not calibrated.

        It must not know the human labels of ``unanswered`` rounds; ``relabelled`` is what this counting says
        of the answered ones.
        """
        if not self.calibrate or aggregation_of(plan) != LABEL_VOTE:
            return None
        with self.ledger.read() as connection:
            rounds = LearningRounds(connection, key.project, key.control, key.epoch).latest(
                unanswered, relabelled
            )
        return Scorer.fit(rounds, sorted(prices), plan["labels"])

    def decision(self, kept: CountableRound, state: State, prices: Mapping[str, float]) -> Decision | None:
        """The decision on a round by what a state knows; ``None`` without a vote that counts."""
        return recount(self.policy, state, _past_round(kept, prices))


def _past_round(kept: CountableRound, prices: Mapping[str, float]) -> PastRound:
    """The round as policies see it, with the prices of the models whose votes count."""
    return PastRound(
        kept.context,
        kept.votes,
        tuple(kept.plan["labels"]),
        prices,
        aggregation_of(kept.plan),
        kept.confidences,
    )


def _score_of(
    kept: CountableRound, decision: Decision, prices: Mapping[str, float], scorer: Scorer | None
) -> float:
    """The probability that a round's new label is right."""
    cast = {arm: vote for arm, vote in kept.votes.items() if vote is not None and arm in prices}
    return decision.score if scorer is None else scorer.score_decision(cast, decision)


_FOLDS: Final = 5


@dataclass(frozen=True, slots=True)
class _Recounted:
    """An answered round with the decision on it that does not know its answer."""

    round_: Round
    kept: CountableRound
    decision: Decision
    human: str
    confirmed: float


class _AnsweredRounds:
    """The rounds of a question that people have answered, each counted without its own answer."""

    def __init__(self, counter: _QuestionCounter, key: StateKey, state: State) -> None:
        self._counter, self._key, self._state = counter, key, state
        self._folds: list[list[_Recounted]] = []
        self._labels: dict[int, tuple[str, float]] = {}

    def relabel(self, prices: Mapping[str, float]) -> _Relabelled:
        """Decide all of them again."""
        key = self._key
        with self._counter.ledger.read() as connection:
            answered = QuestionRounds(connection, key.project, key.control, key.epoch).answered()
            further = recounts.further_votes_of(connection, [round_.id for round_ in answered])
        # Rounds are numbered as models happen to reply; folds by task are the same in each run.
        answered.sort(key=lambda round_: round_.key.task)
        folds = [answered[fold::_FOLDS] for fold in range(_FOLDS)]
        decided = [self._decide(fold, prices, further) for fold in folds if fold]
        self._folds = [fold for fold in decided if fold]
        self._labels = {
            each.round_.id: (each.decision.label, each.confirmed) for fold in self._folds for each in fold
        }
        return self._labels

    def checks(self, prices: Mapping[str, float]) -> list[RecountCheck]:
        """Compare the labels of :meth:`relabel` with the answers; the scores do not know these either."""
        found = []
        for fold in self._folds:
            own = {each.round_.id for each in fold}
            scorer = self._counter.scorer(self._key, fold[0].round_.plan, prices, own, self._labels)
            for each in fold:
                score = _score_of(each.kept, each.decision, prices, scorer)
                label, task = each.decision.label, each.round_.key.task
                found.append(RecountCheck(each.round_.id, task, each.human, label, score, each.confirmed))
        return found

    def _decide(
        self, fold: Sequence[Round], prices: Mapping[str, float], further: Mapping[int, Sequence[FurtherVote]]
    ) -> list[_Recounted]:
        """Decide one fold by what is known without its answers."""
        aggregation = aggregation_of(fold[0].plan)
        without = State.restore(self._state.snapshot(), linear=self._counter.policy.linear(aggregation))
        taught = [round_ for round_ in fold if round_.taught_by == "human"]
        without.add(*[unanswered(round_, further.get(round_.id, ())) for round_ in taught])
        found = []
        for round_ in fold:
            self._counter.pause()
            kept = _countable(round_, further.get(round_.id, ()))
            decision = self._counter.decision(kept, without, prices)
            if decision is None or round_.human is None:
                continue
            confirmed = confirmation(decision.label, round_.human, round_.plan)
            if confirmed is not None:
                found.append(_Recounted(round_, kept, decision, round_.human, confirmed))
        return found


def _countable(round_: Round, further: Sequence[FurtherVote]) -> CountableRound:
    """The round with the votes that it would have if nobody had answered it."""
    bought = [vote for vote in further if vote.purpose != "human"]
    return CountableRound(
        id=round_.id,
        task=round_.key.task,
        votes=recounts.all_votes(round_.votes, bought),
        confidences=recounts.all_confidences(round_.plan.get("confidences", {}), bought),
        plan=round_.plan,
        context=round_.context,
        label=round_.label,
        score=round_.score,
        audit=round_.audit,
        full_cost_usd=round_.full_cost_usd,
    )


@dataclass(slots=True)
class _DoubtfulTask:
    """The expected gain of further votes on one task."""

    break_even: float = 0.0
    full_usd: float = 0.0
    next_usd: float = 0.0

    def add(self, further: FurtherValue, full_usd: float, prices: Mapping[str, float]) -> None:
        """Add the expected gain of further votes on one question."""
        share = sum(prices[arm] for arm in further.arms) / (sum(prices.values()) or 1.0)
        self.break_even += further.break_even
        self.full_usd += full_usd
        self.next_usd += full_usd * share

    @property
    def value(self) -> float:
        """The largest number of right labels gained per dollar."""
        return self.break_even / self.full_usd if self.full_usd > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Doubts:
    """The tasks to ask about next, the most right labels per dollar first.

    Attributes:
        tasks: their numbers.
        least: the value of the last one: what a dollar must bring for another vote on any of them, in right
            labels; 0 without tasks.
    """

    tasks: tuple[int, ...] = ()
    least: float = 0.0


@dataclass(slots=True)
class Doubting:
    """Collects the doubtful tasks of a project, question by question.

    Attributes:
        by_task: task → the expected gain of further votes on it.
        policy: what the project's policy says of further votes; ``None`` if it says nothing of them, so that
            nothing is in doubt.
    """

    by_task: dict[int, _DoubtfulTask] = field(default_factory=dict)
    policy: FurtherPolicy | None = None

    def add(self, counter: _QuestionCounter, key: StateKey, state: State) -> None:
        """Go through the rounds of one question."""
        policy = further_policy(counter.policy)
        if policy is None:
            return
        self.policy = policy
        for kept, prices in counter.rounds(key, state):
            past = _without_absent(_past_round(kept, prices), counter.models)
            task = self.by_task.setdefault(kept.task, _DoubtfulTask())
            task.add(policy.further_votes(state, past), kept.full_cost_usd, past.costs)

    def worthwhile(self, task: _DoubtfulTask) -> bool:
        """Whether further votes on the task are worth their price."""
        if self.policy is None or task.value <= 0.0:
            return False
        return task.value * self.policy.worth_of(task.full_usd) >= 1.0

    def best(self, usd: float, most: int) -> Doubts:
        """Choose the tasks on which ``usd`` dollars improve the labels most.

        Args:
            usd: what may be spent, in $. The tasks are those whose next calls it covers.
            most: the most tasks.
        """
        wanted = sorted(
            (-task.value, number) for number, task in self.by_task.items() if self.worthwhile(task)
        )
        chosen: list[int] = []
        for _, number in wanted:
            usd -= self.by_task[number].next_usd
            if len(chosen) == most or (usd < 0.0 and chosen):
                break
            chosen.append(number)
        least = self.by_task[chosen[-1]].value if chosen else 0.0
        return Doubts(tuple(chosen), least)


def _without_absent(past: PastRound, models: Sequence[str]) -> PastRound:
    """The round, in which a model that cannot be asked counts like one that gave no vote.

    Models outside today's pool cannot be asked, nor can one whose twin has voted. Further votes are asked for
    singly, so no packed arm is asked either.
    """
    packed = twins(models)
    askable = not_voted({arm: past.costs[arm] for arm in models if arm not in packed}, past.votes)
    return replace(past, votes={arm: None for arm in past.costs if arm not in askable} | dict(past.votes))


def _record(
    connection: Connection,
    project: str,
    found: Sequence[_QuestionCount],
    *,
    reason: CountingReason,
    sequence: int,
    began_at: float,
) -> Counting | None:
    """Store what changes; safe to repeat, and for several processes at once.

    A task that somebody has annotated since it was counted is left out, and so is a result that the ledger
    holds already. Where something changes, the certificate of the question's earlier labels ends: a new queue
    of blind tasks begins.
    """
    news = [(question, _news(connection, project, question)) for question in found]
    changes = [recount for question, new in news for recount in new if recount.round_id not in question.blind]
    if not any(new for _, new in news):
        return None
    recounted = Recounts(connection, project)
    counted = sum(question.counted for question in found)
    counting = Counting(
        number=recounted.latest_number() + 1,
        reason=reason,
        sequence=sequence,
        counted=counted,
        labels=sum(recount.label_changed for recount in changes),
        scores=sum(not recount.label_changed for recount in changes),
        score_before=sum(question.score_before for question in found) / max(counted, 1),
        score_after=sum(question.score_after for question in found) / max(counted, 1),
        created_at=began_at,
    )
    recounted.store_counting(counting)
    for question, new in news:
        of_file = not projects.is_of_label_studio(project)
        hidden = {recount.round_id for recount in new} if of_file else question.blind
        recounted.store(counting.number, new, hidden)
        if new:
            recounted.store_checks(question.checks)
            _begin_queue(connection, question, new, counting.number)
    return counting


def _news(connection: Connection, project: str, question: _QuestionCount) -> list[Recount]:
    """The results that change something; of blind tasks, those behind the run that certifies."""
    if not question.results:
        return []
    queue = BlindQueues(connection, project).of(question.key.control, question.key.epoch)
    behind = [entry.task for entry in queue.behind]
    return Recounts(connection, project).new_ones(question.results, behind)


def _begin_queue(
    connection: Connection, question: _QuestionCount, new: Sequence[Recount], number: int
) -> None:
    key = question.key
    answered = BlindQueues(connection, key.project).recounted(
        key.control,
        key.epoch,
        number=number,
        results={recount.round_id: (recount.label, recount.score) for recount in new},
    )
    for task in answered:
        for round_ in ProjectRounds(connection, key.project).of_task(task):
            if round_.audit and (round_.key.control, round_.key.epoch) == (key.control, key.epoch):
                record_blind_answer(connection, round_, round_.id)


_PAUSE = 0.005
"""Seconds between a few rounds, so that a recount never takes more than half a core."""

_log = structlog.get_logger(__name__)


class Stopped(Exception):  # noqa: N818 - it ends a thread's work, and is no error
    """The process stops, and with it the counting; nothing was stored."""


@dataclass(frozen=True, slots=True)
class ProjectCount:
    """The result of a recount of a project, ``began_at`` unix seconds: it may know nothing of later votes."""

    questions: tuple[_QuestionCount, ...]
    sequence: int
    began_at: float
    seconds: float

    @property
    def counted(self) -> int:
        """How many rounds with a prediction were counted."""
        return sum(question.counted for question in self.questions)

    @property
    def labels(self) -> int:
        """How many of them would get another label."""
        return sum(question.labels for question in self.questions)

    @property
    def score_change(self) -> float:
        """By how much their scores would change, on average."""
        return sum(question.score_change for question in self.questions) / max(self.counted, 1)


class Recounter:
    """Counts projects again, one at a time. Used from one event loop only.

    Its methods raise a ``LedgerError`` if the ledger failed, and :class:`Stopped` if the process stops.
    """

    def __init__(self, access: LedgerAccess, states: States, workers: Executor, settings: Settings) -> None:
        self._access, self._states = access, states
        self._workers, self._settings = workers, settings
        self._stopping = threading.Event()
        self._under_way: dict[str, asyncio.Task[Counting | None]] = {}

    def stop(self) -> None:
        """End a running recount soon, because the process stops."""
        self._stopping.set()

    async def recount(self, project: str, reason: CountingReason) -> Counting | None:
        """Count a project again and store what changes, if anything; equal requests share one counting."""
        if (task := self._under_way.get(project)) is None:
            task = self._under_way[project] = asyncio.create_task(self._recount(project, reason))
            task.add_done_callback(lambda _: self._under_way.pop(project, None))
        return await asyncio.shield(task)

    async def _recount(self, project: str, reason: CountingReason) -> Counting | None:
        return await self.store(project, await self.count(project), reason)

    async def recount_completed(self, project: str) -> Counting | None:
        """Decide the tasks of a project anew that have got votes that were missing, if that changes any."""
        began_at = self._access.clock()
        tasks = await self._access.read_once(lambda connection: FurtherVotes(connection, project).uncounted())
        if not tasks:
            return None
        found = await self.count(project, tasks)
        return await self.store(project, replace(found, began_at=began_at), "command")

    async def store(self, project: str, found: ProjectCount, reason: CountingReason) -> Counting | None:
        """Store what a counting found; ``None`` if nothing changes."""

        def change(connection: Connection) -> Counting | None:
            return _record(
                connection,
                project,
                found.questions,
                reason=reason,
                sequence=found.sequence,
                began_at=found.began_at,
            )

        counting = await self._access.writer.persist(change)
        if counting is not None:
            numbers = {"labels": counting.labels, "scores": counting.scores, "of": counting.counted}
            _log.info("recounted", project=project, number=counting.number, reason=reason, **numbers)
        return counting

    async def count(self, project: str, tasks: Sequence[int] | None = None) -> ProjectCount:
        """Count a project again, or some of its tasks, without storing anything."""
        began, began_at, found = time.monotonic(), self._access.clock(), list[_QuestionCount]()

        def count(counter: _QuestionCounter, key: StateKey, state: State) -> None:
            answered = _AnsweredRounds(counter, key, state)
            question = counter.count(key, state, answered.relabel)
            if question.results:
                question.checks = answered.checks(question.prices)
            found.append(question)

        sequence = await self._through_questions(project, count, tasks)
        return ProjectCount(tuple(found), sequence, began_at, time.monotonic() - began)

    async def doubts(self, project: str, usd: float, most: int) -> Doubts:
        """Find the tasks on which further votes for ``usd`` dollars correct the most labels."""
        return (await self.doubting(project)).best(usd, most)

    async def doubting(self, project: str) -> Doubting:
        """Estimate the gain of further votes on every open task of a project."""
        doubting = Doubting()
        await self._through_questions(project, doubting.add)
        return doubting

    async def _through_questions(
        self,
        project: str,
        function: Callable[[_QuestionCounter, StateKey, State], None],
        tasks: Sequence[int] | None = None,
    ) -> int:
        """Call a function in the counting thread for each question, with a state that no one else changes.

        Returns the project's last event that the states know; 0 for a project that the ledger does not know.
        """
        loop = asyncio.get_running_loop()
        stored, first_rounds = await loop.run_in_executor(self._workers, self._first_rounds, project)
        if stored is None:
            return 0
        settings, _ = project_settings(stored, self._settings)
        questions = stored_questions(stored) or ()
        for key, first in first_rounds.items():
            aggregation = aggregation_of(first.plan)
            policy = _policy(settings, questions, key.control, aggregation)
            linear = policy.linear(aggregation)
            state = await self._states.current(
                key, dimension=first.context.shape[0], lambda_l=settings.policy.lambda_l, linear=linear
            )
            own = State.restore(state.snapshot(), linear=linear)  # the original continues to learn
            counter = _QuestionCounter(
                self._access.ledger, policy, settings.arms, settings.calibrate, self._pause, tasks
            )
            await loop.run_in_executor(self._workers, function, counter, key, own)
        return stored.sequence

    def _first_rounds(self, project: str) -> tuple[Project | None, dict[StateKey, CountableRound]]:
        """The project, and of each question's latest epoch a round."""
        with self._access.ledger.read() as connection:
            first_rounds = {}
            for control, epoch in sorted(ProjectRounds(connection, project).latest_epochs().items()):
                first = CountedRounds(connection, project, control, epoch).countable(after=0, limit=1)
                if first:
                    first_rounds[StateKey(project, control, epoch)] = first[0]
            return projects.get(connection, project), first_rounds

    def _pause(self) -> None:
        if self._stopping.wait(_PAUSE):
            raise Stopped


def _policy(
    settings: Settings, questions: Sequence[ConfigQuestion], control: str, aggregation: Aggregation
) -> Policy:
    """The policy that a question gets today; one that the label config lacks is on its own."""
    if any(question.name == control for question in questions):
        return policy_for(settings.policy, questions, [control])
    return policy_of(settings.policy, [aggregation])
