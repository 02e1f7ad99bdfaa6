"""The tasks and tokens of a job, counted task by task; only sums are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from backend.annotation.job import Job, JobQuestion
from backend.models import Pool
from backend.models.litellm_info import count_text, count_tokens
from backend.questions.prompts.messages import prompt_messages
from backend.questions.prompts.packs import TYPICAL_ID, packed_task


@dataclass(slots=True)
class JobTally:
    """Sums over the tasks of a job. Tokens are by CaMVo's own count, which is the same for all models.

    Attributes:
        listed: all tasks, also those that have their labels.
        unreadable: how many of them cannot be asked about.
        tasks: how many are to come. The sums below are over these.
        input: the input tokens of all tasks, each asked about alone.
        answers: the tokens of a short answer to each task.
        packable: how many of the tasks may share a prompt.
        shared: what the prompts of these tasks have in common, summed over the tasks.
        own: the tokens of these tasks themselves, in a prompt with others.
        unpackable: the input tokens of the other tasks.
    """

    listed: int = 0
    unreadable: int = 0
    tasks: int = 0
    input: int = 0
    answers: int = 0
    packable: int = 0
    shared: int = 0
    own: int = 0
    unpackable: int = 0

    def add(self, pool: Pool, job: Job, questions: Sequence[JobQuestion]) -> None:
        """Count one task that is to come; ``listed`` is left as it is.

        Args:
            pool: counts tokens.
            job: the task.
            questions: the questions that models will be asked about it.
        """
        asked = [question.question for question in questions]
        alone = pool.count(pool.names[0], prompt_messages(asked, job.settings.instructions))
        answer = {question.name: next(iter(question.question.options), "") for question in questions}
        self.tasks += 1
        self.input += alone
        self.answers += pool.count(pool.names[0], [{"role": "assistant", "content": json.dumps(answer)}])
        packed = packed_task(asked, job.settings.instructions)
        if packed is None:
            self.unpackable += alone
            return
        self.packable += 1
        self.shared += count_tokens((packed.system,))
        self.own += count_text(packed.fenced(TYPICAL_ID))

    def packed(self, tasks: float) -> float:
        """The input tokens of all tasks if so many were asked about in one prompt, where they may."""
        if tasks <= 1.0:
            return self.input
        return self.shared / tasks + self.own + self.unpackable

    def calls(self, tasks: float) -> float:
        """The prompts of all tasks if so many were asked about in one, where they may."""
        return self.tasks - self.packable + self.packable / max(tasks, 1.0)

    def plus(self, other: JobTally) -> JobTally:
        """The sums over the tasks of both."""
        mine, others = asdict(self), asdict(other)
        return JobTally(**{name: mine[name] + others[name] for name in mine})
