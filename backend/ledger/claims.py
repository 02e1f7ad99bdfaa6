"""Claims: the right to do a piece of work, such as requesting an answer, held by one process at a time.

A claim expires unless its owner renews it. On the host of the owner, others know at once that it has died.
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, case, delete, insert, or_, select, update

from backend.ledger import money
from backend.ledger.answers import find_by_key, store_received
from backend.ledger.database import tables
from backend.ledger.database.statements import among, now, upsert
from backend.ledger.database.writer import Writer


@cache
def _host() -> str | None:
    """What the processes have in common that know each other's numbers; ``None`` where nothing says it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return None


def process_owner() -> str:
    """Return a new name for this process as an owner: host, process, its start, and a random part."""
    parts = (_host() or "-", os.getpid(), _started(os.getpid()) or "-", uuid.uuid4().hex)
    return " ".join(map(str, parts))


def _started(process: int) -> str | None:
    """When a process of this host started, in ticks since the boot; ``None`` if it has ended or is hidden."""
    folder = Path(f"/proc/{process}")
    try:
        state, *fields = (folder / "stat").read_text().rpartition(")")[2].split()
        # a killed process holds its locks until its last thread has ended
        ended = state == "X" or (state == "Z" and len(os.listdir(folder / "task")) <= 1)
    except OSError:
        return None
    return None if ended else fields[18]


def _has_died(owner: str) -> bool:
    """Whether the owner is a process of this host that has ended; false if nothing is known of it."""
    host, *parts = owner.split(" ")
    if len(parts) != 3 or host != _host():
        return False
    process, started, _ = parts
    found = _started(int(process))
    return found != started if found is not None else not _is_hidden(int(process))


def _is_hidden(process: int) -> bool:
    """Whether a process lives that this user may not look at."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except OSError:
        pass
    return False


class Contacts:
    """When this process last reached the ledger.

    After an outage, and after the ledger's clock was set forward, a process takes over no claim for a lease:
    the claim's owner could not renew it in time, and may hold an answer that is not stored yet.

    Args:
        lease: seconds until a claim expires unless it is renewed.
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._last = self._back = -math.inf

    def note(self, at: float) -> None:
        """Record that the ledger has been reached, at a time of its clock."""
        if math.isfinite(self._last) and at - self._last > 2 / 3 * self._lease:
            self._back = monotonic()
        self._last = at

    @property
    def lasting(self) -> bool:
        """Whether others have had the time to renew their claims; those that have expired are free then."""
        return monotonic() - self._back >= self._lease


