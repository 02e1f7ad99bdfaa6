"""The questions of a job that can be asked, and the labels of earlier instructions that they keep.

A question that lacks its text or image does not stop the others.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import normpath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import structlog
from pydantic import SecretStr
from sqlalchemy import Connection

from backend.annotation.asking import Voters
from backend.annotation.job import Contexts, EmbeddedContexts, Job, JobQuestion, TaskPrompt
from backend.errors import ImageUnavailableError, TaskError
from backend.label_studio.client import http_client
from backend.learning.examples import Examples, label_texts
from backend.learning.label_schemes import Asked, epochs_with_other_instructions
from backend.ledger import LedgerAccess, recounts, rounds
from backend.ledger.projects import Schemes
from backend.ledger.rounds import Round, RoundKey
from backend.models.embedder import Embedder
from backend.questions import ConfigQuestion
from backend.questions.label_config import epoch_of, question_hash
from backend.questions.prompts.messages import PromptExample, answer_schema, prompt_messages
from backend.questions.prompts.packs import packed_task
from backend.questions.redaction import Redactor, redactor_named

_MOST_BYTES = 20 * 1024 * 1024
"""The largest image that providers accept."""

_SECONDS = 15.0
"""The time limit of a download."""

_UPLOADS = "/data/"
"""The path below which Label Studio serves uploaded and local files to authorised users."""


class Images:
    """Turns the image addresses in tasks into ones that a model can open.

    Addresses from tasks are passed on, but not fetched, either here or in litellm: otherwise the authors of
    tasks could make the server probe its own network. The only exception is Label Studio, at the
    environment's address and with its key, and there only paths below ``/data/``.

    Args:
        url: Label Studio's address.
        key: a token for Label Studio.
    """

    def __init__(self, url: str | None = None, key: SecretStr | None = None) -> None:
        self._url, self._key = (url or "").rstrip("/"), key
        self._http: Any = None

    async def sendable(self, address: str, where: str) -> str:
        """The address itself, or a ``data:`` URL with the image's content; errors name the place ``where``.

        Raises:
            ImageUnavailableError: no model could open the image.
        """
        path = self._path(address.strip())
        if path is not None:
            return await asyncio.to_thread(self._fetch, path, where)
        if address.strip().lower().startswith(("http://", "https://", "data:image/")):
            return address.strip()
        raise ImageUnavailableError(
            "the image is neither on the web nor in Label Studio",
            where=where,
            fix="import an http(s) address or an uploaded file; for cloud storage, presign the addresses",
        )

    def _path(self, address: str) -> str | None:
        """Path and query of a file in Label Studio; ``None`` if the image is elsewhere."""
        path = address.removeprefix(self._url).removeprefix(urlsplit(self._url).path)
        if not path.startswith(_UPLOADS) or not normpath(unquote(urlsplit(path).path)).startswith(_UPLOADS):
            return None
        return path

    def _fetch(self, path: str, where: str) -> str:
        if not self._url or self._key is None:
            raise ImageUnavailableError(
                "the image is in Label Studio, to which the backend has no access",
                where=where,
                fix="set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY",
            )
        try:
            kind, content = self._download(path, self._key)
        except Exception as error:  # errors of httpx and errors of the SDK
            reason = type(error).__name__
            raise ImageUnavailableError(
                f"Label Studio did not send the image ({reason})",
                where=where,
                fix="check that it is shown there",
            ) from None
        if not kind.startswith("image/") or len(content) > _MOST_BYTES:
            raise ImageUnavailableError(
                "Label Studio sent no image, or one larger than 20 MB",
                where=where,
                fix="check whether the owner of LABEL_STUDIO_API_KEY may open it",
            )
        return f"data:{kind};base64,{base64.b64encode(content).decode()}"

    def _download(self, path: str, key: SecretStr) -> tuple[str, bytes]:
        """The content type, and the content; reading stops once it exceeds the largest size."""
        if self._http is None:
            self._http = http_client(self._url, key, _SECONDS)
        content = bytearray()
        with self._http.stream(path, method="GET") as response:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > _MOST_BYTES:
                    break
            return str(response.headers.get("content-type", "")).partition(";")[0].strip(), bytes(content)


_log = structlog.get_logger(__name__)


class JobQuestions:
    """Collects the questions that models can be asked about, and writes the prompts about them.

    Used from one event loop only.
    """

    def __init__(self, embedder: Embedder, images: Images, voters: Voters, examples: Examples) -> None:
        self.embedder, self._images, self._voters = embedder, images, voters
        self._examples = examples

    def asked(self, job: Job) -> Asked:
        """All that the epochs of a job's questions hang on."""
        return Asked.under(job.settings, job.config, self.embedder.identity)

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

    async def visible(self, job: Job) -> list[JobQuestion]:
        """The questions whose texts the task has, and whose images models can be shown.

        Raises:
            TaskError: there are none.
        """
        questions = await asyncio.to_thread(self.with_texts, job)
        visible, errors = await self.with_images(job, questions)
        if not visible:
            raise errors[0]
        return visible

    async def with_images(
        self, job: Job, questions: Sequence[JobQuestion]
    ) -> tuple[list[JobQuestion], list[TaskError]]:
        """The questions whose images, if any, models can be shown; and the errors of the others."""
        visible: list[JobQuestion] = []
        errors: list[TaskError] = []
        for question in questions:
            try:
                visible.append(await self._sendable(job, question) if question.images else question)
            except TaskError as error:
                errors.append(error)
        return visible, errors

    async def _sendable(self, job: Job, question: JobQuestion) -> JobQuestion:
        """The question with images that a model can open.

        Raises:
            ImageUnavailableError: there is no such model, or no model may see them.
        """
        where = f"control {question.name}"
        if job.settings.redact and not job.settings.unredacted_images:
            raise ImageUnavailableError(
                "texts are redacted, but an image cannot be",
                where=where,
                fix="set unredacted_images: true if models may see the images as they are",
            )
        if not self._voters.can_see(job):
            raise ImageUnavailableError(
                "no model that may be asked takes images",
                where=where,
                fix="add a model that does; if litellm does not know that it does, set vision: true",
            )
        sent = {
            key: await self._images.sendable(address, f"data.{key}")
            for key, address in question.images.items()
        }
        if not self._voters.can_see(job, list(sent.values())):
            raise ImageUnavailableError(
                "the image is on the web, and no model that may be asked opens web addresses itself",
                where=where,
                fix="upload the image to Label Studio, or add a model that does (docs/tags.md)",
            )
        return replace(question, content=replace(question.content, images=sent))

    async def prompt(
        self,
        job: Job,
        questions: Sequence[JobQuestion],
        contexts: Contexts | None = None,
        *,
        alone: bool = False,
    ) -> TaskPrompt:
        """Write the prompt about several questions of a task.

        It has examples if ``few_shot`` is set and there is one question that takes them.

        Args:
            job: the task.
            questions: the questions to ask together.
            contexts: the questions' contexts, which are embedded only to find examples.
            alone: whether somebody may be waiting for this one task, so that it waits for no others.
        """
        packs = not alone and any(model.pack for model in job.settings.models)
        prompt = TaskPrompt(
            questions,
            prompt_messages(questions, job.settings.instructions),
            answer_schema(questions),
            pack=packed_task(questions, job.settings.instructions) if packs else None,
            alone=alone,
        )
        if job.settings.few_shot and len(questions) == 1:
            return await self._with_examples(
                prompt, job, questions[0], contexts or EmbeddedContexts(self.embedder)
            )
        return prompt

    async def _with_examples(
        self, prompt: TaskPrompt, job: Job, question: JobQuestion, contexts: Contexts
    ) -> TaskPrompt:
        texts = label_texts(question.config)
        if texts is None or question.images:
            return prompt
        labelled = await self._examples.current(question.state_key)
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

    def _question(self, job: Job, config_question: ConfigQuestion) -> JobQuestion:
        redactor = redactor_named(job.settings.redact)
        question = config_question.about(job.data, redactor)
        key = RoundKey(
            project=job.project,
            task=job.task,
            control=config_question.name,
            question=question_hash(question.source),
            epoch=epoch_of(config_question, job.settings.instructions, self.embedder.identity, redactor),
        )
        return JobQuestion(question.config, question.content, question.options, question.category, key=key)


