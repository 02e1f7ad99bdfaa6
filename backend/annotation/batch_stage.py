"""One task's stage of a batch: the votes that are there, and the lines that are still to be bought."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy import Connection

from backend.annotation.asking import Asking, Voters
from backend.annotation.job import Batching, Job, JobQuestion, TaskPrompt
from backend.annotation.replies import (
    ModelReply,
    Replies,
    asked_singly,
    packed_reply,
    unusable_code,
    voted_reply,
    votes_in,
)
from backend.errors import BatchPendingError, CutOffError, TaskDeletedError, UnusableAnswersError
from backend.ledger import LedgerAccess, answers, projects
from backend.ledger.answers import StoredAnswer
from backend.ledger.batches import BatchLine, BatchTask, Lines, WaitingTasks
from backend.models import Pool
from backend.models.batches.provider import provider_body
from backend.models.call_ledger import ATTEMPTS, PaidAnswer, attempt_key, is_last_attempt
from backend.models.pack_ledger import pack_key
from backend.questions.question import TaskQuestion
from camvo.policies.policy import Conditions, Drawn, Plan, Policy, Waiting
from camvo.twins import twins


@dataclass(frozen=True, slots=True)
class _StandingAnswer:
    """The state of one model's answer."""

    key: str
    reply: ModelReply | None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class _KnownAnswers:
    """Stored answers and lines, by key."""

    answers: Mapping[str, StoredAnswer]
    lines: Mapping[str, BatchLine]

    def __or__(self, others: _KnownAnswers) -> _KnownAnswers:
        """These answers and lines, and others."""
        return _KnownAnswers({**self.answers, **others.answers}, {**self.lines, **others.lines})

    @classmethod
    def read(cls, connection: Connection, keys: Sequence[str]) -> _KnownAnswers:
        """Read what the ledger holds under some keys."""
        return cls(answers.find_by_key(connection, keys), Lines(connection).find(keys))

    def again(
        self, key: str, project: str, task: int, questions: Sequence[TaskQuestion], *, retry: bool
    ) -> _StandingAnswer:
        """How far an answer is that the task asked for in an earlier stage."""
        if (stored := self.answers.get(key)) is not None:
            return _StandingAnswer(key, self._reply(stored, project, task, questions))
        line = self.lines.get(key)
        if line is not None and line.state in ("wanted", "out"):
            return _StandingAnswer(key, None, waits=True)
        if line is not None and line.state == "failed" and not retry:
            return _StandingAnswer(key, ModelReply({}, line.usd, line.code))
        return _StandingAnswer(key, None)

    def packed(
        self, key: str, project: str, task: int, questions: Sequence[TaskQuestion], *, retry: bool
    ) -> _StandingAnswer:
        """How far the answer of a packed arm is.

        Its reply has neither votes nor a failure if the task has to be asked about singly: it is missing in
        the answer, or the prompt failed permanently.
        """
        standing = self.again(key, project, task, questions, retry=retry)
        if (reply := standing.reply) is None:
            return standing
        answer = PaidAnswer("", reply.cost, earlier=reply.earlier, version=reply.version)
        return _StandingAnswer(key, packed_reply(reply.votes, answer))

    def _reply(
        self, stored: StoredAnswer, project: str, task: int, questions: Sequence[TaskQuestion]
    ) -> ModelReply:
        line = self.lines.get(stored.key)
        ours = line is not None and (line.project, line.task) == (project, task) and not stored.counted
        cost = line.usd if line is not None and ours else 0.0
        earlier = 0.0 if cost else stored.paid_by(project, task)
        votes = votes_in(stored.content, questions)
        if not votes:
            code = unusable_code(stored.content, cut_off=stored.cut_off)
            return ModelReply({}, cost, code, earlier=earlier)
        return voted_reply(
            votes,
            PaidAnswer(
                stored.content, cost, earlier=earlier, confidences=stored.confidences, version=stored.version
            ),
        )


def _wanted_line(  # noqa: PLR0917 - what a line is made of
    pool: Pool, job: Job, prompt: TaskPrompt, arm: str, key: str, now: float
) -> BatchLine:
    """Return the line that is to be sent."""
    packed = prompt.pack is not None and pool[arm].pack_size > 1
    sizes = _packed(prompt) if packed else _alone(pool, prompt, arm)
    return BatchLine(
        key=key,
        project=job.project,
        task=job.task,
        model=arm,
        questions=[question.name for question in prompt.questions],
        created_at=now,
        **sizes,
    )


