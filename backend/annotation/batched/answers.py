"""What the ledger holds of a prompt that models are asked in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.annotation.voters import ModelReply, packed_reply, votes_in
from backend.errors import BadAnswerError, UnusableAnswersError
from backend.ledger.batches import lines
from backend.ledger.batches.lines import BatchLine
from backend.ledger.calls import answers
from backend.ledger.calls.answers import StoredAnswer
from backend.models.attempts import ATTEMPTS, attempt_key
from backend.questions.question import TaskQuestion


@dataclass(frozen=True, slots=True)
class StandingAnswer:
    """How far one model's answer is.

    Attributes:
        key: the key of the answer.
        reply: what the model said, or why it says nothing; ``None`` if the answer is still to come.
        waits: whether the answer is on its way; else it has to be bought.
    """

    key: str
    reply: ModelReply | None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """Stored answers and lines, by key."""

    answers: Mapping[str, StoredAnswer]
    lines: Mapping[str, BatchLine]

    def __or__(self, others: KnownAnswers) -> KnownAnswers:
        """These answers and lines, and others."""
        return KnownAnswers({**self.answers, **others.answers}, {**self.lines, **others.lines})

    @classmethod
    def read(cls, connection: Connection, keys: Sequence[str]) -> KnownAnswers:
        """Read what the ledger holds under some keys."""
        return cls(answers.find_by_key(connection, keys), lines.find(connection, keys))

    def again(
        self, key: str, project: str, task: int, questions: Sequence[TaskQuestion], *, retry: bool
    ) -> StandingAnswer:
        """How far an answer is that the task asked for in an earlier stage."""
        if (stored := self.answers.get(key)) is not None:
            return StandingAnswer(key, self._reply(stored, project, task, questions))
        line = self.lines.get(key)
        if line is not None and line.state in ("wanted", "out"):
            return StandingAnswer(key, None, waits=True)
        if line is not None and line.state == "failed" and not retry:
            return StandingAnswer(key, ModelReply({}, line.usd, line.code))
        return StandingAnswer(key, None)

    def first(
        self, fingerprint: str, project: str, task: int, questions: Sequence[TaskQuestion], *, retry: bool
    ) -> StandingAnswer:
        """How far the answer to a prompt is that the task has not asked for yet.

        Unusable answers of earlier tasks are passed over, as for a single call.
        """
        for attempt in range(ATTEMPTS):
            standing = self.again(
                attempt_key(fingerprint, attempt), project, task, questions, retry=retry or attempt == 0
            )
            if standing.reply is None or standing.reply.votes:
                return standing
        return StandingAnswer(fingerprint, ModelReply({}, 0.0, UnusableAnswersError.code))

    def packed(
        self, key: str, project: str, task: int, questions: Sequence[TaskQuestion], *, retry: bool
    ) -> StandingAnswer:
        """How far the answer of a packed arm is.

        Its reply has neither votes nor a failure if the task has to be asked about singly: it is missing in
        the answer, or the prompt failed for good.
        """
        standing = self.again(key, project, task, questions, retry=retry)
        if (reply := standing.reply) is None:
            return standing
        return StandingAnswer(key, packed_reply(reply.votes, reply.cost, reply.version))

    def _reply(
        self, stored: StoredAnswer, project: str, task: int, questions: Sequence[TaskQuestion]
    ) -> ModelReply:
        line = self.lines.get(stored.key)
        cost = line.usd if line is not None and (line.project, line.task) == (project, task) else 0.0
        votes = votes_in(stored.content, questions)
        if not votes:
            return ModelReply({}, cost, BadAnswerError.code)
        return ModelReply.voted(votes, cost, stored.confidences, stored.version)
