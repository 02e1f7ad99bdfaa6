"""What a call brought, in the ledger: the answer is stored, and its price is booked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection

from backend.errors import Usage
from backend.ledger import deleted_tasks
from backend.ledger.calls import answers
from backend.ledger.money import spending


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
    """Store an answer, unless its task is deleted and no other task needs it.

    Args:
        connection: a write transaction.
        key: the key of the answer.
        model: the model's name in the pool.
        payer: the project and the task that the answer was bought for.
        content: the answer; ``None`` if there is nothing to store.
        outcome: how the call ended that brought it.
        now: unix seconds.
        share: the answer's share of the call, in (0, 1].

    Returns:
        Whether a task still has a use for the answer.
    """
    usage = outcome.usage
    user: tuple[str, int] | None = payer
    if deleted_tasks.is_deleted(connection, *payer):
        # Another task may have shared the call and still need the answer.
        user = answers.task_using(connection, key)
    if content is not None and user is not None:
        stored = answers.StoredAnswer(
            key=key,
            model=model,
            content=content,
            input_tokens=round(usage.input_tokens * share),
            output_tokens=round(usage.output_tokens * share),
            cost=usage.cost * share,
            seconds=outcome.seconds,
            confidences=outcome.confidences,
            version=outcome.version,
        )
        answers.store(connection, stored, *user, now=now)
    return user is not None


def settle_call(connection: Connection, call: int | None, outcome: CallOutcome) -> None:
    """Book what a call cost.

    Args:
        connection: a write transaction.
        call: the id of its reservation; ``None`` if nothing was reserved.
        outcome: how it ended.
    """
    if call is None:
        return
    usage = outcome.usage
    spending.settle(
        connection,
        call,
        usd=usage.cost,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        error_code=outcome.code,
        seconds=outcome.seconds,
    )
