"""What a call brought, in the ledger: the answer is stored, and its price is booked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from backend.errors import Usage
from backend.ledger import deleted_tasks
from backend.ledger.calls import answers
from backend.ledger.money import spending
from backend.ledger.money.spending import CallCost


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How one attempt ended.

    Attributes:
        content: the answer to one task to store; ``None`` if nothing was paid, so that there is nothing to
            store, or if the call was about several tasks, each of which has its own.
        usage: tokens and cost.
        code: the code of the error; ``None`` for an answer.
        seconds: duration of the attempt.
        confidences: question → the probability of the answer's tokens; empty if the provider sent none.
        version: what the provider says answered; ``None`` if it says nothing.
    """

    content: str | None
    usage: Usage
    code: str | None
    seconds: float
    confidences: Mapping[str, float] = field(default_factory=dict)
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoughtAnswer:
    """What a call brought for one task.

    Attributes:
        key: the key of the answer.
        model: the model's name in the pool.
        payer: the project and the task that the answer was bought for.
        content: the answer; ``None`` if there is nothing to store.
        outcome: how the call ended that brought it.
        share: the answer's share of the call, in (0, 1].
    """

    key: str
    model: str
    payer: tuple[str, int]
    content: str | None
    outcome: CallOutcome
    share: float = 1.0

    def stored(self) -> answers.StoredAnswer:
        """The answer's row."""
        usage = self.outcome.usage
        return answers.StoredAnswer(
            key=self.key,
            model=self.model,
            content=self.content or "",
            input_tokens=round(usage.input_tokens * self.share),
            output_tokens=round(usage.output_tokens * self.share),
            cost=usage.cost * self.share,
            seconds=self.outcome.seconds,
            confidences=self.outcome.confidences,
            version=self.outcome.version,
        )


def store_answer(  # noqa: PLR0917 - what identifies an answer
    connection: Connection,
    key: str,
    model: str,
    payer: tuple[str, int],
    content: str | None,
    outcome: CallOutcome,
    *,
    now: float,
    share: float = 1.0,
) -> bool:
    """Store one answer, as :func:`store_answers` does; the arguments are those of :class:`BoughtAnswer`.

    Returns:
        Whether a task still has a use for the answer.
    """
    bought = BoughtAnswer(key=key, model=model, payer=payer, content=content, outcome=outcome, share=share)
    return key in store_answers(connection, [bought], now=now)


def store_answers(connection: Connection, bought: Sequence[BoughtAnswer], *, now: float) -> set[str]:
    """Store answers, except those whose task is deleted and that no other task needs.

    Args:
        connection: a write transaction.
        bought: the answers.
        now: unix seconds.

    Returns:
        The keys of the answers that a task still has a use for.
    """
    deleted = deleted_tasks.deleted_among(connection, [each.payer for each in bought])
    used: list[tuple[BoughtAnswer, tuple[str, int]]] = []
    for each in bought:
        # Another task may have shared the call and still need the answer.
        user = answers.task_using(connection, each.key) if each.payer in deleted else each.payer
        if user is not None:
            used.append((each, user))
    stored = [(each.stored(), user) for each, user in used if each.content is not None]
    answers.store_each(connection, stored, now)
    return {each.key for each, _ in used}


def settle_call(connection: Connection, call: int | None, outcome: CallOutcome) -> None:
    """Book what a call cost.

    Args:
        connection: a write transaction.
        call: the id of its reservation; ``None`` if nothing was reserved.
        outcome: how it ended.
    """
    settle_calls(connection, [(call, outcome)])


def settle_calls(connection: Connection, ended: Iterable[tuple[int | None, CallOutcome]]) -> None:
    """Book what calls cost, as :func:`settle_call` does."""
    settlements = [
        CallCost(
            call=call,
            usd=outcome.usage.cost,
            input_tokens=outcome.usage.input_tokens,
            output_tokens=outcome.usage.output_tokens,
            cached_tokens=outcome.usage.cached_tokens,
            error_code=outcome.code,
            seconds=outcome.seconds,
        )
        for call, outcome in ended
        if call is not None
    ]
    spending.settle_each(connection, settlements)
