"""The tokens of a job, counted task by task; only sums are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from backend.annotation.job import Job, JobQuestion
from backend.models import Pool
from backend.questions.prompts.messages import prompt_messages


@dataclass(slots=True)
class TokenTally:
    """Sums over the tasks to come. Tokens are by CaMVo's own count, which is the same for all models.

    Attributes:
        pool: counts tokens.
        tasks: how many tasks were counted.
        shared: the tokens of instructions and options, which are the same for many tasks.
        own: the tokens of the tasks themselves.
        answers: the tokens of a short answer to each task.
    """

    pool: Pool
    tasks: int = 0
    shared: int = 0
    own: int = 0
    answers: int = 0

    def add(self, job: Job, questions: Sequence[JobQuestion]) -> None:
        """Count one task.

        Args:
            job: the task.
            questions: the questions that models will be asked about it.
        """
        asked = [question.question for question in questions]
        messages, name = prompt_messages(asked, job.settings.instructions), self.pool.names[0]
        whole, shared = self.pool.count(name, messages), self.pool.count(name, messages[:1])
        answer = {question.name: next(iter(question.question.options), "") for question in questions}
        self.tasks += 1
        self.shared += shared
        self.own += whole - shared
        self.answers += self.pool.count(name, [{"role": "assistant", "content": json.dumps(answer)}])

    def packed(self, tasks: int) -> float:
        """The input tokens of all tasks if so many were asked about in one prompt."""
        return self.shared / tasks + self.own

    @property
    def input(self) -> int:
        """The input tokens of all tasks, each asked about alone."""
        return self.shared + self.own
