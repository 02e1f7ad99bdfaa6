"""One task as a person may want to see it: what models are sent, what they answered, and what became of it.

It holds the texts of the task: it is shown to people who may read them, and goes into no log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from sqlalchemy import Connection

from backend.annotation.job import Job, TaskPrompt
from backend.annotation.job_questions import JobQuestions
from backend.errors import BadAnswerError, TaskError
from backend.ledger import LedgerAccess, recounts
from backend.ledger.answers import TaskCall, calls_about
from backend.ledger.rounds import ProjectRounds, Round
from backend.models import Pool
from backend.models.call_ledger import ATTEMPTS, attempt_key
from backend.models.pack_ledger import pack_key
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.messages import content_parts
from backend.questions.prompts.packs import TYPICAL_ID, packed_messages

_LONGEST_ADDRESS: Final = 200

_BLIND: Final = "the task is kept blind: its answers and labels are shown once a person has labelled it"

_Sent = Literal["this prompt", "another prompt", "unknown"]
"""Whether an answer is one to the prompt that would be sent now."""


@dataclass(frozen=True, slots=True)
class _ShownMessage:
    """A message: its role, and its text; an image is its address, or the kind and size of its data."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """The messages that go out to some models.

    Attributes:
        models: the expected price of asking each of them, in $.
        messages: the messages.
        together: whether further tasks come into the same prompt.
    """

    models: Mapping[str, float]
    messages: Sequence[_ShownMessage]
    together: bool = False


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """What one call brought.

    Attributes:
        model: the model's name in the pool.
        content: the answer's text; ``None`` if the call failed.
        votes: question → the vote that was read from it.
        code: why there is no vote; ``None`` if there is one, or if the questions that it answers are unknown.
        price: in $.
        seconds: duration of the call.
        at: unix seconds.
        shared: whether it was bought for another task with the same prompt.
        sent: whether it answers the prompt that would be sent now.
    """

    model: str
    content: str | None
    votes: Mapping[str, str]
    code: str | None
    price: float
    seconds: float | None
    at: float
    shared: bool
    sent: _Sent


@dataclass(frozen=True, slots=True)
class _ShownLabel:
    """A question's label."""

    question: str
    label: str
    score: float
    votes: Mapping[str, str | None]
    human: str | None
    blind: bool


@dataclass(frozen=True, slots=True)
class InspectedTask:
    """A task with its prompts, answers and labels. A blind task has neither until a person has labelled it.

    Attributes:
        project: the project's key.
        task: the task's number.
        prompts: what would be sent now; models that are sent the same are together.
        answers: what the calls brought, the oldest first.
        labels: what was decided.
        problem: why prompts, or answers and labels, are missing; ``None`` if nothing is.
    """

    project: str
    task: int
    prompts: Sequence[ShownPrompt]
    answers: Sequence[ShownAnswer]
    labels: Sequence[_ShownLabel]
    problem: str | None = None

    @property
    def no_answers(self) -> str:
        """Why there are no answers, where there are none and nothing hides them."""
        if self.labels:
            return "The answers about this task are deleted (camvo ledger prune)."
        return "No model was asked about this task yet."


def _records_of(project: str, task: int, connection: Connection) -> tuple[list[TaskCall], list[Round]]:
    found = {round_.key: round_ for round_ in ProjectRounds(connection, project).of_task(task)}
    return calls_about(connection, project, task), [*recounts.with_latest(connection, found).values()]


