"""The models that vote on a task: which can be asked, at what price, and how each votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from backend.annotation.job import Job
from backend.annotation.task_prompt import TaskPrompt
from backend.errors import BadAnswerError, ModelError
from backend.models import Pool
from backend.models.caching_pool import CachingPool
from backend.models.model_query import ModelQuery
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.message_parts import image_addresses
from backend.questions.question import TaskQuestion
from backend.telemetry import metrics

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
    """

    votes: Mapping[str, str]
    cost: float
    failure: str | None = None
    confidences: Mapping[str, float] = field(default_factory=dict)
    version: str | None = None

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

    def __init__(self, queries: CachingPool, pool: Pool) -> None:
        self._queries, self._pool = queries, pool

    def expected_costs(self, job: Job, prompt: TaskPrompt) -> dict[str, float]:
        """The expected price in $ of each model that may be asked.

        Resting models are left out unless all of them rest. If the prompt has an image, models that cannot be
        shown it are left out.
        """
        names = [model.name for model in job.settings.models]
        if addresses := image_addresses(prompt.messages):
            names = self._shown(job, addresses)
        batched = frozenset() if job.batching is None else job.batching.models
        awake = [name for name in names if name in batched or not self._pool.resting(name)]
        return {
            name: (self._pool.batch_cost if name in batched else self._pool.cost)(
                name, prompt.for_model(name)
            )
            for name in awake or names
        }

    def can_see(self, job: Job, addresses: Sequence[str] = ()) -> bool:
        """Whether a model that may be asked can be shown images, at these addresses if any are given.

        The policy ``single`` asks only its own model.
        """
        shown, single = self._shown(job, addresses), job.settings.policy.model
        return bool(shown) if single is None else single in shown

    async def vote(self, job: Job, arm: str, prompt: TaskPrompt) -> ModelReply:
        """Ask one model; one that fails gives a reply without votes."""
        messages, settings = prompt.for_model(arm), job.settings
        query = ModelQuery(
            job.project,
            job.task,
            arm,
            messages,
            prompt.schema,
            settings.budget,
            prompt.questions,
            job.again,
            job.purse,
        )
        try:
            answer = await self._queries.ask(
                query,
                patience=settings.deadline,
                usable=lambda content: bool(votes_in(content, prompt.questions)),
            )
        except ModelError as error:
            metrics.votes_missing.labels(model=arm, reason=error.code).inc()
            return ModelReply({}, error.usage.cost if error.usage else 0.0, error.code)
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


def votes_in(content: str, questions: Sequence[TaskQuestion]) -> dict[str, str]:
    """Return the votes in an answer by question; empty if it is unusable."""
    try:
        return parse_answer(content, questions)
    except BadAnswerError:
        return {}
