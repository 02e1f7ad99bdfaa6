"""The result of a call in the ledger: the answer is stored, and its price is booked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import Connection, Dialect, bindparam, case, delete, or_, select, update
from sqlalchemy import insert as insert_rows
from sqlalchemy.sql.dml import ReturningInsert

from backend.errors import Usage
from backend.ledger import answers, deletions, money
from backend.ledger.database import tables
from backend.ledger.database.statements import insert, now
from backend.ledger.money import CallCost


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
    """The result of a call for one task.

    Attributes:
        key: the key of the answer.
        model: the model's name in the pool.
        payer: the project and the task that the answer was bought for.
        content: the answer; ``None`` if there is nothing to store.
        outcome: how the call that produced it ended.
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
    deleted = deletions.deleted_among(connection, [each.payer for each in bought])
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
    money.settle_each(connection, settlements)


_claims = tables.claims
_RENEW = (
    update(_claims)
    .where(_claims.c.key.in_(bindparam("keys", expanding=True)), _claims.c.owner == bindparam("by"))
    .values(expires_at=bindparam("until"))
)
_NOTE = (
    update(_claims)
    .where(_claims.c.key == bindparam("of"), _claims.c.owner == bindparam("by"))
    .values(call=bindparam("number"))
)
_BATCH = "batch:"
_OWNER = select(_claims.c.owner).where(_claims.c.key == bindparam("of"))
_RELEASE = delete(_claims).where(
    _claims.c.key.in_(bindparam("keys", expanding=True)), _claims.c.owner == bindparam("by")
)
_CLAIMED = select(_claims.c.key).where(_claims.c.key.in_(bindparam("keys", expanding=True)))
_ADD_CLAIM = insert_rows(_claims)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that its owner holds.

    Attributes:
        call: the call that the owner has reserved money for under this claim; ``None`` if there is none.
    """

    call: int | None


def acquire_claim(
    connection: Connection, key: str, owner: str, seconds: float, *, grace: float = 0.0
) -> Claim | None:
    """Claim the right to request an answer, for ``seconds``.

    Args:
        connection: in a write transaction.
        key: the key under which the answer will be stored.
        owner: the process.
        seconds: time until the claim expires.
        grace: seconds for which an expired claim of another owner is still left alone.

    Returns:
        The claim if ``owner`` holds it now: it was free, had expired, or was held by this owner already.
    """
    at = now(connection)
    row = {"key": key, "owner": owner, "expires_at": at + seconds, "expired": at - grace}
    held = connection.execute(_acquire(connection.dialect), row).first()
    return None if held is None else Claim(held.call)


@cache
def _acquire(dialect: Dialect) -> ReturningInsert[Any]:
    statement = insert(dialect, _claims)
    mine = _claims.c.owner == statement.excluded.owner
    return statement.on_conflict_do_update(
        index_elements=[_claims.c.key],
        set_={
            "owner": statement.excluded.owner,
            "expires_at": statement.excluded.expires_at,
            "call": case((mine, _claims.c.call), else_=None),
        },
        where=or_(_claims.c.expires_at <= bindparam("expired"), mine),
    ).returning(_claims.c.call)


def batch_owner(job: str) -> str:
    """Return the owner of the claims of a batch job, which belong to no process."""
    return f"{_BATCH}{job}"


def held_by_batch(connection: Connection, key: str) -> bool:
    """Whether a batch job holds the claim."""
    owner = connection.execute(_OWNER, {"of": key}).scalar_one_or_none()
    return owner is not None and owner.startswith(_BATCH)


def note_call(connection: Connection, key: str, owner: str, call: int) -> None:
    """Record the call that the owner has reserved money for.

    An owner whose connection broke during the commit finds its reservation again by it.
    """
    connection.execute(_NOTE, {"of": key, "by": owner, "number": call})


def renew_claims(connection: Connection, keys: Collection[str], owner: str, seconds: float) -> None:
    """Let the owner's claims last for ``seconds`` more; claims that others took over are unchanged."""
    connection.execute(_RENEW, {"keys": list(keys), "by": owner, "until": now(connection) + seconds})


def claimed(connection: Connection, keys: Collection[str]) -> set[str]:
    """Return those of the keys that anybody has claimed, also if the claim has expired."""
    return set(connection.scalars(_CLAIMED, {"keys": list(keys)}))


def add_claims(connection: Connection, calls: Mapping[str, int], owner: str, seconds: float) -> None:
    """Claim keys that nobody has claimed, for calls that the owner has reserved money for.

    Args:
        connection: in a write transaction.
        calls: key → the call.
        owner: the process.
        seconds: time until the claims expire.
    """
    until = now(connection) + seconds
    rows = [{"key": key, "owner": owner, "expires_at": until, "call": call} for key, call in calls.items()]
    if rows:
        connection.execute(_ADD_CLAIM, rows)


def release_claim(connection: Connection, key: str, owner: str) -> None:
    """Delete the owner's claim; a claim held by another owner is unchanged."""
    release_claims(connection, [key], owner)


def release_claims(connection: Connection, keys: Collection[str], owner: str) -> None:
    """Delete the owner's claims, at most some hundred; claims held by other owners are unchanged."""
    connection.execute(_RELEASE, {"keys": list(keys), "by": owner})
