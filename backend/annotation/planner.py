"""What a policy observes of a task's questions before it plans, and which tasks wait for the first ones."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Final

from sqlalchemy import Connection

from backend.annotation.asking import weigh
from backend.annotation.job import Contexts, Job, JobQuestion
from backend.annotation.replies import ModelReply, Replies
from backend.learning.label_schemes import epochs_with_other_instructions
from backend.learning.states import BackgroundFits, EarlierProjects, States, Students
from backend.ledger import LedgerAccess, projects
from backend.ledger import money as accounts
from backend.ledger.database.writer import GroupedReads
from backend.ledger.money import from_picodollars
from backend.ledger.projects import Schemes, latest_of
from backend.ledger.rounds import ProjectRounds
from camvo.policies.joint import Joint
from camvo.policies.policy import ORDINARY, Conditions, Observation, Plan, Policy
from camvo.state.state import State
from camvo.student import STUDENT, Student, StudiedText, hashed_ngrams
from camvo.twins import once_each
from camvo.votes.aggregation import Decision
from camvo.votes.labels import LABEL_VOTE

_SECONDS: Final = 2.0
"""Seconds for which a count of the finished tasks is considered current."""


@dataclass(frozen=True, slots=True)
class _Limited:
    """The limits of a project's spending.

    Attributes:
        project: the project's key.
        limits: accounts, each with the most that may be spent of it, $.
        tasks: the number of the project's tasks by its settings; ``None`` if they do not say.
    """

    project: str
    limits: tuple[tuple[str, float], ...]
    tasks: int | None


class Allowances:
    """Divides what is left of a budget among the tasks that are left. Used from one event loop only."""

    def __init__(self, access: LedgerAccess) -> None:
        self._reads = GroupedReads.of_equals(access, self._left)
        self._finished: dict[str, tuple[float, int]] = {}

    async def allowance(self, policy: Policy, job: Job, costs: Mapping[str, float]) -> float:
        """Return the average that the project's tasks may cost, in prices of asking all models.

        It is infinite without a budget, or if the number of tasks is unknown, and for any policy but
        ``joint``: no other weighs the worth of a label against its price at every step.
        """
        full, budget = sum(once_each(costs).values()), job.settings.budget
        purse = None if job.purse is None else job.purse.name
        limits = [
            (accounts.TOTAL, budget.project_usd),
            *([] if job.purse is None else [(purse, job.purse.usd), (purse, job.aim_usd)]),
        ]
        limited = tuple([(scope, limit) for scope, limit in limits if scope and limit is not None])
        if not isinstance(policy, Joint) or not limited or full <= 0.0:
            return math.inf
        money, tasks_left = await self._reads.read(_Limited(job.project, limited, budget.tasks))
        if tasks_left is None:
            return math.inf
        return max(money, 0.0) / max(tasks_left, 1) / full

    def _left(self, connection: Connection, limited: _Limited) -> tuple[float, int | None]:
        """What is left to spend, $, and the tasks that are left; ``None`` if their number is unknown."""
        money = min(
            limit - from_picodollars(accounts.balance(connection, limited.project, scope).spent)
            for scope, limit in limited.limits
        )
        stored = projects.get(connection, limited.project)
        tasks = limited.tasks or (None if stored is None else stored.task_number) or None
        return money, None if tasks is None else tasks - self._count_finished(connection, limited.project)

    def _count_finished(self, connection: Connection, project: str) -> int:
        counted_at, finished = self._finished.get(project, (-math.inf, 0))
        if monotonic() - counted_at > _SECONDS:
            # Tasks that are asked about again because labels have changed are not finished.
            epochs = _epochs_of_labels_now(connection, project)
            finished = ProjectRounds(connection, project).count_tasks(epochs)
            self._finished[project] = (monotonic(), finished)
        return finished


def _epochs_of_labels_now(connection: Connection, project: str) -> set[str]:
    """The epochs of a project's questions with the labels of now, whatever their instructions."""
    history = Schemes(connection, project).all()
    latest = latest_of(history).values()
    earlier = (epochs_with_other_instructions(history, scheme) for scheme in latest)
    return {scheme.epoch for scheme in latest}.union(*earlier)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms on which a task is planned.

    Attributes:
        policy: the project's policy.
        costs: the expected price in $ of each arm that may be asked.
        conditions: the task's conditions.
        again: the questions that are asked again because labels changed. What the student learnt of such
            tasks is the label that they lose, so it is silent.
    """

    policy: Policy
    costs: Mapping[str, float]
    conditions: Conditions = ORDINARY
    again: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _StudentReply:
    """What the student, which learns from the project's texts, says of a task. It costs nothing."""

    votes: dict[str, str] = field(default_factory=dict)
    confidences: dict[str, float] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)

    def ask(self, student: Student | None, state: State, question: JobQuestion) -> None:
        """Ask the student about one question whose votes are labels."""
        ngrams = hashed_ngrams(question.context)
        vote = None if student is None else student.vote(ngrams)
        if vote is not None and vote.label in question.options:
            self.votes[question.name] = vote.label
            self.confidences[question.name] = vote.confidence
        if not state.texts.full:
            self.texts[question.name] = ngrams


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the policy that made it, and what is known of the task before anybody is asked."""

    policy: Policy
    plan: Plan
    _student: _StudentReply | None = None

    @property
    def known(self) -> dict[str, ModelReply]:
        """The replies that are there already, by arm."""
        if self._student is None:
            return {}
        return {STUDENT: ModelReply(self._student.votes, 0.0, confidences=self._student.confidences)}

    async def decisions(self, replies: Replies) -> Mapping[str, Decision]:
        """The decision on each question that got a vote."""
        votes, confidences = replies.votes, replies.confidences
        return await weigh(votes, lambda: self.policy.decide(self.plan, votes, confidences=confidences))

    def studied(self, replies: Replies) -> dict[str, StudiedText]:
        """Question → its text, which teaches the student, beside the label that the other arms voted for."""
        if self._student is None or not self._student.texts:
            return {}
        others = {arm: answers for arm, answers in replies.votes.items() if arm != STUDENT}
        sure = {arm: answers for arm, answers in replies.confidences.items() if arm != STUDENT}
        decisions = self.policy.decide(self.plan, others, confidences=sure)
        return {
            name: StudiedText(ngrams, decisions[name].label if name in decisions else None)
            for name, ngrams in self._student.texts.items()
        }


class Planner:
    """Plans with the current states. Used from one event loop only."""

    def __init__(
        self, states: States, background_fits: BackgroundFits, students: Students, earlier: EarlierProjects
    ) -> None:
        self._states, self._background_fits, self._students = states, background_fits, students
        self._earlier = earlier

    async def plan(
        self, job: Job, questions: Sequence[JobQuestion], contexts: Contexts, terms: Terms
    ) -> Planned:
        """The policy's plan for several questions of a task.

        Args:
            job: the task.
            questions: the questions.
            contexts: the questions' contexts, which are embedded only if the plan reads them.
            terms: the policy, the prices and the task's conditions.

        Returns:
            The plan, and what the student says if there is one.
        """
        policy, student = terms.policy, None
        labels = any(question.aggregation == LABEL_VOTE for question in questions)
        if labels and job.settings.has_student(policy):
            terms, student = replace(terms, costs={**terms.costs, STUDENT: 0.0}), _StudentReply()
        observations = {
            question.name: await self._observation(job, question, contexts, terms, student)
            for question in questions
        }
        return Planned(policy, policy.plan(observations, terms.costs, terms.conditions), student)

    async def _observation(
        self,
        job: Job,
        question: JobQuestion,
        contexts: Contexts,
        terms: Terms,
        student: _StudentReply | None,
    ) -> Observation:
        """What is known of one question. The student, if there is one, is asked about it."""
        policy, key = terms.policy, question.state_key
        kind = _question_kind(question.config.tag, len(question.options))
        linear = policy.linear(question.aggregation)
        context = await contexts.of(question) if linear else contexts.so_far(question)
        state = await self._state(job, question, kind, dimension=context.shape[0], linear=linear)
        if student is not None and question.aggregation == LABEL_VOTE:
            silent = question.name in terms.again
            student.ask(None if silent else self._students.current(key, state.texts.lessons), state, question)
        asked = question.key  # names the task in the exploration draw, the same in every process
        name = f"{asked.project}:{asked.task}:{asked.control}:{asked.question}"
        observation = Observation(state, context, question.options, question.aggregation, task=name)
        data = policy.fit_data(observation, terms.costs)
        if data is None:
            return observation
        # Whether a decided task is in doubt was found by the state of now.
        fit = await self._background_fits.current(key, data, now=terms.conditions.decided)
        self._earlier.teach(key, kind, data)
        context = await contexts.of(question) if fit.reads_context else context
        return replace(observation, fit=fit, context=context)

    async def _state(
        self, job: Job, question: JobQuestion, kind: str, *, dimension: int, linear: bool
    ) -> State:
        """The state of a question, with the lessons of earlier projects that it should know."""
        key, lambda_l = question.state_key, job.settings.policy.lambda_l
        current = partial(self._states.current, key, dimension=dimension, lambda_l=lambda_l, linear=linear)
        state = await current()
        wanted = job.settings.earlier_projects and question.aggregation == LABEL_VOTE
        return await current() if await self._earlier.settle(key, kind, state, wanted=wanted) else state


_PATIENCE: Final = 30.0
"""Seconds that a task waits at most for the first rounds: a model may be slow, or away."""


class Openings:
    """Holds tasks back while others ask every model about the first tasks. Used from one event loop only.

    The first rounds of a project teach whom to ask about the later ones. Without a limit, all tasks that are
    worked on at once would be first ones.

    Attributes:
        patience: seconds that a task waits at most.
        ended: how many first rounds of each project have ended in this process.
    """

    def __init__(self) -> None:
        self.patience = _PATIENCE
        self._begun: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self._all_ended: dict[str, asyncio.Event] = {}

    def is_full(self, project: str, plan: Plan, ended: int) -> bool:
        """Whether a plan asks every model only because the answers of others are not there yet.

        ``ended``: how many first rounds had ended before it was planned; the plan may not know later ones.
        """
        return 0 < _needed(plan) <= self._begun[project] - ended

    async def wait(self, project: str, until: float) -> bool:
        """Wait until the rounds under way have ended; false if that is later than ``until`` by the loop."""
        if self.ended[project] == self._begun[project]:
            return True  # they ended while the task was planned
        event = self._all_ended.setdefault(project, asyncio.Event())
        try:
            await asyncio.wait_for(event.wait(), until - asyncio.get_running_loop().time())
        except TimeoutError:
            return False
        return True

    @contextmanager
    def asking(self, project: str, plan: Plan) -> Iterator[None]:
        """Count a round while its models are asked."""
        if not _needed(plan):
            yield
            return
        self._begun[project] += 1
        try:
            yield
        finally:
            self.ended[project] += 1
            if self.ended[project] == self._begun[project] and project in self._all_ended:
                self._all_ended.pop(project).set()


def _needed(plan: Plan) -> int:
    """How many first rounds the project needs, with this one; 0 if it is none of them."""
    return 0 if plan.stages is None else plan.stages.opening


_MANY: Final = 6


def _question_kind(tag: str, labels: int) -> str:
    """The kind of a question: lessons about one are no lessons about others."""
    size = "2" if labels <= 2 else f"3-{_MANY}" if labels <= _MANY else f"{_MANY + 1}+"
    return f"{tag}:{size}"