class Inspector:
    """Shows tasks. It sends nothing, and writes nothing."""

    def __init__(self, access: LedgerAccess, questions: JobQuestions, pool: Pool) -> None:
        self._access, self._questions, self._pool = access, questions, pool

    async def inspect(self, project: str, task: int, job: Job | None, problem: str = "") -> InspectedTask:
        """Show a task.

        Args:
            project: the project's key.
            task: the task's number.
            job: the task as it would be asked about; ``None`` if its data are not known.
            problem: why they are not.
        """
        calls, decided = await self._access.read_once(partial(_records_of, project, task))
        if any(round_.audit and round_.human is None for round_ in decided):
            calls, decided, problem = [], [], problem or _BLIND
        prompt: TaskPrompt | None = None
        if job is not None:
            try:
                prompt = await self._prompt(job)
            except TaskError as error:
                problem = str(error)
        return InspectedTask(
            project=project,
            task=task,
            prompts=[] if job is None or prompt is None else self._prompts(job, prompt),
            answers=[self._answer(call, prompt) for call in calls],
            labels=[_label(round_) for round_ in decided],
            problem=problem or None,
        )

    async def _prompt(self, job: Job) -> TaskPrompt:
        """The prompt about all questions of the task, written as it would be written now."""
        await self._access.in_thread(self._questions.embedder.load)
        return await self._questions.prompt(job, await self._questions.visible(job))

    def _prompts(self, job: Job, prompt: TaskPrompt) -> list[ShownPrompt]:
        """The prompts, each with the models that are sent it."""
        found: dict[tuple[_ShownMessage, ...], dict[str, float]] = {}
        for settings in job.settings.models:
            model = self._pool[settings.name].model
            messages = prompt.for_model(settings.name)
            shown = tuple(map(_shown, model.request(messages, prompt.schema)["messages"]))
            found.setdefault(shown, {})[settings.name] = model.cost(messages)
        prompts = [ShownPrompt(models, messages) for messages, models in found.items()]
        packed = {name for settings in job.settings.models if (name := settings.packed_name) is not None}
        if prompt.pack is None or not packed:
            return prompts
        shared, own = prompt.pack.parts()
        prices = {arm: self._pool[arm].model.packed_cost(shared, own) for arm in sorted(packed)}
        together = tuple(map(_shown, packed_messages({TYPICAL_ID: prompt.pack})))
        return [*prompts, ShownPrompt(prices, together, together=True)]

    def _answer(self, call: TaskCall, prompt: TaskPrompt | None) -> ShownAnswer:
        votes: Mapping[str, str] = {}
        code, sent = call.code, self._sent(call, prompt)
        if call.content is not None and prompt is not None:
            try:
                votes = parse_answer(call.content, prompt.questions)
            except BadAnswerError as error:  # an answer to another prompt may name labels of that time
                code = None if sent == "another prompt" else error.code
        return ShownAnswer(
            model=call.model,
            content=call.content,
            votes=votes,
            code=code,
            price=call.cost,
            seconds=call.seconds,
            at=call.at,
            shared=call.shared,
            sent=sent,
        )

    def _sent(self, call: TaskCall, prompt: TaskPrompt | None) -> _Sent:
        """Whether a call sent the prompt: its key is a hash of all that was sent."""
        arms = {*self._pool.names, *self._pool.most_output}
        if prompt is None or call.model not in arms:
            return "unknown"
        if call.model in self._pool.names:
            model = self._pool[call.model].model
            fingerprint = model.fingerprint(prompt.for_model(call.model), prompt.schema)
            same = call.key in {attempt_key(fingerprint, attempt) for attempt in range(ATTEMPTS)}
        else:
            same = prompt.pack is not None and call.key == pack_key(self._pool, call.model, prompt.pack)
        return "this prompt" if same else "another prompt"


def _label(round_: Round) -> _ShownLabel:
    return _ShownLabel(
        round_.key.control, round_.label, round_.score, round_.votes, round_.human, round_.audit
    )


def _shown(message: Mapping[str, Any]) -> _ShownMessage:
    return _ShownMessage(str(message["role"]), "\n".join(map(_words, content_parts(message))))


def _words(part: Mapping[str, Any]) -> str:
    """A part of a message as text."""
    if part["type"] != "image_url":
        return str(part["text"])
    address = str(part["image_url"]["url"])
    if address.startswith("data:"):
        return f"[image: {address[5:].partition(';')[0]}, {len(address) * 3 // 4:,} bytes]"
    return f"[image: {address[:_LONGEST_ADDRESS]}]"
