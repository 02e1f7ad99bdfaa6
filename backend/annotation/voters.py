"""The models that vote on a task: which can be asked, at what price, and how each votes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import structlog

from backend.annotation.job import Job
from backend.annotation.task_prompt import TaskPrompt
from backend.errors import BadAnswerError, ModelError
from backend.models import Pool
from backend.models.caching_pool import CachingPool
from backend.models.model_query import ModelQuery, PaidAnswer
from backend.models.packing.packed_pool import PackedPool
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.message_parts import Messages, image_addresses
from backend.questions.prompts.packs import PACK_VERSION, TYPICAL_ID, PackedTask
from backend.questions.question import TaskQuestion
from backend.telemetry import metrics
from camvo.twins.same_model import twins

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What came of asking one model.

    Attributes:
        votes: question → vote; empty if the model failed.
        cost: what was paid for it, $.
        failure: the code of the reason why there are no votes; ``None`` if there are.
        confidences: question → how sure the model says it is of its vote, in [0, 1]; questions of which it
            says nothing are absent.
        version: the model's name at its provider, as the answer reports it; ``None`` if it reports none.
        together: whether the votes come from a prompt about several tasks.
    """

    votes: Mapping[str, str]
    cost: float
    failure: str | None = None
    confidences: Mapping[str, float] = field(default_factory=dict)
    version: str | None = None
    together: bool = False

    @classmethod
    def voted(
        cls, votes: Mapping[str, str], cost: float, confidences: Mapping[str, float], version: str | None
    ) -> ModelReply:
        """The reply of a model that voted.

        Args:
            votes: question → vote.
            cost: what was paid for it, $.
            confidences: those of the answer, also of questions without a vote.
            version: what the provider says answered.
        """
        sure = {name: confidence for name, confidence in confidences.items() if name in votes}
        # Fingerprints of several systems alternate all the time, so they tell nothing about the model.
        return cls(votes, cost, confidences=sure, version=(version or "").partition(" ")[0] or None)


class Voters:
    """The pool's models, as voters on one task at a time. Used from one event loop only."""

    def __init__(self, queries: CachingPool, pool: Pool, packs: PackedPool | None = None) -> None:
        self._queries, self._pool, self._packs = queries, pool, packs

    def expected_costs(
        self, job: Job, prompt: TaskPrompt, unpacked: Collection[str] = ()
    ) -> dict[str, float]:
        """The expected price in $ of each arm that may be asked.

        Resting models are left out unless all of them rest. If the prompt has an image, models that cannot be
        shown it are left out. A model's packed arm stands beside it if the task may share a prompt.

        Args:
            job: the task.
            prompt: what models are shown.
            unpacked: the packed arms that are not to be asked.
        """
        names = [model.name for model in job.settings.models]
        if addresses := image_addresses(prompt.messages):
            names = self._shown(job, addresses)
        batched = frozenset() if job.batching is None else job.batching.models
        awake = [name for name in names if name in batched or not self._pool.resting(name)]
        costs: dict[str, float] = {}
        for model in job.settings.models:
            name, packed = model.name, model.packed
            if name not in (awake or names):
                continue
            price = self._pool.batch_cost if name in batched else self._pool.cost
            costs[name] = price(name, prompt.for_model(name))
            if packed is None or prompt.pack is None or self._packs is None or packed.name in unpacked:
                continue
            if name in batched or not self._pool.resting(packed.name):
                texts = prompt.pack.fenced(TYPICAL_ID)
                costs[packed.name] = self._pool.packed_cost(
                    packed.name, prompt.pack.system, texts, batched=name in batched
                )
        return costs

    def preparing(self, *, alone: bool) -> AbstractContextManager[None]:
        """During the block, others wait for this task in case it shares their prompt.

        Args:
            alone: whether it will share none.
        """
        return nullcontext() if alone or self._packs is None else self._packs.collector.preparing()

    def waiting(self, prompt: TaskPrompt) -> AbstractContextManager[None]:
        """During the block, the task waits for answers, and nobody waits for it."""
        packs = None if prompt.alone else self._packs
        return nullcontext() if packs is None else packs.collector.waiting()

    def can_see(self, job: Job, addresses: Sequence[str] = ()) -> bool:
        """Whether a model that may be asked can be shown images, at these addresses if any are given.

        The policy ``single`` asks only its own model.
        """
        shown, single = self._shown(job, addresses), job.settings.policy.model
        return bool(shown) if single is None else single in shown

    async def vote(self, job: Job, arm: str, prompt: TaskPrompt) -> ModelReply:
        """Ask one arm; one that fails gives a reply without votes.

        A task that is missing in the answer to a prompt about several is asked about singly.
        """
        model = twins(job.settings.arms).get(arm)
        if model is None or self._packs is None or prompt.pack is None:
            return await self._vote(job, arm, prompt)
        together = await self._packed_vote(self._packs, prompt.pack, job, arm, prompt)
        if together.votes or together.failure is not None:
            return together
        return asked_singly(together, await self._vote(job, model, prompt))

    async def _packed_vote(
        self, packs: PackedPool, task: PackedTask, job: Job, arm: str, prompt: TaskPrompt
    ) -> ModelReply:
        """Ask about the task in a prompt with others; without votes and a failure if it was missing."""
        query, usable = _query(job, arm, prompt, prompt.messages), _usable(prompt)
        answer = await _heard(packs.ask(query, task, job.settings.deadline, usable), arm)
        if isinstance(answer, ModelReply):
            return answer
        return packed_reply(votes_in(answer.content, prompt.questions), answer.cost, answer.version)

    async def _vote(self, job: Job, arm: str, prompt: TaskPrompt) -> ModelReply:
        """Ask one model about this task alone."""
        query = _query(job, arm, prompt, prompt.for_model(arm))
        asking = self._queries.ask(query, patience=job.settings.deadline, usable=_usable(prompt))
        answer = await _heard(asking, arm)
        if isinstance(answer, ModelReply):
            return answer
        votes = votes_in(answer.content, prompt.questions)
        self._pool.judge(arm, usable=bool(votes))
        if votes:
            return ModelReply.voted(votes, answer.cost, answer.confidences, answer.version)
        metrics.votes_missing.labels(model=arm, reason=BadAnswerError.code).inc()
        _log.info("no_vote", model=arm, task=job.task, code=BadAnswerError.code)
        return ModelReply({}, answer.cost, BadAnswerError.code)

    def _shown(self, job: Job, addresses: Sequence[str]) -> list[str]:
        names = (model.name for model in job.settings.models)
        return [name for name in names if self._pool.can_be_shown(name, addresses)]


