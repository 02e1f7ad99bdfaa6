"""The models that vote on a task: which can be asked, at what price, and how each votes."""

from __future__ import annotations

import structlog

from backend.annotation.job import Job
from backend.annotation.task_prompt import TaskPrompt
from backend.errors import BadAnswerError, ModelError
from backend.models import Pool
from backend.models.caching_pool import CachingPool
from backend.models.model_query import ModelQuery
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.message_parts import image_count
from backend.telemetry import metrics

_log = structlog.get_logger(__name__)


class Voters:
    """The pool's models, as voters on one task at a time. Used from one event loop only."""

    def __init__(self, queries: CachingPool, pool: Pool) -> None:
        self._queries, self._pool = queries, pool

    def expected_costs(self, job: Job, prompt: TaskPrompt) -> dict[str, float]:
        """The expected price in $ of each model that may be asked.

        Resting models are left out unless all of them rest. If the prompt has an image, models that take no
        images are left out.
        """
        names = [model.name for model in job.settings.models]
        if image_count(prompt.messages):
            names = self._with_vision(job)
        awake = [name for name in names if not self._pool.resting(name)]
        return {name: self._pool.cost(name, prompt.for_model(name)) for name in awake or names}

    def can_see(self, job: Job) -> bool:
        """Whether a model that may be asked takes images; the policy ``single`` asks only its own model."""
        with_vision, single = self._with_vision(job), job.settings.policy.model
        return bool(with_vision) if single is None else single in with_vision

    async def vote(self, job: Job, arm: str, prompt: TaskPrompt) -> tuple[dict[str, str], float]:
        """Ask one model.

        Returns:
            Its votes by question, empty if it failed, and what the call cost in $.
        """
        messages, settings = prompt.for_model(arm), job.settings
        query = ModelQuery(
            job.project, job.task, arm, messages, prompt.schema, settings.budget, prompt.questions
        )
        try:
            reply = await self._queries.ask(query, patience=settings.deadline)
        except ModelError as error:
            metrics.votes_missing.labels(model=arm, reason=error.code).inc()
            return {}, error.usage.cost if error.usage else 0.0
        try:
            votes = parse_answer(reply.content, prompt.questions)
        except BadAnswerError as error:
            votes = {}
            metrics.votes_missing.labels(model=arm, reason=error.code).inc()
            _log.info("no_vote", model=arm, task=job.task, code=error.code)
        self._pool.judge(arm, usable=bool(votes))
        return votes, reply.cost

    def _with_vision(self, job: Job) -> list[str]:
        return [model.name for model in job.settings.models if self._pool.sees(model.name)]