_claims = tables.claims
_RENEW = (
    update(_claims)
    .where(among(_claims.c.key, "keys"), _claims.c.owner == bindparam("by"))
    .values(expires_at=bindparam("until"))
)
_NOTE = (
    update(_claims)
    .where(_claims.c.key == bindparam("of"), _claims.c.owner == bindparam("by"))
    .values(call=bindparam("number"))
)
_BATCH = "batch:"
_OWNER = select(_claims.c.owner).where(_claims.c.key == bindparam("of"))
_RELEASE = delete(_claims).where(among(_claims.c.key, "keys"), _claims.c.owner == bindparam("by"))
_OWNERS = select(_claims.c.owner).distinct()
_OF_OWNERS = delete(_claims).where(among(_claims.c.owner, "owners")).returning(_claims.c.call)
_CLAIMED = select(_claims.c.key, _claims.c.owner).where(among(_claims.c.key, "keys"))
_ADD_CLAIM = insert(_claims)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that its owner holds.

    Attributes:
        call: the call that the owner has reserved money for under this claim; ``None`` if there is none.
    """

    call: int | None


_claim = upsert(_claims)
_IS_MINE = _claims.c.owner == _claim.excluded.owner
_ACQUIRE = _claim.on_conflict_do_update(
    index_elements=[_claims.c.key],
    set_={
        "owner": _claim.excluded.owner,
        "expires_at": _claim.excluded.expires_at,
        "call": case((_IS_MINE, _claims.c.call), else_=None),
    },
    where=or_(_claims.c.expires_at <= bindparam("expired"), _IS_MINE),
).returning(_claims.c.call)


def batch_owner(job: str) -> str:
    """Return the owner of the claims of a batch job, which belong to no process."""
    return f"{_BATCH}{job}"


class _Ended(NamedTuple):
    """The claims of dead processes that were deleted, and the calls whose answers they had received."""

    claims: int
    answers: int


@dataclass(frozen=True, slots=True)
class Claims:
    """The rights to request answers, each held by one process or batch job at a time."""

    connection: Connection

    def acquire(self, key: str, owner: str, seconds: float, *, expires: bool = True) -> Claim | None:
        """Claim the right to request an answer, for ``seconds``.

        Args:
            key: the key under which the answer will be stored.
            owner: the process.
            seconds: time until the claim expires.
            expires: whether an expired claim of another owner is taken over.

        Returns:
            The claim if ``owner`` holds it now: it was free, had expired, was held by this owner already, or
            its owner has died. ``None`` also if the answer is stored, or if the dead owner had received
            answers, which are stored now and may be what is wanted.
        """
        holder = self._owner_of(key)
        if self._end_dead({holder} - {owner, ""}).answers:
            return None
        if not holder and find_by_key(self.connection, [key]):
            return None  # this transaction has ended the claims of the process that received it
        at = now(self.connection)
        row = {
            "key": key,
            "owner": owner,
            "expires_at": at + seconds,
            "expired": at if expires else -math.inf,
        }
        held = self.connection.execute(_ACQUIRE, row).first()
        return None if held is None else Claim(held.call)

    def held_by_batch(self, key: str) -> bool:
        """Whether a batch job holds the claim."""
        return self._owner_of(key).startswith(_BATCH)

    def end_dead(self) -> int:
        """Delete the claims of processes of this host that have died, and book their calls as lost.

        What they had received is stored first.
        """
        return self._end_dead(self.connection.scalars(_OWNERS)).claims

    def _end_dead(self, owners: Iterable[str]) -> _Ended:
        dead = [owner for owner in owners if _has_died(owner)]
        if not dead:
            return _Ended(0, 0)
        answers = store_received(self.connection)
        ended = self.connection.execute(_OF_OWNERS, {"owners": dead}).all()
        money.lose(self.connection, {call for (call,) in ended if call is not None})
        return _Ended(len(ended), answers)

    def _owner_of(self, key: str) -> str:
        """The claim's owner; an empty name if nobody holds it."""
        return self.connection.execute(_OWNER, {"of": key}).scalar_one_or_none() or ""

    def note_call(self, key: str, owner: str, call: int) -> None:
        """Record the call that the owner has reserved money for.

        An owner whose connection broke during the commit finds its reservation again by it.
        """
        self.connection.execute(_NOTE, {"of": key, "by": owner, "number": call})

    def renew(self, keys: Collection[str], owner: str, seconds: float) -> None:
        """Let the owner's claims last for ``seconds`` more; claims that others took over are unchanged."""
        self.connection.execute(
            _RENEW, {"keys": list(keys), "by": owner, "until": now(self.connection) + seconds}
        )

    def claimed(self, keys: Collection[str]) -> set[str]:
        """Return those of the keys that anybody has claimed, also if the claim has expired.

        Claims of processes that have died are deleted first, so look up stored answers after this.
        """
        owners = {row.key: row.owner for row in self.connection.execute(_CLAIMED, {"keys": list(keys)})}
        if self._end_dead(set(owners.values())).claims:
            return set(self.connection.scalars(_CLAIMED, {"keys": list(keys)}))
        return set(owners)

    def add(self, calls: Mapping[str, int], owner: str, seconds: float) -> None:
        """Claim keys that nobody has claimed, for calls that the owner has reserved money for.

        Args:
            calls: key → the call.
            owner: the process.
            seconds: time until the claims expire.
        """
        until = now(self.connection) + seconds
        rows = [
            {"key": key, "owner": owner, "expires_at": until, "call": call} for key, call in calls.items()
        ]
        if rows:
            self.connection.execute(_ADD_CLAIM, rows)

    def release(self, keys: Collection[str], owner: str) -> None:
        """Delete the owner's claims, at most some hundred; claims held by other owners are unchanged."""
        self.connection.execute(_RELEASE, {"keys": list(keys), "by": owner})


class ProjectClaims:
    """This process's right to do one kind of work on a project, for as long as a lease lasts."""

    def __init__(self, writer: Writer, work: str, lease: float) -> None:
        self._writer, self._work, self._lease = writer, work, lease
        self._owner = process_owner()
        self._busy = set[str]()

    @asynccontextmanager
    async def working(self, project: str) -> AsyncIterator[bool]:
        """Work on a project until the block ends; false if this process or another one does already."""
        if project in self._busy:
            yield False
            return
        self._busy.add(project)
        try:
            if not await self.acquire(project):
                yield False
                return
            try:
                yield True
            finally:
                await self._release(project)
        finally:
            self._busy.discard(project)

    async def acquire(self, project: str) -> bool:
        """Claim a project, or renew the claim; whether no other process holds it."""

        def claim(connection: Connection) -> bool:
            return Claims(connection).acquire(self._key(project), self._owner, self._lease) is not None

        return await self._writer.persist(claim)

    async def _release(self, project: str) -> None:
        """Let other processes work on a project."""
        key = self._key(project)
        await self._writer.persist(lambda connection: Claims(connection).release([key], self._owner))

    def _key(self, project: str) -> str:
        return f"{self._work}:{project}"


def end_lost_calls(connection: Connection) -> None:
    """Store what processes had received that have ended, and book as lost what they had under way.

    That includes the calls of processes elsewhere that stopped renewing them.
    """
    store_received(connection)
    Claims(connection).end_dead()
    money.expire(connection)
