"""Asks models that a task's rounds left out, and stores their votes beside the rounds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog
from sqlalchemy import Connection

from backend.annotation.asking import Asking, Voters
from backend.annotation.job import Job, JobQuestion, TaskPrompt
from backend.annotation.job_questions import JobQuestions
from backend.annotation.planner import Planner, Terms
from backend.annotation.replies import PASSING, ModelReply
from backend.errors import BadAnswerError, BudgetExhaustedError, LabelStudioError, TaskError
from backend.label_studio.client import Client
from backend.label_studio.payloads import parse_task
from backend.learning.projects import project_settings
from backend.learning.teaching import correct_rewards
from backend.ledger import LedgerAccess, money, projects, recounts, rounds
from backend.ledger.claims import ProjectClaims
from backend.ledger.human_annotations import Annotations
from backend.ledger.money import Purse, from_picodollars
from backend.ledger.recounts import FurtherVote, FurtherVotes, Purpose
from backend.ledger.rounds import Round
from backend.models.rates.gate import request_size
from backend.questions import LabelConfig, parse_label_config
from backend.questions.question import policy_for, visible_answers
from backend.settings import Environment, Settings
from camvo.errors import CamvoError
from camvo.policies.past_rounds import further_policy
from camvo.policies.policy import Conditions
from camvo.student import STUDENT
from camvo.twins import not_voted, twins
from camvo.typing import Array


class _StoredContexts:
    """The contexts that rounds hold, by question, shape (d,) each."""

    def __init__(self, contexts: Mapping[str, Array]) -> None:
        self._contexts = contexts

    def so_far(self, question: JobQuestion) -> Array:
        """The context, shape (d,)."""
        return self._contexts[question.name]

    async def of(self, question: JobQuestion) -> Array:
        """The context, shape (d,); unknown if the round holds none."""
        return self._contexts[question.name]


_BULK = 1_000_000
"""The size of request that these calls count as: those of predictions go first."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Bought:
    """What was asked about one task."""

    votes: int = 0
    usd: float = 0.0
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """The questions of a task that have a round, and these rounds."""

    questions: Sequence[JobQuestion]
    rounds: Sequence[Round]

    @property
    def contexts(self) -> _StoredContexts:
        """The contexts that the rounds hold."""
        pairs = zip(self.questions, self.rounds, strict=True)
        return _StoredContexts({question.name: round_.context for question, round_ in pairs})

    @property
    def missing(self) -> dict[str, str]:
        """The arms whose votes a round lacks: arm → the code of the reason."""
        return {arm: code for round_ in self.rounds for arm, code in (round_.missing or {}).items()}

    @property
    def replies(self) -> dict[str, ModelReply]:
        """The votes that are there: arm → its votes by question."""
        votes: dict[str, dict[str, str]] = {}
        sure: dict[str, dict[str, float]] = {}
        for question, round_ in zip(self.questions, self.rounds, strict=True):
            for arm, vote in round_.votes.items():
                answers = votes.setdefault(arm, {})
                if vote is not None:
                    answers[question.name] = vote
            for arm, share in round_.plan.get("confidences", {}).items():
                sure.setdefault(arm, {})[question.name] = share
        return {arm: ModelReply(cast, 0.0, confidences=sure.get(arm, {})) for arm, cast in votes.items()}

    def costs(self, expected: Mapping[str, float]) -> dict[str, float]:
        """The price of every arm whose vote may count: also of those that have voted and now rest."""
        planned = {
            arm: float(round_.plan["arms"][arm]["cost"])
            for round_ in self.rounds
            for arm in round_.votes
            if arm in round_.plan["arms"] and arm != STUDENT
        }
        return planned | dict(expected)


