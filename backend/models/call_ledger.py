"""The ledger's side of a call: first the claim and the reserved money, then the answer and the cost.

Everything that must survive a crash happens in two transactions. The first finds a stored answer, or claims
the call and reserves the money for it. The second stores the answer and settles the account.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection

from backend.errors import (
    BatchPendingError,
    BudgetExhaustedError,
    LedgerError,
    ModelTimeoutError,
    NotBookedError,
    TaskError,
)
from backend.ledger import Writer, answers, money
from backend.ledger.answers import BoughtAnswer, CallOutcome, ReceivedAnswers, settle_calls, store_answers
from backend.ledger.claims import Claim, Claims, Contacts, process_owner
from backend.ledger.database.statements import now
from backend.ledger.database.writer import GroupedWrite, is_temporary
from backend.ledger.money import MoneyQueue, Purse, Reservation, Settlements
from backend.questions.prompts.messages import Messages
from backend.questions.question import TaskQuestion
from backend.settings import BudgetSettings
from backend.telemetry import metrics
from camvo.errors import CamvoError

KEY_LENGTH = 32
"""Hexadecimal digits of a key."""

ATTEMPTS = 3
"""The most answers of one model to one prompt."""


def attempt_key(fingerprint: str, attempt: int) -> str:
    """Return the key under which the answer of one attempt is stored: 128 bits, as a ledger holds many.

    Args:
        fingerprint: of the request; the key of its first attempt begins it.
        attempt: 0 for the first.
    """
    if attempt:
        fingerprint = hashlib.sha256(f"{fingerprint}{attempt}".encode()).hexdigest()
    return fingerprint[:KEY_LENGTH]


def is_last_attempt(attempt: int, *, cut_off: bool, again: bool) -> bool:
    """Whether a model is not asked a prompt again after an answer to it that gives no vote.

    Args:
        attempt: of the answer; 0 for the first.
        cut_off: whether ``max_tokens`` cut the answer off, as it would the next one.
        again: whether the model makes another attempt after its last one.
    """
    return not again and (cut_off or attempt + 1 >= ATTEMPTS)


@dataclass(frozen=True, slots=True)
class ModelQuery:
    """A prompt for one model.

    Attributes:
        project: the project that pays.
        task: the task that the prompt is about.
        model: the model's name in the pool.
        messages: the prompt.
        schema: JSON schema of the answer.
        budget: the limits on the project's spending.
        questions: the questions in the prompt, for embedded voters; they do not read prompts.
        again: whether the model makes another attempt after its last one.
        purse: an account inside the project's that must cover the call, too; ``None`` for none.
        hurried: whether the call ends at the deadline, because somebody waits for the task.
        waits: whether the call waits for the end of an outage of its model.
        repeats: whether the ledger has answers to the prompt, none of which gives a vote.
    """

    project: str
    task: int
    model: str
    messages: Messages
    schema: Mapping[str, Any]
    budget: BudgetSettings
    questions: Sequence[TaskQuestion] = ()
    again: bool = False
    purse: Purse | None = None
    hurried: bool = False
    waits: bool = False
    repeats: bool = False

    @property
    def payer(self) -> tuple[str, int]:
        """The project that pays, and the task that its answer is bought for."""
        return self.project, self.task


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """The highest possible cost of a call in $, and our count of the input tokens in its prompt."""

    ceiling: float
    counted_tokens: int


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """A model's answer to a query.

    Attributes:
        content: the text of the answer.
        cost: what this query paid for it, $; 0 for a stored or shared answer.
        stored: whether the ledger had the answer before anybody asked for it in this run.
        shared: whether another query of this run asked for it.
        earlier: what the task paid for a stored answer in a run that ended before its round, $.
        confidences: question → the probability of the answer's tokens; empty if the provider sent none.
        version: what the provider says answered: the model's name there and, after a space, the fingerprint
            of its system. ``None`` if it said nothing.
        cut_off: whether ``max_tokens`` cut it off.
        repeats: whether it is a new one to a prompt that had answers, none of which gives a vote.
    """

    content: str
    cost: float
    stored: bool = False
    shared: bool = False
    earlier: float = 0.0
    confidences: Mapping[str, float] = field(default_factory=dict)
    version: str | None = None
    cut_off: bool = False
    repeats: bool = False

    @property
    def for_others(self) -> PaidAnswer:
        """The answer as it counts for further queries that share it: they pay nothing."""
        return replace(self, cost=0.0, earlier=0.0, shared=True)


@dataclass(frozen=True, slots=True)
class _ClaimResult:
    """The result of a claim: the ``answer`` that is stored already, or the id of the ``call`` to make."""

    answer: PaidAnswer | None = None
    call: int | None = None


POLL = 0.2
"""Seconds between two reads of the ledger while another process makes the same call."""

_HELD = 2.0
"""Seconds between two looks at money that other processes hold."""

_LEASE = 15.0
"""Seconds until a claim expires unless it is renewed, so the longest wait after a process crashed."""

GRACE = 30.0
"""Seconds after a model's timeout until the reservation of a call whose process died counts as spent."""

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


