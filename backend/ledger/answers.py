"""Answers of models, stored so that no answer is paid for twice.

An answer's row names the task that it was bought for. The few further tasks that use it, because their prompt
is the same, are rows of a table of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog
from sqlalchemy import (
    BigInteger,
    Connection,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)

from backend.errors import Usage
from backend.ledger import money, projects
from backend.ledger.database import tables
from backend.ledger.database.database import Ledger, file_of
from backend.ledger.database.statements import among, insert_new, insert_or_replace, now, upsert
from backend.ledger.money import CallCost, from_picodollars, to_picodollars
from backend.ledger.rounds import RoundKey

_table, _links = tables.answers, tables.answer_tasks

_NOT_READ = ("created_at",)
_COUNTED = exists().where(
    tables.rounds.c.project == _table.c.project,
    tables.rounds.c.task == _table.c.task,
    tables.rounds.c.created_at >= _table.c.created_at,
    tables.rounds.c.carried_from.is_(None),
)
_FIND = select(
    *(column for column in _table.c if column.name not in _NOT_READ), _COUNTED.label("counted")
).where(among(_table.c.key, "keys"))
_BUYER = select(_table.c.project, _table.c.task).where(
    _table.c.key == bindparam("of"), _table.c.project.is_not(None)
)
_TASK_USING = _BUYER.union_all(
    select(_links.c.project, _links.c.task).where(_links.c.key == bindparam("of"))
).limit(1)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer of one model.

    Attributes:
        key: hash of everything that determines the answer: model, prompt and parameters.
        model: the model's name in the pool.
        content: the answer's text, unparsed.
        input_tokens: as counted by the provider.
        output_tokens: as counted by the provider, including reasoning tokens.
        cost: in $.
        seconds: duration of the call; 0 for a line of a batch.
        confidences: question → how sure the model was, in [0, 1]; empty if its provider does not say.
        version: what the provider said answered; ``None`` if it said nothing.
        cut_off: whether ``max_tokens`` cut it off.
        project: the project that paid for it; ``None`` if that has been deleted.
        task: the task that it was bought for.
        counted: whether a round has counted its price already: the task that paid has got one since, maybe
            in another epoch whose prompt was the same.
    """

    key: str
    model: str
    content: str
    input_tokens: int
    output_tokens: int
    cost: float
    seconds: float
    confidences: Mapping[str, float] = field(default_factory=dict)
    version: str | None = None
    cut_off: bool = False
    project: str | None = None
    task: int | None = None
    counted: bool = False

    def paid_by(self, project: str, task: int) -> float:
        """What a task has paid for it, in $, and no round has counted; 0 if another task paid."""
        paid = (self.project, self.task) == (project, task) and not self.counted
        return self.cost if paid else 0.0


def find_by_key(connection: Connection, keys: Collection[str]) -> dict[str, StoredAnswer]:
    """Return the stored answers by key; keys without an answer are absent."""
    answers: dict[str, StoredAnswer] = {}
    for row in connection.execute(_FIND, {"keys": list(dict.fromkeys(keys))}):
        values = dict(row._mapping)
        values |= {"cost": from_picodollars(row.cost), "confidences": row.confidences or {}}
        answers[row.key] = StoredAnswer(**values)
    return answers


def _store_each(
    connection: Connection, bought: Sequence[tuple[StoredAnswer, tuple[str, int]]], now: float
) -> None:
    """Store answers, each linked to the project and the number of its task; stored ones are kept."""
    rows = [
        {
            "key": answer.key,
            "model": answer.model,
            "content": _storable(answer.content),
            "input_tokens": answer.input_tokens,
            "output_tokens": answer.output_tokens,
            "cost": to_picodollars(answer.cost),
            "seconds": answer.seconds,
            "confidences": dict(answer.confidences) or None,
            "version": answer.version,
            "cut_off": answer.cut_off,
            "created_at": now,
            "project": project,
            "task": task,
        }
        for answer, (project, task) in bought
    ]
    if not rows:
        return
    new = set(connection.scalars(_STORE, rows))
    uses: list[tuple[str, tuple[str, int]]] = []
    for answer, user in bought:
        if answer.key in new:
            new.remove(answer.key)
        else:
            uses.append((answer.key, user))
    link_tasks(connection, uses)