def skip_questions(job: Job, errors: Sequence[TaskError], *, all_fail: bool) -> None:
    """Log the questions that cannot be asked; raise the first error if there is one and ``all_fail``."""
    if errors and all_fail:
        raise errors[0]
    for error in errors:
        _log.warning("question_skipped", task=job.task, code=error.code, reason=str(error))


def _redacted(redactor: Redactor, examples: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Redact the texts of examples. The ledger holds them as they are, since the redactor may change."""
    return [{key: redacted.text for key, redacted in redactor.redact(texts).items()} for texts in examples]


ALL: Final = 1.0
"""The score below which every task counts, also one that is certain."""


def is_below(score: float, level: float) -> bool:
    """Whether a score is below a level; every score is below 1."""
    return score < level or level >= ALL


@dataclass(frozen=True, slots=True)
class HeldLabels:
    """The labels of earlier instructions that tasks keep.

    Attributes:
        epochs: question → its epochs under earlier instructions, the latest first.
        below: tasks with a lower score are asked about again; 1 for all, 0 for none.
    """

    epochs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    below: float = 0.0

    @classmethod
    def of(cls, connection: Connection, project: str, asked: Asked, below: float) -> HeldLabels:
        """Look up which epochs of a project had other instructions and asked the same."""
        history = Schemes(connection, project).all()
        now = (asked.scheme(question, 0.0) for question in asked.config.questions)
        epochs = {scheme.control: epochs_with_other_instructions(history, scheme) for scheme in now}
        return cls({control: found for control, found in epochs.items() if found}, below)

    def keys(self, questions: Sequence[JobQuestion]) -> list[RoundKey]:
        """The rounds that questions may have had under earlier instructions."""
        return [
            replace(question.key, epoch=epoch)
            for question in questions
            for epoch in self.epochs.get(question.name, ())
        ]

    def of_task(
        self, questions: Sequence[JobQuestion], found: Mapping[RoundKey, Round]
    ) -> dict[RoundKey, Round]:
        """The rounds of earlier instructions that a task has; none unless all its questions have one."""
        held = {}
        for question in questions:
            earlier = (found[key] for key in self.keys([question]) if key in found)
            if question.key not in found and (round_ := next(earlier, None)) is not None:
                held[question.key] = round_
        return held if all(each.key in found or each.key in held for each in questions) else {}

    def keeps(self, held: Mapping[RoundKey, Round]) -> bool:
        """Whether a task keeps these labels: also a low score if people have labelled it."""
        return self.below < ALL and not any(
            round_.human is None and is_below(round_.score, self.below) for round_ in held.values()
        )


NONE_HELD: Final = HeldLabels()
"""No task keeps a label of earlier instructions."""


class HeldRounds:
    """The rounds of earlier instructions of single tasks. Used from one event loop only."""

    def __init__(self, access: LedgerAccess, questions: JobQuestions) -> None:
        self._access, self._questions = access, questions
        self._of_project: dict[str, tuple[Asked, HeldLabels]] = {}

    async def kept(
        self, job: Job, questions: Sequence[JobQuestion], found: Mapping[RoundKey, Round]
    ) -> dict[RoundKey, Round]:
        """The labels of earlier instructions that a task keeps, by the keys of its questions.

        Args:
            job: the task; its ``below`` says what it keeps.
            questions: its questions.
            found: their rounds under the present instructions.
        """
        if job.below >= ALL or len(found) == len(questions):
            return {}
        asked, project = self._questions.asked(job), job.project
        known = self._of_project.get(project)
        if known is None or known[0] != asked:
            held = await self._access.read(lambda connection: HeldLabels.of(connection, project, asked, 0.0))
            known = self._of_project[project] = asked, held
        held = replace(known[1], below=job.below)
        if not (keys := held.keys(questions)):
            return {}
        stored = await self._access.read(
            lambda connection: recounts.with_latest(connection, rounds.find_by_key(connection, keys))
        )
        kept = held.of_task(questions, {**stored, **found})
        return kept if held.keeps(kept) else {}
