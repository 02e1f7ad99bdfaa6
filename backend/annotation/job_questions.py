"""The questions of a job that can be asked; one that lacks its text or image does not stop the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from backend.annotation.images import Images
from backend.annotation.job import Job, JobQuestion
from backend.annotation.voters import Voters
from backend.errors import ImageUnavailableError, TaskError
from backend.ledger.rounds import RoundKey
from backend.models.embedder.embedder import Embedder
from backend.questions import ConfigQuestion
from backend.questions.epoch import epoch_of, question_hash
from backend.questions.redaction.redactor import redactor_named

_log = structlog.get_logger(__name__)


class JobQuestions:
    """Collects the questions that models can be asked about. Used from one event loop only."""

    def __init__(self, embedder: Embedder, images: Images, voters: Voters) -> None:
        self._embedder, self._images, self._voters = embedder, images, voters

    def with_texts(self, job: Job) -> list[JobQuestion]:
        """The questions whose texts the task has.

        Raises:
            TaskError: every question lacks its text.
        """
        questions: list[JobQuestion] = []
        errors: list[TaskError] = []
        for config_question in job.config.questions:
            try:
                questions.append(self._question(job, config_question))
            except TaskError as error:
                errors.append(error)
        skip_questions(job, errors, all_fail=not questions)
        return questions

    async def with_images(
        self, job: Job, questions: Sequence[JobQuestion]
    ) -> tuple[list[JobQuestion], list[TaskError]]:
        """The questions whose images, if any, models can be shown; and the errors of the others."""
        visible: list[JobQuestion] = []
        errors: list[TaskError] = []
        for question in questions:
            try:
                if question.question.images and job.settings.redact and not job.settings.unredacted_images:
                    raise ImageUnavailableError(
                        "texts are redacted, but an image cannot be",
                        where=f"control {question.name}",
                        fix="set unredacted_images: true if models may see the images as they are",
                    )
                if question.question.images and not self._voters.can_see(job):
                    raise ImageUnavailableError(
                        "no model that may be asked takes images",
                        where=f"control {question.name}",
                        fix="add a model that does; if litellm does not know that it does, set vision: true",
                    )
                shown = await self._images.question_with_images(question.question)
                if shown.images and not self._voters.can_see(job, list(shown.images.values())):
                    raise ImageUnavailableError(
                        "the image is on the web, and no model that may be asked opens web addresses itself",
                        where=f"control {question.name}",
                        fix="upload the image to Label Studio, or add a model that does (docs/tags.md)",
                    )
                visible.append(replace(question, question=shown))
            except TaskError as error:
                errors.append(error)
        return visible, errors

    def _question(self, job: Job, config_question: ConfigQuestion) -> JobQuestion:
        redactor = redactor_named(job.settings.redact)
        question = config_question.about(job.data, redactor)
        key = RoundKey(
            project=job.project,
            task=job.task,
            control=config_question.name,
            question=question_hash(question.source),
            epoch=epoch_of(config_question, job.settings.instructions, self._embedder.identity, redactor),
        )
        return JobQuestion(question, key)


def skip_questions(job: Job, errors: Sequence[TaskError], *, all_fail: bool) -> None:
    """Log the questions that cannot be asked.

    Raises:
        TaskError: the first error, if ``all_fail`` and there is one.
    """
    if errors and all_fail:
        raise errors[0]
    for error in errors:
        _log.warning("question_skipped", task=job.task, code=error.code, reason=str(error))