_STORE = insert_new(_table).returning(_table.c.key)
_LINK = (
    upsert(_links)
    .from_select(
        ["key", "project", "task"],
        select(
            bindparam("of", type_=Text()),
            bindparam("by", type_=Text()),
            bindparam("number", type_=BigInteger()),
        ).where(
            ~exists().where(
                _table.c.key == bindparam("of"),
                _table.c.project == bindparam("by"),
                _table.c.task == bindparam("number"),
            )
        ),
    )
    .on_conflict_do_nothing()
)
"""Links a task, unless the answer was bought for it."""


def link_tasks(connection: Connection, uses: Sequence[tuple[str, tuple[str, int]]]) -> None:
    """Record that tasks use answers. An answer is kept as long as at least one task uses it.

    Deleted tasks are passed over, as the record of their use would never be removed.

    Args:
        connection: a write transaction.
        uses: keys of answers, each with the project and the number of a task.
    """
    deleted = projects.deleted_among(connection, [task for _, task in uses])
    rows = [
        {"of": key, "by": project, "number": number}
        for key, (project, number) in uses
        if (project, number) not in deleted
    ]
    if rows:
        connection.execute(_LINK, rows)


def _task_using(connection: Connection, key: str) -> tuple[str, int] | None:
    """Return the project and number of one task that uses the answer, or ``None`` if there is none."""
    row = connection.execute(_TASK_USING, {"of": key}).first()
    return None if row is None else (row.project, row.task)


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> int:
    """Delete the answers that only these tasks use, and return how many were deleted."""
    chosen = among(_table.c.task, tasks)
    bought = and_(_table.c.project == project, chosen)
    of_tasks = (_links.c.project == project, among(_links.c.task, tasks))
    other_links = _links.alias()
    others = or_(other_links.c.project != project, ~among(other_links.c.task, tasks))
    linked_elsewhere = exists().where(other_links.c.key == _table.c.key, others)
    for_nobody_else = or_(_table.c.project.is_(None), bought)
    deleted = 0
    for used in (bought, and_(_table.c.key.in_(select(_links.c.key).where(*of_tasks)), for_nobody_else)):
        deleted += connection.execute(delete(_table).where(used, ~linked_elsewhere)).rowcount
    connection.execute(update(_table).where(bought).values(project=None, task=None))
    connection.execute(delete(_links).where(*of_tasks))
    return deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCall:
    """What one call about a task brought: an answer, or a failure.

    Attributes:
        key: the key of the answer.
        model: the model's name in the pool.
        content: the answer's text; ``None`` for a failure.
        code: the code of the failure; ``None`` for an answer.
        cost: in $.
        seconds: duration of the call; ``None`` if it is unknown.
        at: unix seconds.
        shared: whether the answer was bought for another task with the same prompt.
    """

    key: str
    model: str
    content: str | None
    code: str | None
    cost: float
    seconds: float | None
    at: float
    shared: bool = False


def calls_about(connection: Connection, project: str, task: int) -> list[TaskCall]:
    """Return the answers that a task uses and the calls about it that failed, the oldest first."""
    bought = and_(_table.c.project == project, _table.c.task == task)
    linked = select(_links.c.key).where(_links.c.project == project, _links.c.task == task)
    found = [
        TaskCall(
            key=row.key,
            model=row.model,
            content=row.content,
            code=None,
            cost=from_picodollars(row.cost),
            seconds=row.seconds or None,  # a line of a batch has none
            at=row.created_at,
            shared=(row.project, row.task) != (project, task),
        )
        for row in connection.execute(select(_table).where(or_(bought, _table.c.key.in_(linked))))
    ]
    calls = tables.calls
    failed = select(calls).where(
        calls.c.project == project, calls.c.task == task, calls.c.error_code.is_not(None)
    )
    found += [
        TaskCall(
            key=row.key,
            model=row.model,
            content=None,
            code=row.error_code,
            cost=from_picodollars(row.cost or 0),
            seconds=row.seconds,
            at=row.created_at,
        )
        for row in connection.execute(failed)
    ]
    return sorted(found, key=lambda call: (call.at, call.model))


