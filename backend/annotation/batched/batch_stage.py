"""One task's stage of a batch: the votes that are there, and the lines that are still to be bought."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sqlalchemy import Connection

from backend.annotation.batched.answers import KnownAnswers, StandingAnswer
from backend.annotation.job import Batching, Job, JobQuestion
from backend.annotation.task_prompt import TaskPrompt
from backend.annotation.voters import ModelReply, Voters
from backend.errors import BatchPendingError, TaskDeletedError
from backend.ledger import Ledger, Writer, deleted_tasks
from backend.ledger.batches import lines, tasks
from backend.ledger.batches.lines import BatchLine
from backend.ledger.batches.tasks import BatchTask
from backend.ledger.calls import answers
from backend.ledger.database import outages
from backend.models import Pool
from backend.models.attempts import ATTEMPTS, attempt_key
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.policies.staged import Drawn, Staged, Waiting


class BatchStages:
    """Makes the stages of tasks. Used from one event loop only.

    Args:
        voters: the models, asked at once.
        pool: the models.
        ledger: where answers, lines and waiting tasks are read.
        writer: writes them.
        readers: the threads that read.
        clock: unix seconds.
    """

    def __init__(  # noqa: PLR0917 - what a stage needs
        self,
        voters: Voters,
        pool: Pool,
        ledger: Ledger,
        writer: Writer,
        readers: Executor,
        clock: Callable[[], float],
    ) -> None:
        self.voters, self.pool, self.clock = voters, pool, clock
        self._ledger, self._writer, self._readers = ledger, writer, readers
        self._waiting: dict[str, Waiting] = {}

    async def begin(
        self, job: Job, batching: Batching, questions: Sequence[JobQuestion], prompt: TaskPrompt
    ) -> BatchStage:
        """Look up what a task has asked for so far.

        Raises:
            BatchPendingError: some of it is not back yet.
        """
        asked_about = _hash_of(questions)
        stage = BatchStage(self, job, batching, asked_about, prompt)

        def read(connection: Connection) -> tuple[BatchTask | None, KnownAnswers]:
            stored = tasks.find(connection, job.project, job.task)
            if stored is not None and stored.questions != asked_about:
                stored = None
            keys = [key for asked in ([] if stored is None else stored.asked) for key in asked.values()]
            return stored, KnownAnswers.read(connection, keys)

        await self._count_waiting(job.project)
        stored, known = await outages.read(self._ledger, self._readers, read)
        if stored is not None:
            stage.resume(stored, known)
        return stage

    async def _count_waiting(self, project: str) -> None:
        if project not in self._waiting:
            counted = await outages.read(
                self._ledger, self._readers, lambda connection: tasks.count(connection, project)
            )
            self._waiting.setdefault(project, Waiting(*counted))

    def waiting(self, project: str) -> Waiting:
        """The tasks of a project that wait for votes."""
        return self._waiting.get(project, Waiting())

    def add_waiting(self, project: str, task: BatchTask, sign: int) -> None:
        """Count a task that begins to wait (+1) or has ended (−1)."""
        waiting, everyone = self.waiting(project), int(task.exploration == "everyone")
        self._waiting[project] = Waiting(waiting.rounds + sign, waiting.everyone + sign * everyone)

    async def look_up(self, keys: Sequence[str]) -> KnownAnswers:
        """Read what the ledger holds under some keys."""
        return await outages.read(
            self._ledger, self._readers, lambda connection: KnownAnswers.read(connection, keys)
        )

    async def store(self, task: BatchTask, wanted: Sequence[BatchLine], used: Sequence[str]) -> None:
        """Store what a task waits for, in one transaction, before any of it can be sent.

        Raises:
            TaskDeletedError: the task was deleted meanwhile.
        """

        def write(connection: Connection) -> None:
            if deleted_tasks.is_deleted(connection, task.project, task.task):
                raise TaskDeletedError("the task was deleted meanwhile", where=f"task {task.task}")
            tasks.store(connection, task)
            for line in wanted:
                lines.want(connection, line)
            for key in used:
                answers.link_task(connection, key, task.project, task.task)

        await self._writer.persist(write)


@dataclass(slots=True)
class BatchStage:
    """One task's stage: votes for what is stored, and lines for what is not.

    Attributes:
        stages: makes the stages.
        job: the task.
        batching: which models are asked in batches.
        questions: a hash of what is asked.
        prompt: what the models are shown.
        stored: what the task waited for so far; ``None`` at first.
        replies: the replies of the models that were asked in earlier stages.
    """

    stages: BatchStages
    job: Job
    batching: Batching
    questions: str
    prompt: TaskPrompt
    stored: BatchTask | None = None
    replies: dict[str, ModelReply] = field(default_factory=dict)
    _asked_now: dict[str, str] = field(default_factory=dict)
    _wanted: list[BatchLine] = field(default_factory=list)
    _used: list[str] = field(default_factory=list)

    def resume(self, stored: BatchTask, known: KnownAnswers) -> None:
        """Take the answers of earlier stages.

        Raises:
            BatchPendingError: some are not back yet.
        """
        self.stored = stored
        job, asked = self.job, self.prompt.questions
        for stage in stored.asked:
            for arm, key in stage.items():
                standing = known.again(key, job.project, job.task, asked, retry=job.again)
                if standing.waits:
                    raise pending(job)
                if standing.reply is None:  # lost with a deleted task, or tried again
                    self._want(arm, key)
                else:
                    self.replies[arm] = standing.reply

    @property
    def incomplete(self) -> bool:
        """Whether a line of an earlier stage has to be bought again."""
        return bool(self._wanted)

    def adapt(self, policy: Policy) -> Policy:
        """The policy for what is left of the task: its draw stays, and its stages are counted."""
        if not isinstance(policy, Staged):
            return policy
        policy = policy.besides(self.stages.waiting(self.job.project))
        if self.stored is not None and self.stored.exploration is not None:
            policy = policy.resumed(_drawn(self.stored))
        return policy.in_stages(self.batching.stages - len(self.stored.asked if self.stored else ()))

    def fixed(self, plan: Plan) -> Plan:
        """A new plan with the subset of the first one, for a policy without stages."""
        if self.stored is None or plan.stages is not None:
            return plan
        first = self.stored.drawn
        subset = tuple([arm for arm in plan.arms if arm in first["subset"]])
        propensity = np.array([first["propensity"].get(arm, 0.0) for arm in plan.arms])
        return replace(plan, subset=subset, propensity=propensity)

    async def vote(self, job: Job, arm: str, prompt: TaskPrompt) -> ModelReply:
        """The model's vote, if it is stored.

        Raises:
            BatchPendingError: it is not; the line is noted, and :meth:`keep` stores it.
        """
        if arm not in self.batching.models:
            return await self.stages.voters.vote(job, arm, prompt)
        fingerprint = self.stages.pool.fingerprint(arm, prompt.for_model(arm), prompt.schema)
        keys = [attempt_key(fingerprint, attempt) for attempt in range(ATTEMPTS)]
        known = await self.stages.look_up(keys)
        standing: StandingAnswer = known.first(
            fingerprint, job.project, job.task, prompt.questions, retry=job.again
        )
        self._asked_now[arm] = standing.key
        if standing.reply is not None:
            self._used.append(standing.key)
            return standing.reply
        if not standing.waits:
            self._want(arm, standing.key)
        raise pending(job)

    async def keep(self, plan: Plan | None) -> None:
        """Store the plan and the lines of this stage. The plan of the first stage stays.

        Raises:
            TaskDeletedError: the task was deleted meanwhile.
        """
        asked = [*(self.stored.asked if self.stored else ()), *([self._asked_now] if self._asked_now else ())]
        task = self.stored
        if task is None and plan is not None:
            task = self._first(plan)
            self.stages.add_waiting(self.job.project, task, +1)
        if task is not None:
            await self.stages.store(replace(task, asked=asked), self._wanted, self._used)

    def ended(self) -> None:
        """The task has its round."""
        if self.stored is not None:
            self.stages.add_waiting(self.job.project, self.stored, -1)

    def _want(self, arm: str, key: str) -> None:
        pool, messages, schema = self.stages.pool, self.prompt.for_model(arm), self.prompt.schema
        provider = pool.batch_provider(arm)
        body = provider.body(pool.request(arm, messages, schema))
        self._wanted.append(
            BatchLine(
                key=key,
                project=self.job.project,
                task=self.job.task,
                model=arm,
                body=body,
                questions=[question.name for question in self.prompt.questions],
                ceiling_usd=pool.batch_ceiling(arm, messages, schema),
                counted_tokens=pool.count(arm, messages),
                most_input=pool.most_input(arm, messages, schema),
                size=provider.size(body),
                created_at=self.stages.clock(),
            )
        )

    def _first(self, plan: Plan) -> BatchTask:
        drawn: dict[str, Any] = {
            "subset": list(plan.subset),
            "propensity": dict(zip(plan.arms, plan.propensity.tolist(), strict=True)),
        }
        exploration = None
        if plan.stages is not None:
            first = Drawn.of(plan.stages)
            exploration = first.exploration
            drawn |= {"rates": list(first.rates), "first": list(first.first)}
        return BatchTask(
            project=self.job.project,
            task=self.job.task,
            questions=self.questions,
            exploration=exploration,
            drawn=drawn,
            plan={name: plan.describe(name) for name in plan.estimates},
            asked=(),
            created_at=self.stages.clock(),
        )


def pending(job: Job) -> BatchPendingError:
    """The error of a task that waits."""
    return BatchPendingError(
        "waits for a provider's batch",
        where=f"task {job.task}",
        fix="run the same command again when it is back; camvo jobs lists what is out",
    )


def _drawn(stored: BatchTask) -> Drawn:
    everyone, certificate = stored.drawn["rates"]
    exploration: Any = stored.exploration
    return Drawn(exploration, (everyone, certificate), tuple(stored.drawn["first"]))


def _hash_of(questions: Sequence[JobQuestion]) -> str:
    keys: Mapping[str, list[str]] = {q.name: [q.key.question, q.key.epoch] for q in questions}
    return hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()