class FurtherAsking:
    """Asks models that rounds left out. Used from one event loop only.

    Each way of asking takes a job, whose purse pays. It raises a ``TaskError`` if the task has no text or
    models cannot be asked, and a ``LedgerError`` if the ledger failed.
    """

    def __init__(
        self, access: LedgerAccess, questions: JobQuestions, planner: Planner, voters: Voters
    ) -> None:
        self._access, self._questions = access, questions
        self._planner, self._voters = planner, voters

    async def ask_in_doubt(self, job: Job, worth_usd: float) -> _Bought:
        """Ask about a task that nobody has annotated while its policy finds a vote worth asking for.

        ``worth_usd`` is what one more right label is worth, in $.
        """
        found = await self._find(job, annotated=False)
        if found is None:
            return _Bought()
        names = [question.name for question in found.questions]
        further = further_policy(policy_for(job.settings.policy, job.config.questions, names))
        if further is None:
            return _Bought()
        prompt, policy = await self._prompt(job, found), further.policy_for(worth_usd)
        costs = found.costs(not_voted(self._voters.expected_costs(job, prompt), found.replies))
        waits = self._voters.waits(job, set(costs) - found.replies.keys())
        terms = Terms(policy, costs, Conditions(decided=True, waits=waits))
        planned = await self._planner.plan(job, found.questions, found.contexts, terms)
        request_size.set(_BULK)
        known, asking = found.replies, Asking(self._voters, job, prompt)
        try:
            replies = await asking.ask(policy, planned.plan, known)
        except BudgetExhaustedError:  # no model had voted at all
            return _Bought(exhausted=True)
        news = {arm: reply for arm, reply in replies.arms.items() if arm not in known}
        return await self._store(job, found, news, "doubt")

    async def ask_everyone(self, job: Job) -> _Bought:
        """Ask every other model about a task that people have labelled, so that the label teaches more."""
        found = await self._find(job, annotated=True)
        if found is None:
            return _Bought()
        prompt, known = await self._prompt(job, found), found.replies
        left = not_voted(self._voters.expected_costs(job, prompt), known)
        request_size.set(_BULK)
        news = await self._voters.votes(job, {arm: arm for arm in left if arm not in known}, prompt)
        return await self._store(job, found, news, "human")

    async def complete(self, job: Job) -> _Bought:
        """Ask the models whose votes a task's rounds lack (:class:`backend.ledger.rounds.IncompleteRounds`).

        The vote of a packed arm comes from its model, asked about this task alone.
        """
        found = await self._find(job, annotated=None)
        if found is None:
            return _Bought()
        prompt, singly = await self._prompt(job, found), twins(job.settings.arms)
        lacking = {arm: singly.get(arm, arm) for arm in found.missing if arm in job.settings.arms}
        request_size.set(_BULK)
        news = await self._voters.votes(job, lacking, prompt)
        return await self._store(job, found, news, "missing")

    async def _find(self, job: Job, *, annotated: bool | None) -> _Found | None:
        """The task's questions with a round; ``None`` without any, or if people have come in between.

        With ``annotated=None`` it does not matter whether people have labelled the task.
        """
        questions = self._questions.with_texts(job)

        def read(connection: Connection) -> _Found | None:
            if annotated is not None and _is_annotated(connection, job) != annotated:
                return None
            stored = recounts.with_latest(
                connection, rounds.find_by_key(connection, [question.key for question in questions])
            )
            labels = {each.name: stored[each.key].label for each in questions if each.key in stored}
            seen = visible_answers([each.config for each in questions], labels)
            asked = [each for each in questions if each.name in seen and not stored[each.key].pruned]
            further = recounts.further_votes_of(connection, [round_.id for round_ in stored.values()])
            return _Found(asked, [_with_confidences(stored[question.key], further) for question in asked])

        found = await self._access.read(read)
        if found is None or not found.questions:
            return None
        visible, _ = await self._questions.with_images(job, found.questions)
        by_name = {question.name: question for question in visible}
        pairs = [
            (by_name[question.name], round_)
            for question, round_ in zip(found.questions, found.rounds, strict=True)
            if question.name in by_name
        ]
        return _Found([one for one, _ in pairs], [other for _, other in pairs]) if pairs else None

    async def _prompt(self, job: Job, found: _Found) -> TaskPrompt:
        return await self._questions.prompt(job, found.questions, found.contexts, alone=True)

    async def _store(
        self, job: Job, found: _Found, news: Mapping[str, ModelReply], purpose: Purpose
    ) -> _Bought:
        """Store the new votes, and which votes are still missing.

        A call that failed for nothing is not stored, so that it can be repeated; nor is one whose vote is
        missing and may still come.
        """
        exhausted = any(reply.failure == BudgetExhaustedError.code for reply in news.values())
        paid = {
            arm: reply
            for arm, reply in news.items()
            if reply.votes or (reply.cost > 0.0 and not (arm in found.missing and reply.failure in PASSING))
        }
        missing = {round_.id: _still_missing(job, round_, news) for round_ in found.rounds}
        ended = {
            round_.id: _ended(question, round_, news)
            for question, round_ in zip(found.questions, found.rounds, strict=True)
        }
        completed = any(missing[round_.id] != (round_.missing or {}) for round_ in found.rounds)
        if not paid and not completed:
            return _Bought(exhausted=exhausted)

        def store(connection: Connection) -> None:
            if projects.is_deleted(connection, job.project, job.task):
                return
            FurtherVotes(connection, job.project).store(_rows(found, paid, purpose, self._access.clock()))
            for round_id, arms in missing.items():
                rounds.set_missing(connection, round_id, arms, ended[round_id])
            correct_rewards(connection, job.project, job.task, job.settings, self._access.clock())

        await self._access.writer.persist(store)
        return _Bought(len(paid), sum(reply.cost for reply in paid.values()), exhausted)