def packed_reply(votes: Mapping[str, str], cost: float, version: str | None) -> ModelReply:
    """The reply of a packed arm; without votes if the task is missing in the answer.

    Args:
        votes: question → vote.
        cost: the task's share, $.
        version: what the provider says answered.
    """
    named = (version or "").partition(" ")[0]
    return ModelReply(votes, cost, version=_packed_version(named), together=True)


def asked_singly(together: ModelReply, alone: ModelReply) -> ModelReply:
    """The reply of a packed arm whose answer says nothing about the task: the single vote, at both prices."""
    version = _packed_version(alone.version) if alone.votes else None
    return replace(alone, cost=together.cost + alone.cost, confidences={}, version=version)


def _packed_version(version: str | None) -> str:
    """The version of a packed arm: another wording of its prompts starts its history anew, too."""
    return f"{version or 'unnamed'} pack-{PACK_VERSION}"


def _query(job: Job, arm: str, prompt: TaskPrompt, messages: Messages) -> ModelQuery:
    return ModelQuery(
        job.project,
        job.task,
        arm,
        messages,
        prompt.schema,
        job.settings.budget,
        prompt.questions,
        job.again,
        job.purse,
    )


def _usable(prompt: TaskPrompt) -> Callable[[str], bool]:
    """Says whether an answer gives a vote."""
    return lambda content: bool(votes_in(content, prompt.questions))


async def _heard(asking: Awaitable[PaidAnswer], arm: str) -> PaidAnswer | ModelReply:
    """The answer, or the reply without votes of a model that failed."""
    try:
        return await asking
    except ModelError as error:
        metrics.votes_missing.labels(model=arm, reason=error.code).inc()
        return ModelReply({}, error.usage.cost if error.usage else 0.0, error.code)


def votes_in(content: str, questions: Sequence[TaskQuestion]) -> dict[str, str]:
    """Return the votes in an answer by question; empty if it is unusable."""
    try:
        return parse_answer(content, questions)
    except BadAnswerError:
        return {}
