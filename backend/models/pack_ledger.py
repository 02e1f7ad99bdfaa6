"""The ledger's side of a prompt about several tasks: one call, and a claim and an answer for each task."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog
from sqlalchemy import Connection

from backend.ledger import answers, money
from backend.ledger.answers import BoughtAnswer, CallOutcome, settle_calls, store_answers
from backend.ledger.claims import Claims
from backend.ledger.database.writer import GroupedWrite
from backend.models.call_ledger import (
    GRACE,
    KEY_LENGTH,
    CallEstimate,
    CallLedger,
    ModelQuery,
    PaidAnswer,
    refuse_batched,
)
from backend.models.model import count_text, count_tokens
from backend.models.pool import Pool
from backend.questions.prompts.messages import Messages
from backend.questions.prompts.packs import (
    PACK_VERSION,
    TYPICAL_ID,
    PackedTask,
    draw_ids,
    packed_messages,
    packed_schema,
    split_answer,
)
from backend.telemetry import metrics


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One task on its way into a prompt with others.

    Attributes:
        query: what to ask; ``model`` is the packed arm, and the prompt about one task is not sent.
        task: the task as written in the prompt.
        key: the key of its answer.
        until: monotonic seconds; the latest time to wait.
        usable: whether an answer gives a vote.
        answer: the answer when it is there; its content is empty if the task has to be asked about singly.
    """

    query: ModelQuery
    task: PackedTask
    key: str
    until: float
    usable: Callable[[str], bool]
    answer: asyncio.Future[PaidAnswer]

    def end(self, answer: PaidAnswer) -> None:
        """Give the answer to the waiting task, once."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        """Give an error to the waiting task, once."""
        if not self.answer.done():
            self.answer.set_exception(error)


MOST_TOKENS: Final = 16_000
"""Input tokens from which a prompt is full, however few tasks it holds."""

_log = structlog.get_logger(__name__)


class _Packable(Protocol):
    """A task that can be put into a prompt with others."""

    @property
    def key(self) -> str:
        """The key of the answer about it."""
        ...

    @property
    def task(self) -> PackedTask:
        """The task as written in the prompt."""
        ...


_P = TypeVar("_P", bound=_Packable)


@dataclass(frozen=True, slots=True, eq=False)
class Pack(Generic[_P]):
    """Tasks that share a prompt.

    Attributes:
        members: id → task, in the order in which they are shown.
    """

    members: Mapping[str, _P]

    @classmethod
    def drawn(cls, members: Sequence[_P], rng: random.Random) -> Pack[_P] | None:
        """Some tasks in random order, under random ids; ``None`` without any."""
        if not members:
            return None
        ids = draw_ids([member.task for member in members], rng)
        return cls(dict(zip(ids, rng.sample(members, len(members)), strict=True)))

    @property
    def tasks(self) -> dict[str, PackedTask]:
        """The tasks as written in the prompt, by id."""
        return {number: member.task for number, member in self.members.items()}

    @property
    def messages(self) -> Messages:
        """The prompt."""
        return packed_messages(self.tasks)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its answer."""
        return packed_schema(self.tasks)

    def only(self, keys: Sequence[str]) -> Pack[_P]:
        """The members with these keys."""
        wanted = frozenset(keys)
        return Pack({number: member for number, member in self.members.items() if member.key in wanted})

    @property
    def shares(self) -> dict[str, float]:
        """Key → the member's share of the cost: an equal part of what is shared, and its own texts."""
        first = next(iter(self.members.values()))
        shared = count_tokens((first.task.system,)) / len(self.members)
        weights = {member.key: shared + own_tokens(member.task) for member in self.members.values()}
        total = sum(weights.values())
        return {key: weight / total for key, weight in weights.items()}

    def split(self, content: str) -> dict[str, str]:
        """Key → the answer about that task alone; empty if it is missing or unreadable."""
        parts = split_answer(content, self.tasks)
        return {member.key: parts.get(number, "") for number, member in self.members.items()}


def own_tokens(task: PackedTask) -> int:
    """The tokens of a task's own texts, by our count."""
    return count_text(task.fenced(TYPICAL_ID))


def pack_key(pool: Pool, arm: str, task: PackedTask) -> str:
    """Return the key of a packed answer: of the arm, the template and the task's own text.

    Args:
        pool: the models.
        arm: the name of the packed arm, which says how many tasks a prompt may hold.
        task: the task as written in a prompt.
    """
    alone = {TYPICAL_ID: task}
    fingerprint = pool[arm].model.fingerprint(packed_messages(alone), packed_schema(alone))
    identity = f"pack {PACK_VERSION} {arm.rpartition(':')[2]} {fingerprint}"
    return hashlib.sha256(identity.encode()).hexdigest()[:KEY_LENGTH]


def count_parts(arm: str, contents: Mapping[str, str]) -> None:
    """Count the tasks that an answer says something about, and those that are missing in it.

    Args:
        arm: the packed arm.
        contents: key → the answer about one task; empty if it is missing or unreadable.
    """
    missing = sum(not content for content in contents.values())
    metrics.packed_tasks.labels(model=arm, outcome="answered").inc(len(contents) - missing)
    metrics.packed_tasks.labels(model=arm, outcome="missing").inc(missing)
    if missing:
        _log.info("missing_in_pack", model=arm, tasks=len(contents), missing=missing)


@dataclass(frozen=True, slots=True)
class _PackClaim:
    """The answers that are stored already, and the tasks that this process may ask about in a call."""

    stored: Mapping[str, PaidAnswer]
    mine: tuple[str, ...]
    call: int | None