def _still_missing(job: Job, round_: Round, news: Mapping[str, ModelReply]) -> dict[str, str]:
    """The votes that a round lacks after some replies; an arm that the pool lost lacks none."""
    missing: dict[str, str] = {}
    for arm, code in (round_.missing or {}).items():
        reply = news.get(arm)
        if reply is None and arm in job.settings.arms:
            missing[arm] = code
        elif reply is not None and reply.failure in PASSING:
            missing[arm] = reply.failure
    return missing


def _ended(question: JobQuestion, round_: Round, news: Mapping[str, ModelReply]) -> dict[str, str | None]:
    """How asking for the votes that a round lacks has ended: arm → why it gave none, ``None`` if it did."""
    return {
        arm: None if question.name in reply.votes else reply.failure or BadAnswerError.code
        for arm, reply in news.items()
        if arm in (round_.missing or {})
    }


def _is_annotated(connection: Connection, job: Job) -> bool:
    """Whether people have annotated the task, as far as the ledger knows; a skipped one counts."""
    of_task = Annotations(connection, job.project).of_task(job.task)
    return any(not annotation.withdrawn for annotation in of_task)


def _with_confidences(round_: Round, further: Mapping[int, Sequence[FurtherVote]]) -> Round:
    """The round with the confidences of its further votes; it has the votes already."""
    sure = recounts.all_confidences(round_.plan.get("confidences", {}), further.get(round_.id, ()))
    return replace(round_, plan={**round_.plan, "confidences": sure}) if sure else round_


def _rows(found: _Found, paid: Mapping[str, ModelReply], purpose: Purpose, now: float) -> list[FurtherVote]:
    """One row for each round and model; a call's cost is shared equally among the rounds.

    It is that of an earlier run, too, which ended before it could store the vote.
    """
    return [
        FurtherVote(
            round_id=round_.id,
            model=arm,
            task=round_.key.task,
            vote=reply.votes.get(question.name),
            confidence=reply.confidences.get(question.name),
            cost_usd=(reply.cost + reply.earlier) / len(found.rounds),
            purpose=purpose,
            created_at=now,
        )
        for question, round_ in zip(found.questions, found.rounds, strict=True)
        for arm, reply in paid.items()
    ]


_Ask = Callable[[Job], Awaitable[_Bought]]


@dataclass(slots=True)
class Portion:
    """What was asked about some tasks.

    Attributes:
        tasks: about how many of them a model was asked.
        votes: how many models were asked, over all tasks.
        usd: what they cost, in $.
        exhausted: whether money did not cover a call.
        left: how many tasks are left, since the time was over or the money spent.
    """

    tasks: int = 0
    votes: int = 0
    usd: float = 0.0
    exhausted: bool = False
    left: int = 0

    def add(self, bought: _Bought) -> None:
        """Count one task."""
        self.tasks += bought.votes > 0
        self.votes += bought.votes
        self.usd += bought.usd
        self.exhausted |= bought.exhausted


async def ask_portion(jobs: Sequence[Job], ask: _Ask, *, at_once: int, deadline: float) -> Portion:
    """Ask about tasks in their order.

    No new task is begun after the deadline, or once money does not cover a call. Those under way are
    finished: what is asked for is paid for, so its votes are stored.

    Raises:
        LedgerError: the ledger failed.
    """
    portion, until = Portion(left=len(jobs)), asyncio.get_running_loop().time() + deadline
    remaining = iter(jobs)

    async def work() -> None:
        while not portion.exhausted and asyncio.get_running_loop().time() < until:
            if (job := next(remaining, None)) is None:
                return
            portion.left -= 1
            try:
                portion.add(await ask(job))
            except TaskError as error:
                _log.warning(
                    "no_further_votes", project=job.project, task=job.task, code=error.code, reason=str(error)
                )

    await asyncio.gather(*(work() for _ in range(min(at_once, len(jobs)))))
    return portion


_PAUSE = 30.0
"""Seconds between two rounds through the projects."""

_LEASE = 600.0
"""Seconds after which another process may take over what a dead one had begun."""

_TASKS = 20
"""Tasks that are asked about between two looks at the money."""

_AT_ONCE = 4
"""Tasks under way at once: predictions go first."""

_AFTER_FAILURE = 600.0
"""Seconds for which a project is left alone after a failure, or while its money is spent."""