def _packed(prompt: TaskPrompt) -> dict[str, Any]:
    body = None if prompt.pack is None else prompt.pack.to_json()
    return {"body": body, "ceiling_usd": 0.0, "counted_tokens": 0, "most_input": 0, "size": 0}


def _alone(pool: Pool, prompt: TaskPrompt, arm: str) -> dict[str, Any]:
    messages, schema, provider = prompt.for_model(arm), prompt.schema, pool[arm].batches
    body = provider_body(pool[arm].model.batch_request(messages, schema))
    return {
        "body": body,
        "ceiling_usd": pool[arm].model.ceiling(messages, schema, batched=True),
        "counted_tokens": pool[arm].model.count(messages),
        "most_input": pool[arm].model.most_input(messages, schema),
        "size": provider.size(body),
    }


class BatchStages:
    """Makes the stages of tasks. Used from one event loop only.

    Args:
        voters: the models, asked at once.
        pool: the models.
        access: reads and writes answers, lines and waiting tasks.
    """

    def __init__(self, voters: Voters, pool: Pool, access: LedgerAccess) -> None:
        self.voters, self.pool, self.clock = voters, pool, access.clock
        self._access = access
        self._waiting: dict[str, Waiting] = {}
        self._failed: dict[tuple[str, int], BatchTask] = {}

    async def begin(
        self, job: Job, batching: Batching, questions: Sequence[JobQuestion], prompt: TaskPrompt
    ) -> _BatchStage:
        """Look up what a task has asked for so far.

        A task that had no votes is asked about again by the next run, not by the next round of batches.

        Raises:
            BatchPendingError: the task waits for an earlier stage.
        """
        asked_about = _hash_of(questions)

        def read(connection: Connection) -> tuple[BatchTask | None, _KnownAnswers]:
            stored = WaitingTasks(connection).find(job.project, job.task)
            stored = stored or self._failed.get((job.project, job.task))
            if stored is not None and stored.questions != asked_about:
                stored = None
            keys = [key for asked in ([] if stored is None else stored.asked) for key in asked.values()]
            return stored, _KnownAnswers.read(connection, keys)

        await self._count_waiting(job.project)
        stored, known = await self._access.read(read)
        stage = _BatchStage(self, job, batching, asked_about, prompt, known, stored)
        await stage.resume()
        return stage

    async def refuse_waiting(self, job: Job, questions: Sequence[JobQuestion]) -> None:
        """Refuse to ask other models at once about a task whose votes on the questions are in a batch.

        Its plan comes with the batch. What was bought beside it would be paid at the full price, and might
        not be needed.

        Raises:
            BatchPendingError: the task waits for them.
        """
        stored = await self._access.read(
            lambda connection: WaitingTasks(connection).find(job.project, job.task)
        )
        if stored is not None and stored.questions == _hash_of(questions):
            raise _pending(job)

    async def _count_waiting(self, project: str) -> None:
        if project not in self._waiting:
            counted = await self._access.read(lambda connection: WaitingTasks(connection).count(project))
            self._waiting.setdefault(project, Waiting(*counted))

    def waiting(self, project: str) -> Waiting:
        """The tasks of a project that wait for votes."""
        return self._waiting.get(project, Waiting())

    def add_waiting(self, project: str, task: BatchTask, sign: int) -> None:
        """Count a task that begins to wait (+1) or has ended (−1)."""
        waiting, everyone = self.waiting(project), int(task.exploration == "everyone")
        self._waiting[project] = Waiting(waiting.rounds + sign, waiting.everyone + sign * everyone)

    def failed(self, task: BatchTask) -> None:
        """Keep the last stage of a task that had no votes, until the process ends."""
        self._failed[task.project, task.task] = task

    async def look_up(self, keys: Sequence[str]) -> _KnownAnswers:
        """Read what the ledger holds under some keys."""
        return await self._access.read(lambda connection: _KnownAnswers.read(connection, keys))

    async def store(self, task: BatchTask, wanted: Sequence[BatchLine], used: Sequence[str]) -> None:
        """Store what a task waits for, in one transaction, before any of it can be sent.

        Raises:
            TaskDeletedError: the task was deleted meanwhile.
        """

        def write(connection: Connection) -> None:
            if projects.is_deleted(connection, task.project, task.task):
                raise TaskDeletedError("the task was deleted meanwhile", where=f"task {task.task}")
            WaitingTasks(connection).store(task)
            for line in wanted:
                Lines(connection).want(line)
            answers.link_tasks(connection, [(key, (task.project, task.task)) for key in used])

        await self._access.writer.persist(write)