class CallLedger:
    """One process's model calls in the ledger.

    Args:
        writer: writes to the ledger, which holds answers, claims and money.
        clock: unix seconds.
        received: keeps answers until they are committed; ``None`` to lose them with a killed process.

    Attributes:
        owner: the name of this process in its claims.
        writer: writes to the ledger, however long the database is down.
        settlements: the paid answers that are still to be stored.
    """

    def __init__(
        self, writer: Writer, clock: Callable[[], float], received: ReceivedAnswers | None = None
    ) -> None:
        self.writer, self.clock, self._received = writer, clock, received
        self.owner = process_owner()
        self._claimed: dict[str, tuple[int, float]] = {}
        self._check: Callable[[], None] = lambda: None
        self._not_booked: set[int] = set()
        self._contacts = Contacts(_LEASE)
        self._money = MoneyQueue()
        self.settlements = Settlements(writer)

    def stop_by(self, check: Callable[[], None]) -> None:
        """Let calls wait for money and for other processes only until ``check`` raises an error."""
        self._check = check

    async def renew_claims(self) -> None:
        """Renew the claims and reservations of all running attempts until this coroutine is cancelled.

        So both last as long as an attempt waits for its turn, and end soon after its process.

        This also measures how far the host's clock is ahead of the ledger's.
        """
        while True:
            await asyncio.sleep(_LEASE / 3)
            held = dict(sorted(self._claimed.items()))
            try:
                metrics.clock_skew.set(await self.writer.persist(functools.partial(self._renew, held)))
            except LedgerError as error:
                _log.error("claims_not_renewed", code=error.code, reason=str(error))

    def _renew(self, held: Mapping[str, tuple[int, float]], connection: Connection) -> float:
        before = self.clock()
        theirs = now(connection)
        ahead = (before + self.clock()) / 2 - theirs
        self._contacts.note(theirs)
        if held:
            Claims(connection).renew(held, self.owner, _LEASE)
            money.renew(connection, dict(held.values()))
        return ahead

    async def claim(
        self, key: str, query: ModelQuery, estimate: CallEstimate, until: float, seconds: float
    ) -> _ClaimResult:
        """Return the stored answer, or claim the call and reserve the money for it.

        While another process makes the same call, this method waits. It also waits while the database is
        down, or while an earlier answer could not be stored yet.

        Args:
            key: the hash of the request.
            query: the prompt, its project and its budget.
            estimate: the money to reserve, and the counted tokens.
            until: monotonic seconds; the latest time to wait for another process or for the database.
            seconds: the longest duration of the call, from when it is sent.

        Raises:
            StoppingError: the process stops.
            BudgetExhaustedError: the budget does not cover the call.
            BatchPendingError: the answer is in a provider's batch.
            ModelTimeoutError: another process is still making the call.
            LedgerError: the database is still down.
            NotBookedError: the ledger cannot hold the reservation.
        """
        reservation = Reservation(
            project=query.project,
            task=query.task,
            model=query.model,
            key=key,
            usd=estimate.ceiling,
            project_usd=query.budget.project_usd,
            day_usd=query.budget.day_usd,
            counted_tokens=estimate.counted_tokens,
            seconds=seconds + GRACE,
            purse=query.purse,
        )
        find_or_reserve = GroupedWrite(self._find_or_reserve, reservation)
        while (result := await self.reserve(find_or_reserve, query, until)) is None:
            if monotonic() + POLL >= until:
                raise ModelTimeoutError(
                    f"another process took too long to ask {query.model} the same", where=query.model
                )
            await asyncio.sleep(POLL)
        if result.call is not None:
            self.keep_renewing([key], result.call, seconds)
        return result

    def _find_or_reserve(
        self, connection: Connection, wanted: Sequence[Reservation]
    ) -> list[_ClaimResult | None]:
        """Find each stored answer, or claim the call and reserve its money; ``None`` if others make it."""
        keys = [each.key for each in wanted]
        taken = Claims(connection).claimed(keys)
        found = answers.find_by_key(connection, keys)
        uses = [(each.key, (each.project, each.task)) for each in wanted if each.key in found]
        answers.link_tasks(connection, uses)
        free = {each.key: each for each in wanted if each.key not in found and each.key not in taken}
        calls = money.reserve_each(connection, [*free.values()])
        self.add_claims(connection, calls)
        return [
            _ClaimResult(call=calls[each.key])
            if free.get(each.key) is each
            else self._find_or_take_over(connection, each, found.get(each.key))
            for each in wanted
        ]

    def _find_or_take_over(
        self, connection: Connection, wanted: Reservation, stored: answers.StoredAnswer | None
    ) -> _ClaimResult | None:
        """The same for a call that somebody has made or claimed before."""
        key = wanted.key
        if stored is not None:
            return _ClaimResult(
                PaidAnswer(
                    stored.content,
                    0.0,
                    stored=True,
                    earlier=stored.paid_by(wanted.project, wanted.task),
                    confidences=stored.confidences,
                    version=stored.version,
                    cut_off=stored.cut_off,
                )
            )
        claim = self.acquire(connection, key)
        if claim is None:
            refuse_batched(connection, key, wanted)
            return None
        if claim.call is not None:
            return _ClaimResult(call=claim.call)  # the connection broke while this was committed
        call = money.reserve_each(connection, [wanted])[key]
        Claims(connection).note_call(key, self.owner, call)
        return _ClaimResult(call=call)

    def acquire(self, connection: Connection, key: str) -> Claim | None:
        """Claim a call, in a write transaction; ``None`` if another process makes it.

        The claim names the call that money was reserved for, if the connection broke while that was
        committed.
        """
        self._contacts.note(now(connection))
        claim = Claims(connection).acquire(key, self.owner, _LEASE, expires=self._contacts.lasting)
        return Claim(None) if claim is not None and claim.call in self._not_booked else claim

    def add_claims(self, connection: Connection, calls: Mapping[str, int]) -> None:
        """Claim keys that nobody has claimed, in a write transaction, for calls with a reservation."""
        Claims(connection).add(calls, self.owner, _LEASE)

    async def reserve(self, step: Callable[[Connection], _T], query: ModelQuery, until: float) -> _T:
        """Reserve the money for a call; while other calls hold it, wait until one of them is settled.

        ``step`` claims the call and reserves the money in a write transaction. It must be safe to run twice.
        Nothing is awaited beyond ``until``, monotonic seconds.

        Raises:
            StoppingError: the process stops.
            BudgetExhaustedError: the budget does not cover the call.
            LedgerError: the database is still down.
            NotBookedError: the ledger cannot hold the reservation.
        """
        while True:  # until the call is booked, refused, or its patience is over
            self._check()
            try:
                with _booking(query):
                    await self.settlements.none_waits(until - monotonic())
                    return await self.writer.persist(step, patience=max(until - monotonic(), 0.0))
            except BudgetExhaustedError as error:
                if not error.held or monotonic() + _HELD >= until:
                    raise
            await self._money.wait(_HELD)

    async def settle(self, key: str, query: ModelQuery, call: int | None, outcome: CallOutcome) -> None:
        """Store the answer, settle the account and release the claim, however long the database is down.

        Args:
            key: the hash of the request.
            query: the prompt, its project and its budget.
            call: the id from :meth:`claim`.
            outcome: how the attempt ended.

        Raises:
            NotBookedError: the ledger cannot store the answer, for a reason that does not pass.
        """
        bought = BoughtAnswer(
            key=key, model=query.model, payer=query.payer, content=outcome.content, outcome=outcome
        )
        paid = outcome.content is not None or outcome.usage.cost > 0
        step = GroupedWrite(self._store_and_settle, (bought, call))
        await self.book(step, query, call, outcome, [bought] if paid else [])

    def _store_and_settle(
        self, connection: Connection, ended: Sequence[tuple[BoughtAnswer, int | None]]
    ) -> list[None]:
        store_answers(connection, [bought for bought, _ in ended], now=self.clock())
        settle_calls(connection, [(call, bought.outcome) for bought, call in ended])
        Claims(connection).release([bought.key for bought, _ in ended], self.owner)
        return [None] * len(ended)

    async def book(
        self,
        step: Callable[[Connection], None],
        query: ModelQuery,
        call: int | None,
        outcome: CallOutcome,
        bought: Sequence[BoughtAnswer],
    ) -> None:
        """Run the transaction that ends a call, and count the call.

        Args:
            step: stores the result and settles the account; must be safe to run twice.
            query: what the call was for.
            call: its id.
            outcome: how it ended.
            bought: what was paid for; empty if nothing was.

        Raises:
            NotBookedError: the ledger cannot store the answer, for a reason that does not pass.
        """
        usage, paid = outcome.usage, bool(bought)
        kept: AbstractContextManager[None] = nullcontext()
        if paid and call is not None and self._received is not None:
            kept = self._received.kept(call, outcome, bought)
        try:
            with kept, _booking(query):
                await self.settlements.settle(step, paid=paid)
        except NotBookedError:
            if call is not None:
                self._not_booked.add(call)
            raise
        self._money.release()
        metrics.model_calls.labels(model=query.model, outcome=outcome.code or "answered").inc()
        metrics.model_dollars.labels(model=query.model).inc(usage.cost)
        if outcome.seconds is not None:
            metrics.model_seconds.labels(model=query.model).observe(outcome.seconds)

    def keep_renewing(self, keys: Iterable[str], call: int, seconds: float) -> None:
        """Renew the claims and the reservation of a call from now on."""
        self._claimed.update(dict.fromkeys(keys, (call, seconds + GRACE)))

    async def record_use(self, key: str, query: ModelQuery) -> None:
        """Record that the query's task uses an answer that another task pays for."""
        await self.writer.persist(lambda connection: answers.link_tasks(connection, [(key, query.payer)]))

    def stop_renewing(self, key: str) -> None:
        """Stop renewing a claim, because the attempt has ended."""
        self._claimed.pop(key, None)


@contextmanager
def _booking(query: ModelQuery) -> Iterator[None]:
    """Book the money of one call in the block; what the ledger cannot book is that model's missing vote."""
    try:
        yield
    except Exception as error:
        if isinstance(error, TaskError) or is_temporary(error):
            raise
        # The text of an unexpected error might quote the task.
        reason = str(error) if isinstance(error, CamvoError) else type(error).__name__
        _log.error("not_booked", model=query.model, task=query.task, reason=reason)
        raise NotBookedError(
            f"the ledger could not book the call: {reason}", where=f"{query.model}, task {query.task}"
        ) from error


def refuse_batched(connection: Connection, key: str, query: ModelQuery | Reservation) -> None:
    """Raise a ``BatchPendingError`` if the claim is that of a batch; any other is worth waiting for."""
    if Claims(connection).held_by_batch(key):
        raise BatchPendingError(
            f"the answer of {query.model} is in a provider's batch that is not back yet",
            where=f"task {query.task}",
            fix="run the camvo label command that sent it again; camvo jobs lists what is out",
        )