def _storable(content: str) -> str:
    """Replace what a database refuses in a text: lone surrogates, and NUL, which PostgreSQL rejects."""
    return content.encode("utf-8", "replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")


_rates = tables.model_rates
_RATE_STATE = select(_rates.c.state).where(
    _rates.c.model == bindparam("of"), _rates.c.updated_at <= bindparam("until")
)


def read_rates(connection: Connection, model: str, until: float) -> dict[str, Any] | None:
    """Return the state of a model's rates that was stored until a time; ``None`` if there is none."""
    found = {"of": model, "until": until}
    state: dict[str, Any] | None = connection.execute(_RATE_STATE, found).scalar_one_or_none()
    return state


def store_rates(connection: Connection, model: str, state: Mapping[str, Any], now: float) -> None:
    """Store the state of a model's rates."""
    row = {"model": model, "state": dict(state), "updated_at": now}
    connection.execute(insert_or_replace(_rates), row)


_pack_checks = tables.pack_checks
_PACK_CHECKS_OF = _pack_checks.c.project == bindparam("of")
_COUNT_PACK_CHECKS = select(func.count(), func.max(_pack_checks.c.id)).where(_PACK_CHECKS_OF)
_ALL_PACK_CHECKS = (
    select(_pack_checks.c.control, _pack_checks.c.epoch, _pack_checks.c.arm, _pack_checks.c.agreed)
    .where(_PACK_CHECKS_OF)
    .order_by(_pack_checks.c.id)
)


def record_pack_checks(connection: Connection, key: RoundKey, arm: str, *, agreed: bool, now: float) -> None:
    """Record a comparison; a task that was compared before keeps its first one."""
    row = {
        "project": key.project,
        "control": key.control,
        "epoch": key.epoch,
        "arm": arm,
        "task": key.task,
        "agreed": agreed,
        "created_at": now,
    }
    connection.execute(insert_new(_pack_checks), row)


@dataclass(frozen=True, slots=True)
class PackChecks:
    """A project's comparisons of votes by packed prompts with those by single ones."""

    connection: Connection
    project: str

    def mark(self) -> tuple[int, int | None]:
        """Return a value that changes with every comparison of a project."""
        row = self.connection.execute(_COUNT_PACK_CHECKS, {"of": self.project}).one()
        return int(row[0]), row[1]

    def by_question(self) -> dict[tuple[str, str, str], list[bool]]:
        """Return (packed arm, control, epoch) → whether both votes were the same, as they were recorded."""
        found: dict[tuple[str, str, str], list[bool]] = {}
        for row in self.connection.execute(_ALL_PACK_CHECKS, {"of": self.project}):
            found.setdefault((row.arm, row.control, row.epoch), []).append(row.agreed)
        return found


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How one attempt ended.

    Attributes:
        content: the answer to one task to store; ``None`` if nothing was paid, so that there is nothing to
            store, or if the call was about several tasks, each of which has its own.
        usage: tokens and cost.
        code: the code of the error; ``None`` for an answer.
        seconds: duration of the attempt; ``None`` for a line of a batch.
        confidences: question → the probability of the answer's tokens; empty if the provider sent none.
        version: what the provider says answered; ``None`` if it says nothing.
        cut_off: whether ``max_tokens`` cut the answer off.
    """

    content: str | None
    usage: Usage
    code: str | None
    seconds: float | None
    confidences: Mapping[str, float] = field(default_factory=dict)
    version: str | None = None
    cut_off: bool = False


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

    def stored(self) -> StoredAnswer:
        """The answer's row."""
        usage = self.outcome.usage
        return StoredAnswer(
            key=self.key,
            model=self.model,
            content=self.content or "",
            input_tokens=round(usage.input_tokens * self.share),
            output_tokens=round(usage.output_tokens * self.share),
            cost=usage.cost * self.share,
            seconds=self.outcome.seconds or 0.0,
            confidences=self.outcome.confidences,
            version=self.outcome.version,
            cut_off=self.outcome.cut_off,
        )


