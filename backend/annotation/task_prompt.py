"""What models are sent about a task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backend.annotation.job import Job, JobQuestion
from backend.annotation.plans.contexts import Contexts
from backend.learning.examples import Examples
from backend.learning.labelled_texts import label_texts
from backend.learning.states import StateKey
from backend.questions import TaskQuestion
from backend.questions.prompts.answers import answer_schema
from backend.questions.prompts.message_parts import Messages
from backend.questions.prompts.messages import PromptExample, prompt_messages
from backend.questions.prompts.packs import PackedTask, packed_task
from backend.questions.redaction.redactor import Redactor, redactor_named


@dataclass(frozen=True, slots=True)
class TaskPrompt:
    """The prompt about a task, with and without examples.

    Attributes:
        questions: the questions that answers are parsed for.
        messages: the prompt without examples.
        schema: the JSON schema of an answer.
        examples: the prompt with examples, if there are any.
        tasks: the tasks shown as examples.
        shown: how many examples each model gets; empty if there are none.
        pack: the task for a prompt with others; ``None`` if it is to be asked about alone.
        alone: whether somebody may be waiting for this one task, so that it waits for no others.
    """

    questions: Sequence[TaskQuestion]
    messages: Messages
    schema: Mapping[str, Any]
    examples: Messages = ()
    tasks: Sequence[int] = ()
    shown: Mapping[str, int] = field(default_factory=dict)
    pack: PackedTask | None = None
    alone: bool = False

    def for_model(self, arm: str) -> Messages:
        """The messages for one model."""
        return self.examples if self.shown.get(arm) else self.messages


async def write_prompt(
    job: Job,
    questions: Sequence[JobQuestion],
    contexts: Contexts,
    examples: Examples,
    *,
    alone: bool = False,
) -> TaskPrompt:
    """Write the prompt about several questions of a task.

    It has examples if ``few_shot`` is set and there is one question that takes them.

    Args:
        job: the task.
        questions: the questions to ask together.
        contexts: the questions' contexts, which are embedded only to find examples.
        examples: the labelled tasks to take examples from.
        alone: whether somebody may be waiting for this one task, so that it waits for no others.
    """
    asked = [question.question for question in questions]
    packs = not alone and any(model.pack for model in job.settings.models)
    prompt = TaskPrompt(
        asked,
        prompt_messages(asked, job.settings.instructions),
        answer_schema(asked),
        pack=packed_task(asked, job.settings.instructions) if packs else None,
        alone=alone,
    )
    if job.settings.few_shot and len(questions) == 1:
        return await _with_examples(prompt, job, questions[0], contexts, examples)
    return prompt


async def _with_examples(
    prompt: TaskPrompt, job: Job, question: JobQuestion, contexts: Contexts, examples: Examples
) -> TaskPrompt:
    texts = label_texts(question.question.question)
    if texts is None or question.question.images:
        return prompt
    labelled = await examples.current(StateKey(job.project, question.key.control, question.key.epoch))
    nearest = labelled.nearest(question.key, await contexts.of(question), job.settings.few_shot)
    if not nearest:
        return prompt
    example_texts = [task.texts for task in nearest]
    if (redactor := redactor_named(job.settings.redact)) is not None:
        example_texts = await asyncio.to_thread(_redacted, redactor, example_texts)
    shown = [
        PromptExample(shown_texts, {question.name: texts[task.label]})
        for task, shown_texts in zip(nearest, example_texts, strict=True)
    ]
    return replace(
        prompt,
        examples=prompt_messages(prompt.questions, job.settings.instructions, shown),
        tasks=[task.task for task in nearest],
        shown={
            model.name: len(nearest) if labelled.shows_examples(question.key, model.name) else 0
            for model in job.settings.models
        },
    )


def _redacted(redactor: Redactor, examples: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Redact the texts of examples. The ledger holds them as they are, since the redactor may change."""
    return [{key: redacted.text for key, redacted in redactor.redact(texts).items()} for texts in examples]