class _BatchStage(Asking):
    """One task's stage: votes for what is stored, and lines for what is not."""

    def __init__(  # noqa: PLR0917 - what a stage needs
        self,
        stages: BatchStages,
        job: Job,
        batching: Batching,
        questions: str,
        prompt: TaskPrompt,
        known: _KnownAnswers,
        stored: BatchTask | None = None,
    ) -> None:
        super().__init__(stages.voters, job, prompt)
        self.stages, self.batching, self.questions = stages, batching, questions
        self.known, self.stored = known, stored
        self._asked: list[dict[str, str]] = []
        self._asked_now: dict[str, str] = {}
        self._wanted: list[BatchLine] = []
        self._used: list[str] = []
        self._looked_up: set[str] = set()

    async def resume(self) -> None:
        """Take the answers of earlier stages."""
        waits = False
        self._asked = [dict(asked) for asked in (self.stored.asked if self.stored else ())]
        self._looked_up.update(key for asked in self._asked for key in asked.values())
        for asked in self._asked:
            replies: dict[str, ModelReply] = {}
            for arm in list(asked):
                if (reply := await self._reply(arm, asked)) is None:
                    waits = True
                else:
                    replies[arm] = reply
            self.replies |= _once_each(replies)
        self.asked = frozenset(arm for asked in self._asked for arm in asked)
        if waits:
            await self._keep(None)
            raise _pending(self.job)

    def limit(self, conditions: Conditions) -> Conditions:
        """The conditions for the rest of the task: its draw stays, and its stages are counted."""
        return replace(
            conditions,
            waiting=self.stages.waiting(self.job.project),
            drawn=None if self.stored is None else _drawn(self.stored),
            stages=self.batching.stages - len(self._asked),
        )

    def fixed(self, plan: Plan) -> Plan:
        """A new plan with the subset of the first one, for a policy without stages."""
        if self.stored is None or plan.stages is not None:
            return plan
        first = self.stored.drawn
        subset = tuple([arm for arm in plan.arms if arm in first["subset"]])
        propensity = np.array([first["propensity"].get(arm, 0.0) for arm in plan.arms])
        return replace(plan, subset=subset, propensity=propensity)

    async def ask(self, policy: Policy, plan: Plan, known: Mapping[str, ModelReply]) -> Replies:
        """Ask by stored answers; what has to be bought first is stored with the plan."""
        try:
            return await super().ask(policy, plan, known)
        except BatchPendingError:
            await self._keep(plan)
            raise

    async def vote(self, arm: str) -> ModelReply:
        """The arm's vote, if it is stored."""
        if self._packed_model(arm, arm) not in self.batching.models:
            return await super().vote(arm)
        if (reply := await self._reply(arm, self._asked_now)) is None:
            raise _pending(self.job)
        return reply

    async def _reply(self, arm: str, asked: dict[str, str]) -> ModelReply | None:
        """An arm's reply; ``None`` if it is not there yet, and then its line is noted.

        A task that is missing in a packed answer is asked about singly. ``asked`` (arm → the key of its
        answer, in the stage that asks it) is completed.
        """
        model, pack = self._packed_model(arm), self.prompt.pack
        if model is None or pack is None:
            return await self._alone(arm, asked)
        key = asked.setdefault(arm, pack_key(self.stages.pool, arm, pack))
        known = await self._look_up([key])
        together = self._noted(arm, known.packed(key, *self._about, retry=self.job.again))
        if together is None or together.votes:
            return together
        alone = await self._alone(model, asked)
        return None if alone is None else asked_singly(together, alone)

    async def _alone(self, arm: str, asked: dict[str, str]) -> ModelReply | None:
        """The reply of an arm that is asked about the task alone; ``None`` if it is not there yet."""
        retry = self.job.again
        if (key := asked.get(arm)) is not None:
            return self._noted(arm, (await self._look_up([key])).again(key, *self._about, retry=retry))
        standing = await self._not_asked(arm)
        asked[arm] = standing.key
        return self._noted(arm, standing)

    async def _not_asked(self, arm: str) -> _StandingAnswer:
        """How far the answer of an arm is that the task has not asked for yet.

        Answers of earlier attempts without a vote are passed over, as for a single call.
        """
        fingerprint = self.stages.pool[arm].model.fingerprint(self.prompt.for_model(arm), self.prompt.schema)
        await self._look_up([attempt_key(fingerprint, attempt) for attempt in range(ATTEMPTS)])
        retry = self.job.again
        for attempt in itertools.count():
            key = attempt_key(fingerprint, attempt)
            known = await self._look_up([key])
            standing = known.again(key, *self._about, retry=retry or attempt == 0)
            if standing.reply is None or standing.reply.votes:
                return standing
            cut_off = standing.reply.failure == CutOffError.code
            if is_last_attempt(attempt, cut_off=cut_off, again=retry):
                break
        if cut_off:
            return standing
        return replace(standing, reply=ModelReply({}, 0.0, UnusableAnswersError.code))

    @property
    def _about(self) -> tuple[str, int, Sequence[TaskQuestion]]:
        return self.job.project, self.job.task, self.prompt.questions

    def _packed_model(self, arm: str, otherwise: str | None = None) -> str | None:
        """The model whose packed arm this is."""
        return twins(self.job.settings.arms).get(arm, otherwise)

    async def _look_up(self, keys: Sequence[str]) -> _KnownAnswers:
        if new := [key for key in keys if key not in self._looked_up]:
            self.known |= await self.stages.look_up(new)
            self._looked_up.update(new)
        return self.known

    def _noted(self, arm: str, standing: _StandingAnswer) -> ModelReply | None:
        """Return the reply if it is stored. A line that is neither stored nor sent is marked as wanted."""
        if standing.reply is not None:
            self._used.append(standing.key)
        elif not standing.waits:
            stages = self.stages
            line = _wanted_line(stages.pool, self.job, self.prompt, arm, standing.key, stages.clock())
            self._wanted.append(line)
        return standing.reply

    async def _keep(self, plan: Plan | None) -> None:
        """Store what is new: the plan and the lines of this stage. The plan of the first stage stays."""
        asked = [*self._asked, *([self._asked_now] if self._asked_now else ())]
        task = self.stored
        if task is None and plan is not None:
            task = self._first(plan)
            self.stages.add_waiting(self.job.project, task, +1)
        if task is not None and (self._wanted or asked != list(task.asked)):
            await self.stages.store(replace(task, asked=asked), self._wanted, self._used)

    def ended(self) -> None:
        """The task has its round."""
        if self.stored is not None:
            self.stages.add_waiting(self.job.project, self.stored, -1)

    def failed(self) -> None:
        """The task has no votes: it waits no more."""
        if self.stored is not None:
            self.ended()
            self.stages.failed(self.stored)

    def _first(self, plan: Plan) -> BatchTask:
        drawn: dict[str, Any] = {
            "subset": list(plan.subset),
            "propensity": dict(zip(plan.arms, plan.propensity.tolist(), strict=True)),
        }
        exploration = None
        if plan.stages is not None:
            first = Drawn.of(plan.stages)
            exploration = first.exploration
            drawn |= {"rate": first.rate, "first": list(first.first)}
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


def _pending(job: Job) -> BatchPendingError:
    """The error of a task that waits."""
    return BatchPendingError(
        "waits for a provider's batch",
        where=f"task {job.task}",
        fix="run the same command again when it is back; camvo jobs lists what is out",
    )


def _once_each(replies: Mapping[str, ModelReply]) -> dict[str, ModelReply]:
    """The replies of a stage, without the single one that a packed arm's reply is made of."""
    packed = twins(replies)
    made_of = {packed[arm] for arm, reply in replies.items() if arm in packed and not reply.together}
    return {arm: reply for arm, reply in replies.items() if arm not in made_of}


def _drawn(stored: BatchTask) -> Drawn | None:
    """The draw of the task's first plan; ``None`` if its policy does not draw."""
    if stored.exploration is None:
        return None
    exploration: Any = stored.exploration
    return Drawn(exploration, stored.drawn["rate"], tuple(stored.drawn["first"]))


def _hash_of(questions: Sequence[JobQuestion]) -> str:
    keys: Mapping[str, list[str]] = {q.name: [q.key.question, q.key.epoch] for q in questions}
    return hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()