def store_answers(connection: Connection, bought: Sequence[BoughtAnswer], *, now: float) -> set[str]:
    """Store answers, except those whose task is deleted and that no other task needs.

    Returns:
        The keys of the answers that a task still has a use for.
    """
    deleted = projects.deleted_among(connection, [each.payer for each in bought])
    used: list[tuple[BoughtAnswer, tuple[str, int]]] = []
    for each in bought:
        # Another task may have shared the call and still need the answer.
        user = _task_using(connection, each.key) if each.payer in deleted else each.payer
        if user is not None:
            used.append((each, user))
    stored = [(each.stored(), user) for each, user in used if each.content is not None]
    _store_each(connection, stored, now)
    return {each.key for each, _ in used}


def settle_calls(connection: Connection, ended: Iterable[tuple[int | None, CallOutcome]]) -> None:
    """Book what calls cost, in a write transaction.

    Args:
        connection: a write transaction.
        ended: the id of each call's reservation, ``None`` if nothing was reserved, and how it ended.
    """
    costs = [
        CallCost(call, outcome.usage, outcome.code, outcome.seconds)
        for call, outcome in ended
        if call is not None
    ]
    money.settle_each(connection, costs)


@dataclass(frozen=True, slots=True)
class AnsweringVersion:
    """A model's version, as its provider named it, and the answers that it gave for one project.

    Attributes:
        model: the model's name in the pool.
        version: ``None`` if the provider named none.
        answers: how many were bought for the project.
        first_at: unix seconds of the first.
        last_at: of the last.
    """

    model: str
    version: str | None
    answers: int
    first_at: float
    last_at: float


def versions_of(connection: Connection, project: str) -> list[AnsweringVersion]:
    """Return the versions of models that answered for a project, by model and first answer."""
    at = _table.c.created_at
    query = (
        select(
            _table.c.model,
            _table.c.version,
            func.count().label("answers"),
            func.min(at).label("first_at"),
            func.max(at).label("last_at"),
        )
        .where(_table.c.project == project)
        .group_by(_table.c.model, _table.c.version)
        .order_by(_table.c.model, func.min(at), _table.c.version)
    )
    return [AnsweringVersion(**row._mapping) for row in connection.execute(query)]


_SUFFIX: Final = ".received-"

_LONG: Final = 1 << 20
"""Bytes after which a file takes no further answers, so that it can be deleted once all of its are stored."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _File:
    """One file of this process."""

    path: Path
    descriptor: int
    size: int = 0
    unstored: int = 0

    @classmethod
    def create(cls, ledger: Path) -> _File:
        """Create a file that only its owner may read, and lock it."""
        while True:  # until none was deleted as left behind before it was locked
            path = ledger.with_name(f"{ledger.name}{_SUFFIX}{uuid.uuid4().hex}")
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                return cls(path, descriptor)
            os.close(descriptor)

    def remove(self) -> None:
        with contextlib.suppress(OSError):  # on a disk that is read-only now; the next process deletes it
            self.path.unlink()
        os.close(self.descriptor)


class ReceivedAnswers:
    """The answers that one process has received and not committed yet. Used from one event loop only.

    A commit takes milliseconds, and answers that arrive together share one. Until then a killed process would
    lose them, though the provider has charged for them. So each is appended to the process's file, beside an
    SQLite ledger, before anything else happens: a write to a file survives the process without waiting for
    the disk. The others store what a process has left as soon as they know that it has ended, in the
    transaction that takes over its calls; the next process that starts does too. A process holds a lock on
    its files, which the system releases however the process ends.

    Args:
        ledger: the ledger; on PostgreSQL nothing is kept.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger.file
        self._current: _File | None = None

    @contextmanager
    def kept(self, call: int, outcome: CallOutcome, bought: Sequence[BoughtAnswer]) -> Iterator[None]:
        """Keep the answers of one call in the file until the block ends, which commits them.

        Args:
            call: the id of the call's reservation.
            outcome: how the call ended.
            bought: its answers.
        """
        file = self._append(_line(call, outcome, bought))
        try:
            yield
        except Exception:  # the ledger refuses it for good; a cancelled caller leaves it to the next process
            self._stored(file)
            raise
        self._stored(file)

    def _append(self, line: bytes) -> _File | None:
        """Append a line; ``None`` if that fails, as on a full disk: the ledger then has the answer alone."""
        if self._ledger is None:
            return None
        try:
            if self._current is None or self._current.size > _LONG:
                full, self._current = self._current, _File.create(self._ledger)
                if full is not None and not full.unstored:
                    full.remove()
            file = self._current
            file.size += os.write(file.descriptor, line)
        except OSError as error:
            _log.warning("answer_not_kept", reason=type(error).__name__)
            return None
        file.unstored += 1
        return file

    def _stored(self, file: _File | None) -> None:
        if file is None:
            return
        file.unstored -= 1
        if file.unstored:
            return
        if file is self._current:
            os.ftruncate(file.descriptor, 0)
            file.size = 0
        else:
            file.remove()

    def close(self) -> None:
        """Delete the file, unless it holds answers that could not be stored."""
        if self._current is not None:
            if self._current.unstored:
                os.close(self._current.descriptor)
            else:
                self._current.remove()
            self._current = None