@dataclass(frozen=True, slots=True)
class StudioProject:
    """A project as Label Studio has it now, and its settings here."""

    client: Client
    number: int
    config: LabelConfig
    settings: Settings

    @classmethod
    async def of(
        cls, project: str, environment: Environment, access: LedgerAccess, settings: Settings
    ) -> StudioProject:
        """Ask Label Studio for a project.

        Raises:
            LabelStudioError: the server has no key for Label Studio, or that refused or cannot be reached.
        """
        if (allowed := environment.label_studio_access) is None:
            raise LabelStudioError(
                "the server has no key for Label Studio",
                where=project,
                fix="set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY",
            )
        client = await asyncio.to_thread(Client, *allowed)
        payload = await asyncio.to_thread(client.project_by_key, project)
        own, _ = await access.read_once(
            lambda connection: project_settings(projects.get(connection, project), settings)
        )
        return cls(client, payload["id"], parse_label_config(payload["label_config"]), own)


class Completing:
    """Asks about the tasks that people have labelled. Used from one event loop only.

    It works on projects of Label Studio, since the ledger holds no text of a task. It therefore needs a key.
    """

    def __init__(
        self, *, access: LedgerAccess, further: FurtherAsking, settings: Settings, environment: Environment
    ) -> None:
        self._access, self._further = access, further
        self._settings, self._environment = settings, environment
        self._claims = ProjectClaims(access.writer, "complete", _LEASE)
        self._resting: dict[str, float] = {}
        self._tried: set[tuple[str, int]] = set()
        self._looked: dict[str, int] = {}

    async def run(self) -> None:
        """Look after all projects repeatedly until cancelled; do nothing unless it is switched on."""
        if not self._settings.complete_labelled:
            return
        if self._environment.label_studio_access is None:
            _log.warning("nothing_completed", fix="set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY")
            return
        while True:
            await asyncio.sleep(_PAUSE)
            try:
                for stored in await self._access.read_once(projects.list_all):
                    rests = self._resting.get(stored.key, 0.0) > time.monotonic()
                    if not rests and self._looked.get(stored.key) != stored.sequence:
                        await self.tend(stored.key)
            except CamvoError as error:
                _log.error("nothing_completed", code=error.code, reason=str(error))

    async def tend(self, project: str) -> int:
        """Complete one project's labelled tasks while there is money, unless another process does.

        A failure is logged, and the project left alone for a while. Of an unexpected one only the type is
        logged: its text might quote a task.
        """
        async with self._claims.working(project) as ours:
            if not ours:
                return 0
            try:
                return await self._complete(project)
            except Exception as error:  # nobody awaits the result, and the next project must have its turn
                reason = str(error) if isinstance(error, CamvoError) else type(error).__name__
                _log.error("nothing_completed", project=project, reason=reason)
                self._resting[project] = time.monotonic() + _AFTER_FAILURE
                return 0

    async def _complete(self, project: str) -> int:
        done = last = 0
        through = await self._access.read_once(lambda connection: projects.last_event(connection, project))
        while await self._claims.acquire(project):
            purse, tasks = await self._access.read_once(partial(self._next, project, last))
            if not tasks:
                self._looked[project] = through
                break
            last = tasks[-1]
            new = [task for task in tasks if (project, task) not in self._tried]
            portion = await ask_portion(
                await self._jobs(project, new, purse) if new else [],
                self._ask,
                at_once=_AT_ONCE,
                deadline=_LEASE / 2.0,
            )
            done += portion.tasks
            if portion.exhausted:
                self._resting[project] = time.monotonic() + _AFTER_FAILURE
            if portion.exhausted or portion.left:
                break
        if done:
            _log.info("labelled_tasks_completed", project=project, tasks=done)
        return done

    async def _ask(self, job: Job) -> _Bought:
        """Ask about one task once in this process, or a failing model would be asked forever."""
        task = job.project, job.task
        self._tried.add(task)
        bought = await self._further.ask_everyone(job)
        if bought.exhausted:
            self._tried.discard(task)
        return bought

    def _next(self, project: str, last: int, connection: Connection) -> tuple[Purse, Sequence[int]]:
        """What may be spent, and the next labelled tasks that models were left out of; none without money."""
        total = money.balance(connection, project, money.TOTAL)
        own = money.balance(connection, project, "background")
        paid = from_picodollars(total.spent - own.spent)
        most = self._settings.background_share * paid
        purse = Purse("background", most)
        if from_picodollars(own.spent + own.reserved) >= most:
            return purse, ()
        return purse, FurtherVotes(connection, project).incomplete(after=last, limit=_TASKS)

    async def _jobs(self, project: str, tasks: Sequence[int], purse: Purse) -> list[Job]:
        studio = await StudioProject.of(project, self._environment, self._access, self._settings)
        found = await asyncio.to_thread(studio.client.tasks, studio.number, tasks)
        return [
            # The claim of the project ends, so the calls are hurried.
            Job(project, *task, studio.config, studio.settings, purse=purse, hurried=True)
            for task in map(parse_task, found)
            if task is not None
        ]
