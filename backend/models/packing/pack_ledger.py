"""The ledger's side of a prompt about several tasks: one call, and a claim and an answer for each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.ledger import deleted_tasks
from backend.ledger.calls import answers, claims
from backend.ledger.calls.bookings import BoughtAnswer, CallOutcome, settle_call, store_answers
from backend.ledger.database.grouped.writes import GroupedWrite
from backend.ledger.money import spending
from backend.models.call_ledger import GRACE, CallLedger, refuse_batched
from backend.models.model_query import CallEstimate, PaidAnswer
from backend.models.packing.members import Member
from backend.models.packing.pack import Pack


@dataclass(frozen=True, slots=True)
class PackClaim:
    """What a process may ask about.

    Attributes:
        stored: key → the answer that the ledger has; empty content if the task has to be asked about singly.
        mine: the keys that this process has claimed.
        call: the id of the call that money is reserved for; ``None`` if nothing was claimed.
    """

    stored: Mapping[str, PaidAnswer]
    mine: tuple[str, ...]
    call: int | None


class PackLedger:
    """One process's packed calls in the ledger.

    Args:
        calls: its calls, claims and money.
        clock: unix seconds.
    """

    def __init__(self, calls: CallLedger, clock: Callable[[], float]) -> None:
        self._calls, self._clock = calls, clock

    async def find(self, member: Member) -> PaidAnswer | None:
        """Return the answer in the ledger; ``None`` if there is none."""
        return await self._calls.persist(GroupedWrite(_find_each, member))

    async def find_or_free(self, member: Member) -> PaidAnswer | None:
        """Return the answer in the ledger; ``None`` while another process asks the same.

        If that process gave up, the answer is empty: the task has to be asked about singly.

        Raises:
            BatchPendingError: the answer is in a provider's batch.
        """

        def look(connection: Connection) -> PaidAnswer | None:
            [stored] = _find_each(connection, [member])
            if stored is not None:
                return stored
            if self._calls.acquire(connection, member.key) is None:
                refuse_batched(connection, member.key, member.query)
                return None
            claims.release(connection, member.key, self._calls.owner)
            return PaidAnswer("", 0.0)

        return await self._calls.persist(look)

    async def claim(
        self, pack: Pack[Member], estimate: CallEstimate, until: float, seconds: float
    ) -> PackClaim:
        """Find the answers that are stored, claim the other tasks, and reserve the money for one call.

        Args:
            pack: the prompt.
            estimate: the money to reserve for all its tasks, and the counted tokens.
            until: unix seconds; the latest time to wait for money or for the database.
            seconds: the longest duration of the attempt.

        Raises:
            BudgetExhaustedError: the budget does not cover the call; nothing is claimed.
            LedgerError: the database is still down.
            NotBookedError: the ledger cannot hold the reservation.
        """
        members = {member.key: member for member in pack.members.values()}
        shares = pack.shares
        first = next(iter(members.values()))

        def find_or_reserve(connection: Connection) -> PackClaim:
            found = zip(members, _find_each(connection, [*members.values()]), strict=True)
            stored = {key: answer for key, answer in found if answer is not None}
            taken = claims.claimed(connection, [key for key in members if key not in stored])
            held = {key: self._calls.acquire(connection, key) for key in taken}
            free = [key for key in members if key not in stored and key not in taken]
            mine = [key for key in members if key in free or held.get(key) is not None]
            if not mine:
                return PackClaim(stored, (), None)
            before = [claim.call for claim in held.values() if claim is not None and claim.call is not None]
            if before:  # the connection broke while this was committed
                call = before[0]
            else:
                call = self._reserve(connection, [members[key] for key in mine], shares, estimate, seconds)
                for key in taken.intersection(mine):
                    claims.note_call(connection, key, self._calls.owner, call)
            self._calls.add_claims(connection, dict.fromkeys(free, call))
            return PackClaim(stored, tuple(mine), call)

        claimed = await self._calls.reserve(find_or_reserve, first.query, until)
        for key in claimed.mine:
            self._calls.keep_renewing(key)
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
        return spending.reserve(
            connection,
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

    async def settle(
        self, pack: Pack[Member], call: int | None, outcome: CallOutcome, contents: Mapping[str, str] | None
    ) -> None:
        """Store each task's answer, settle the account and release the claims.

        Args:
            pack: the tasks that were asked about.
            call: the id from :meth:`claim`.
            outcome: how the call ended; its content is dropped.
            contents: key → the task's answer, empty if the task has to be asked about singly; ``None`` if
                nothing was paid, so that there is nothing to store.

        Raises:
            NotBookedError: the ledger cannot store the answers, for a reason that does not pass.
        """
        members, shares = list(pack.members.values()), pack.shares

        def store_and_settle(connection: Connection) -> None:
            bought = [
                BoughtAnswer(
                    key=member.key,
                    model=member.query.model,
                    payer=(member.query.project, member.query.task),
                    content=None if contents is None else contents[member.key],
                    outcome=outcome,
                    share=shares[member.key],
                )
                for member in members
            ]
            store_answers(connection, bought, now=self._clock())
            claims.release_each(connection, [member.key for member in members], self._calls.owner)
            settle_call(connection, call, outcome)

        paid = contents is not None or outcome.usage.cost > 0
        await self._calls.book(store_and_settle, members[0].query, call, outcome, paid=paid)

    def stop_renewing(self, pack: Pack[Member]) -> None:
        """Stop renewing the claims of a prompt, because its attempt has ended."""
        for member in pack.members.values():
            self._calls.stop_renewing(member.key)


def _find_each(connection: Connection, members: Sequence[Member]) -> list[PaidAnswer | None]:
    """Return each member's stored answer, or ``None``, and record that its task uses it."""
    found = answers.find_by_key(connection, [member.key for member in members])
    users = [(member.query.project, member.query.task) for member in members if member.key in found]
    deleted = deleted_tasks.deleted_among(connection, users)
    paid: list[PaidAnswer | None] = []
    for member in members:
        if (stored := found.get(member.key)) is None:
            paid.append(None)
            continue
        user = (member.query.project, member.query.task)
        if user not in deleted:
            answers.link_task(connection, member.key, *user)
        content = stored.content if stored.content and member.usable(stored.content) else ""
        paid.append(PaidAnswer(content, 0.0, stored=True, version=stored.version))
    return paid