def store_received(connection: Connection) -> int:
    """Store the answers that processes received and could not commit before they ended.

    Answers that are stored already are kept as they are, and none is charged twice. The files stay until
    :func:`remove_stored` finds that this is committed.

    Args:
        connection: a write transaction.

    Returns:
        How many calls ended with such an answer.
    """
    stored = 0
    for path in _files_of(file_of(connection)):
        with _left_behind(path) as calls:
            stored += _store_unsettled(connection, calls)
    if stored:
        _log.info("received_answers_stored", calls=stored)
    return stored


def remove_stored(ledger: Ledger) -> None:
    """Delete the files of processes that have ended, once all their answers are stored.

    Raises:
        LedgerError: the ledger cannot be read; the files are kept.
    """
    for path in _files_of(ledger.file):
        with _left_behind(path) as calls, ledger.read() as connection:
            if calls is not None and not money.unsettled(connection, [each["call"] for each in calls]):
                path.unlink(missing_ok=True)


def _files_of(ledger: Path | None) -> list[Path]:
    return [] if ledger is None else sorted(ledger.parent.glob(f"{glob.escape(ledger.name)}{_SUFFIX}*"))


@contextmanager
def _left_behind(path: Path) -> Iterator[list[dict[str, Any]] | None]:
    """The calls in the file of a process that has ended; ``None`` if it lives, or the file is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield None
        return
    try:
        try:
            # shared, or two processes that look at once would each take the other for the owner
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            yield None
        else:
            yield list(_calls_in(path.read_bytes())) if path.exists() else None
    finally:
        os.close(descriptor)


def _calls_in(content: bytes) -> Iterator[dict[str, Any]]:
    """The calls in a file; a line that was cut off by the end of its process is none."""
    for line in content.split(b"\n"):
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def _line(call: int, outcome: CallOutcome, bought: Sequence[BoughtAnswer]) -> bytes:
    names = ("key", "model", "payer", "content", "share")
    answers = [{name: getattr(each, name) for name in names} for each in bought]
    ended = {**_fields(outcome), "usage": _fields(outcome.usage)}
    written = json.dumps({"call": call, "outcome": ended, "bought": answers})
    return f"\n{written}\n".encode()  # the first newline ends a line that a full disk has cut off


def _fields(value: CallOutcome | Usage) -> dict[str, Any]:
    """The fields of a dataclass; ``dataclasses.asdict`` would copy what is in them, for every answer."""
    return {name: getattr(value, name) for name in value.__slots__}


def _store_unsettled(connection: Connection, calls: Sequence[dict[str, Any]] | None) -> int:
    """Store the answers of those calls that are not settled yet, and return how many there are."""
    if not calls:
        return 0
    at, unsettled = now(connection), money.unsettled(connection, [each["call"] for each in calls])
    for each in calls:
        if each["call"] not in unsettled:
            continue
        outcome = CallOutcome(**each["outcome"] | {"usage": Usage(**each["outcome"]["usage"])})
        bought = [
            BoughtAnswer(**{**answer, "payer": tuple(answer["payer"]), "outcome": outcome})
            for answer in each["bought"]
        ]
        store_answers(connection, bought, now=at)
        settle_calls(connection, [(each["call"], outcome)])
    return len(unsettled)
