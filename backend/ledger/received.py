"""Received answers that are not committed yet, in a file beside an SQLite ledger.

A commit takes milliseconds, and answers that arrive together share one. Until then a killed process would
lose them, though the provider has charged for them. So each is appended to the process's file as soon as it
has been read, before anything else happens: a write to a file survives the process, without waiting for the
disk. The others store what a process has left as soon as they know that it has ended, in the transaction
that takes over its calls, and the next process that starts does too.

A process holds a lock on its files. The system releases it when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from sqlalchemy import Connection

from backend.errors import Usage
from backend.ledger import money
from backend.ledger.answers import BoughtAnswer, CallOutcome, settle_calls, store_answers
from backend.ledger.database.database import Ledger, file_of
from backend.ledger.database.statements import now

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

    def empty(self) -> None:
        os.ftruncate(self.descriptor, 0)
        self.size = 0

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


class ReceivedAnswers:
    """The answers that one process has received and not committed yet. Used from one event loop only.

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
            file.empty()
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
            stored += _store(connection, calls)
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
    return [] if ledger is None else sorted(ledger.parent.glob(f"{ledger.name}{_SUFFIX}*"))


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


def _store(connection: Connection, calls: Sequence[dict[str, Any]] | None) -> int:
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
