"""Tasks that every model is asked about as a trial: answers are bought and kept, and no round is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import structlog

from backend.annotation.asking import Voters
from backend.annotation.job import Job, JobQuestion, TaskPrompt
from backend.annotation.job_questions import JobQuestions
from backend.annotation.replies import ModelReply, votes_in
from backend.ledger import LedgerAccess, answers
from backend.models import Pool
from backend.models.call_ledger import ATTEMPTS, attempt_key, is_last_attempt
from backend.models.rates.gate import request_size
from backend.questions.question import asked_together, questions_to_ask
from camvo.votes.aggregation import Ballot

_BULK: Final = 1_000_000
"""The size that the calls count as: those of a server in the same process go first."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TrialPrice:
    """What asking every model about a task costs.

    Attributes:
        answers: how many answers there are to be.
        missing: how many of them are to be bought: the ledger holds none, or one without a vote that is asked
            for again.
        usd: the expected price of the missing ones, in $.
    """

    answers: int = 0
    missing: int = 0
    usd: float = 0.0

    def __add__(self, other: TrialPrice) -> TrialPrice:
        """The price of both."""
        return TrialPrice(self.answers + other.answers, self.missing + other.missing, self.usd + other.usd)


@dataclass(frozen=True, slots=True)
class TriedTask:
    """A task that every model was asked about.

    Attributes:
        questions: those that were asked, by their names.
        votes: question → arm → vote.
        labels: question → the plain vote of the models.
        failures: arm → the code of the reason why it gave no vote.
        paid: what was paid for it now, in $.
        prices: arm → what it costs to ask it once, in $, by the tokens of its answers: at the full price,
            also if they came in a batch or a provider's cache was read. Arms without an answer are absent.
    """

    questions: Mapping[str, JobQuestion]
    votes: Mapping[str, Mapping[str, str]]
    labels: Mapping[str, str]
    failures: Mapping[str, str]
    paid: float
    prices: Mapping[str, float]


class Trials:
    """Asks every model about tasks. Used from one event loop only.

    A prompt is the one that a round would send, so that a round that sends it later finds the answer.
    """

    def __init__(self, access: LedgerAccess, questions: JobQuestions, pool: Pool, voters: Voters) -> None:
        self._access, self._questions, self._pool, self._voters = access, questions, pool, voters

    async def price(self, job: Job) -> TrialPrice:
        """What asking about a task costs; a question under a condition counts as asked.

        Raises:
            TaskError: models cannot be asked about the task.
            LedgerError: the ledger cannot be read.
        """
        visible = {question.name: question for question in await self._questions.visible(job)}
        price = TrialPrice()
        for together in asked_together(list(visible.values())):
            prompt = await self._questions.prompt(
                job, [visible[question.name] for question in together], alone=True
            )
            keys = {arm: self._keys(arm, prompt) for arm in self._voters.everyone(job, prompt)}
            found = await self._stored([key for of_arm in keys.values() for key in of_arm])
            missing = [arm for arm, of_arm in keys.items() if _is_asked(map(found.get, of_arm), prompt)]
            usd = sum(self._pool[arm].model.cost(prompt.for_model(arm)) for arm in missing)
            price += TrialPrice(len(keys), len(missing), usd)
        return price

    async def ask(self, job: Job) -> TriedTask:
        """Ask every model about a task; its purse pays.

        Raises:
            TaskError: models cannot be asked about the task.
            LedgerError: the ledger failed.
        """
        request_size.set(_BULK)
        visible = await self._questions.visible(job)
        votes: dict[str, dict[str, str]] = {}
        labels: dict[str, str] = {}
        failures: dict[str, str] = {}
        paid, keys = 0.0, dict[str, list[list[str]]]()
        while names := questions_to_ask([each.config for each in visible], labels) - votes.keys():
            asked = [question for question in visible if question.name in names]
            prompt = await self._questions.prompt(job, asked, alone=True)
            replies = await self._replies(job, prompt)
            paid += sum(reply.cost for reply in replies.values())
            for arm in replies:
                keys.setdefault(arm, []).append(self._keys(arm, prompt))
            failures |= {arm: reply.failure for arm, reply in replies.items() if reply.failure is not None}
            for question in asked:
                cast = {
                    arm: one.votes[question.name]
                    for arm, one in replies.items()
                    if question.name in one.votes
                }
                votes[question.name] = cast
                if cast:
                    labels[question.name] = _plain_vote(question, cast)
        questions = {question.name: question for question in visible if question.name in votes}
        return TriedTask(questions, votes, labels, failures, paid, await self._full_prices(keys))

    def _keys(self, arm: str, prompt: TaskPrompt) -> list[str]:
        fingerprint = self._pool[arm].model.fingerprint(prompt.for_model(arm), prompt.schema)
        return [attempt_key(fingerprint, attempt) for attempt in range(ATTEMPTS)]

    async def _full_prices(self, keys: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, float]:
        """What it costs to ask each arm once: a price for each of its prompts, from all attempts at it."""
        found = await self._stored([key for prompts in keys.values() for each in prompts for key in each])
        prices: dict[str, float] = {}
        for arm, prompts in keys.items():
            price = self._pool[arm].model.prices.cost
            costs = [
                [price(found[key].input_tokens, found[key].output_tokens) for key in each if key in found]
                for each in prompts
            ]
            if all(costs):
                prices[arm] = sum(map(fmean, costs))
        return prices

    async def _stored(self, keys: Sequence[str]) -> dict[str, answers.StoredAnswer]:
        return await self._access.read_once(lambda connection: answers.find_by_key(connection, keys))

    async def _replies(self, job: Job, prompt: TaskPrompt) -> dict[str, ModelReply]:
        """The replies of all models; one that failed or was not paid for has the code of the reason.

        A model that rests after answers without a vote is asked all the same: if it were left out for a
        minute, some tasks would compare the votes of others only. One that is down gives the answers that
        the ledger has.
        """
        down = self._voters.everyone(job, prompt)
        keys = {arm: self._keys(arm, prompt) for arm, code in down.items() if code is not None}
        found = await self._stored([key for of_arm in keys.values() for key in of_arm])
        arms = [arm for arm in down if arm not in keys or not found.keys().isdisjoint(keys[arm])]
        replies = await self._voters.votes(job, dict(zip(arms, arms, strict=True)), prompt)
        return {
            arm: replies.get(arm) or ModelReply({}, 0.0, code or "internal") for arm, code in down.items()
        }


def _is_asked(attempts: Iterable[answers.StoredAnswer | None], prompt: TaskPrompt) -> bool:
    """Whether a model whose attempts at a prompt brought these answers is asked it (again)."""
    for attempt, answer in enumerate(attempts):
        if answer is None:
            return True
        if votes_in(answer.content, prompt.questions):
            return False
        if is_last_attempt(attempt, cut_off=answer.cut_off, again=False):
            return False
    return False


def _plain_vote(question: JobQuestion, votes: Mapping[str, str]) -> str:
    """What the models say if all count alike; the first of them, in the pool's order, breaks ties."""
    first = {arm: 1.0 / (1.0 + place) for place, arm in enumerate(votes)}
    ballot = Ballot(votes, dict.fromkeys(votes, 1.0), first, dict.fromkeys(votes, 0.5))
    return question.aggregation.aggregate(ballot, question.options)[0]
