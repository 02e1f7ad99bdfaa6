"""The models that are asked about a task: what each is sent, what that costs, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from backend.annotation.recording import Asked, Job
from backend.errors import BadAnswerError, ModelError
from backend.learning.examples import Examples
from backend.learning.exemplary import label_texts
from backend.learning.states import StateKey
from backend.models import Pool
from backend.models.caching_pool import CachingPool
from backend.models.model_query import ModelQuery
from backend.questions import TaskQuestion
from backend.questions.prompts.answers import answer_schema, parse_answer
from backend.questions.prompts.message_parts import Messages, image_count
from backend.questions.prompts.messages import PromptExample, prompt_messages
from backend.telemetry import metrics
from camvo.typing import Array

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What models are sent about a task, and the questions that their answers are read for.

    ``shown`` says of each model how many examples it gets, where there are any.
    """

    questions: Sequence[TaskQuestion]
    messages: Messages
    schema: Mapping[str, Any]
    examples: Messages = ()
    tasks: Sequence[int] = ()
    shown: Mapping[str, int] = field(default_factory=dict)

    def to(self, arm: str) -> Messages:
        """The messages for one model."""
        return self.examples if self.shown.get(arm) else self.messages


class Voters:
    """The pool, as one task's questions see it. Used on the process's one event loop only."""

    def __init__(self, queries: CachingPool, pool: Pool, examples: Examples) -> None:
        self._queries, self._pool, self._examples = queries, pool, examples

    async def prompt(self, job: Job, asked: Sequence[Asked], contexts: Sequence[Array]) -> Prompt:
        """What the models are sent about these questions of a task, with examples where they are wanted."""
        questions = [one.question for one in asked]
        messages = prompt_messages(questions, job.settings.instructions)
        prompt = Prompt(questions, messages, answer_schema(questions))
        if job.settings.few_shot and len(asked) == 1:
            return await self._with_examples(job, asked[0], contexts[0], prompt)
        return prompt

    def costs(self, job: Job, prompt: Prompt) -> dict[str, float]:
        """The expected price of each model that is not resting; of all when all are.

        Where there is an image, of those that can see.
        """
        every = [model.name for model in job.settings.models]
        names = self._seeing(job) if image_count(prompt.messages) else every
        awake = [name for name in names if not self._pool.resting(name)]
        return {name: self._pool.cost(name, prompt.to(name)) for name in awake or names}

    def can_see(self, job: Job) -> bool:
        """Whether there is a model to show images to; with the policy ``single`` there is only the one."""
        seeing, only = self._seeing(job), job.settings.policy.model
        return bool(seeing) if only is None else only in seeing

    async def vote(self, job: Job, arm: str, prompt: Prompt) -> tuple[dict[str, str], float]:
        """One model's votes by question, empty where it failed, and what asking it cost in $."""
        query = ModelQuery(
            job.project,
            job.task,
            arm,
            prompt.to(arm),
            prompt.schema,
            job.settings.budget,
            prompt.questions,
        )
        try:
            reply = await self._queries.ask(query, patience=job.settings.deadline)
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

    async def _with_examples(self, job: Job, one: Asked, context: Array, prompt: Prompt) -> Prompt:
        """The prompt with the nearest human-labelled tasks, for the models that are to see them."""
        names = label_texts(one.question.question)
        if names is None or one.question.images:
            return prompt
        shelf = await self._examples.shelf(StateKey(job.project, one.key.control, one.key.epoch))
        near = shelf.nearest(one.key, context, job.settings.few_shot)
        if not near:
            return prompt
        examples = [PromptExample(task.texts, {one.name: names[task.label]}) for task in near]
        return replace(
            prompt,
            examples=prompt_messages(prompt.questions, job.settings.instructions, examples),
            tasks=[task.task for task in near],
            shown={
                model.name: len(near) if shelf.shows(one.key, model.name) else 0
                for model in job.settings.models
            },
        )

    def _seeing(self, job: Job) -> list[str]:
        return [model.name for model in job.settings.models if self._pool.sees(model.name)]