class PackLedger:
    """One process's packed calls in the ledger."""

    def __init__(self, calls: CallLedger) -> None:
        self._calls = calls

    async def find(self, member: Member) -> PaidAnswer | None:
        """Return the answer in the ledger; ``None`` if there is none."""
        return await self._calls.writer.persist(GroupedWrite(_find_each, member))

    async def find_or_free(self, member: Member) -> PaidAnswer | None:
        """Return the answer in the ledger; ``None`` while another process asks the same.

        If that process gave up, the answer is empty: the task has to be asked about singly.
        """

        def look(connection: Connection) -> PaidAnswer | None:
            [stored] = _find_each(connection, [member])
            if stored is not None:
                return stored
            if self._calls.acquire(connection, member.key) is None:
                refuse_batched(connection, member.key, member.query)
                return None
            Claims(connection).release([member.key], self._calls.owner)
            return PaidAnswer("", 0.0)

        return await self._calls.writer.persist(look)

    async def claim(
        self, pack: Pack[Member], estimate: CallEstimate, until: float, seconds: float
    ) -> _PackClaim:
        """Find the answers that are stored, claim the other tasks, and reserve the money for one call.

        Nothing is awaited beyond ``until``, monotonic seconds. ``seconds`` is the call's longest duration.

        Raises:
            BudgetExhaustedError: the budget does not cover the call; nothing is claimed.
            LedgerError: the database is still down.
            NotBookedError: the ledger cannot hold the reservation.
        """
        members = {member.key: member for member in pack.members.values()}
        shares = pack.shares
        first = next(iter(members.values()))

        def find_or_reserve(connection: Connection) -> _PackClaim:
            claimed = Claims(connection).claimed([*members])
            found = zip(members, _find_each(connection, [*members.values()]), strict=True)
            stored = {key: answer for key, answer in found if answer is not None}
            taken = claimed.difference(stored)
            held = {key: self._calls.acquire(connection, key) for key in taken}
            free = [key for key in members if key not in stored and key not in taken]
            mine = [key for key in members if key in free or held.get(key) is not None]
            if not mine:
                return _PackClaim(stored, (), None)
            before = [claim.call for claim in held.values() if claim is not None and claim.call is not None]
            if before:  # the connection broke while this was committed
                call = before[0]
            else:
                call = self._reserve(connection, [members[key] for key in mine], shares, estimate, seconds)
                for key in taken.intersection(mine):
                    Claims(connection).note_call(key, self._calls.owner, call)
            self._calls.add_claims(connection, dict.fromkeys(free, call))
            return _PackClaim(stored, tuple(mine), call)

        claimed = await self._calls.reserve(find_or_reserve, first.query, until)
        if claimed.call is not None:
            self._calls.keep_renewing(claimed.mine, claimed.call, seconds)
        return claimed

    @staticmethod
    def _reserve(
        connection: Connection,
        members: list[Member],
        shares: Mapping[str, float],
        estimate: CallEstimate,
        seconds: float,
    ) -> int:
        query = members[0].query
        part = sum(shares[member.key] for member in members)
        by_task: dict[int, float] = {}
        for member in members:
            by_task[member.query.task] = by_task.get(member.query.task, 0.0) + shares[member.key] / part
        wanted = money.Reservation(
            project=query.project,
            task=query.task,
            model=query.model,
            key=members[0].key,
            usd=estimate.ceiling,
            project_usd=query.budget.project_usd,
            day_usd=query.budget.day_usd,
            counted_tokens=round(estimate.counted_tokens * part),
            seconds=seconds + GRACE,
            shares=by_task,
            purse=query.purse,
        )
        return money.reserve_each(connection, [wanted])[wanted.key]

    async def settle(
        self, pack: Pack[Member], call: int | None, outcome: CallOutcome, contents: Mapping[str, str] | None
    ) -> None:
        """Store each task's answer, settle the account and release the claims.

        ``contents`` has each task's answer by key, empty if the task has to be asked about singly. It is
        ``None`` if nothing was paid, so that there is nothing to store.

        Raises:
            NotBookedError: the ledger cannot store the answers, for a reason that does not pass.
        """
        members, shares = list(pack.members.values()), pack.shares

        bought = [
            BoughtAnswer(
                key=member.key,
                model=member.query.model,
                payer=member.query.payer,
                content=None if contents is None else contents[member.key],
                outcome=outcome,
                share=shares[member.key],
            )
            for member in members
        ]

        def store_and_settle(connection: Connection) -> None:
            store_answers(connection, bought, now=self._calls.clock())
            Claims(connection).release([member.key for member in members], self._calls.owner)
            settle_calls(connection, [(call, outcome)])

        paid = contents is not None or outcome.usage.cost > 0
        await self._calls.book(store_and_settle, members[0].query, call, outcome, bought if paid else [])

    def stop_renewing(self, pack: Pack[Member]) -> None:
        """Stop renewing the claims of a prompt, because its attempt has ended."""
        for member in pack.members.values():
            self._calls.stop_renewing(member.key)


def _find_each(connection: Connection, members: Sequence[Member]) -> list[PaidAnswer | None]:
    """Return each member's stored answer, or ``None``, and record that its task uses it."""
    found = answers.find_by_key(connection, [member.key for member in members])
    answers.link_tasks(connection, [(each.key, each.query.payer) for each in members if each.key in found])
    paid: list[PaidAnswer | None] = []
    for member in members:
        if (stored := found.get(member.key)) is None:
            paid.append(None)
            continue
        content = stored.content if stored.content and member.usable(stored.content) else ""
        earlier = stored.paid_by(*member.query.payer)
        paid.append(PaidAnswer(content, 0.0, stored=True, earlier=earlier, version=stored.version))
    return paid
