"""Lines of batches: one question to one model about one task, waiting for its answer.

A line of a packed arm shares a request, a line of the provider's batch, with others; any other line is a
request of its own.

A line is ``wanted`` until a job takes it, and ``out`` until the job's answer is settled. Then it is
``answered``, ``failed``, or ``discarded`` if its task was deleted meanwhile. A line that expired is wanted
again. Its prompt is kept only as long as it may have to be sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, func, or_, select, update

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.database.upsert import insert_or_replace
from backend.ledger.money.picodollars import from_picodollars, to_picodollars

_table = tables.batch_lines
_KEYS_PER_QUERY = 500
_FIND = select(_table).where(_table.c.key.in_(bindparam("keys", expanding=True)))
_TAKE = (
    update(_table)
    .where(_table.c.key == bindparam("of"), _table.c.state == "wanted")
    .values(
        state="out",
        job=bindparam("by"),
        call=bindparam("paid_by"),
        request=bindparam("sent_as"),
        number=bindparam("shown_as"),
        ceiling_usd=bindparam("most_usd"),
        counted_tokens=bindparam("counted"),
        most_input=bindparam("most"),
        size=bindparam("bytes"),
    )
)
_END = (
    update(_table)
    .where(_table.c.key == bindparam("of"))
    .values(state=bindparam("now"), code=bindparam("why"), cost=bindparam("paid"), body=None)
)

State = Literal["wanted", "out", "answered", "failed", "discarded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """One line.

    Attributes:
        key: the key under which its answer will be stored.
        project: the project that pays.
        task: the task that it is about.
        model: the model's name in the pool.
        state: how far it is.
        job: the job that has it, or had it last.
        call: the call that its money is reserved for.
        body: the request as the provider takes it, or the task that is to be put into a prompt with others;
            ``None`` once the line has ended.
        questions: the names of the questions in the prompt.
        ceiling_usd: the most that it can cost, $.
        counted_tokens: our own count of the input tokens.
        most_input: the most input tokens that it can take.
        size: bytes of the body.
        tries: how often it expired or failed.
        code: why it has no answer.
        cost: what it cost, picodollars; ``None`` before it has ended.
        created_at: unix seconds.
        request: the key of the first line of the request that it was sent in; ``None`` if it is alone there.
            The first line has the ceiling, tokens and bytes of the whole request, the others have none.
        number: the task's id in a prompt with others; ``None`` without.
    """

    key: str
    project: str
    task: int
    model: str
    body: Mapping[str, Any] | None
    questions: Sequence[str]
    ceiling_usd: float
    counted_tokens: int
    most_input: int
    size: int
    created_at: float
    state: State = "wanted"
    job: str | None = None
    call: int | None = None
    tries: int = 0
    code: str | None = None
    cost: int | None = None
    request: str | None = None
    number: str | None = None

    @property
    def lead(self) -> str:
        """The key of the first line of its request."""
        return self.request or self.key

    @property
    def usd(self) -> float:
        """What it cost, $."""
        return from_picodollars(self.cost or 0)


def find(connection: Connection, keys: Collection[str]) -> dict[str, BatchLine]:
    """Return the lines by key; keys without a line are absent."""
    unique = list(dict.fromkeys(keys))
    found: dict[str, BatchLine] = {}
    for start in range(0, len(unique), _KEYS_PER_QUERY):
        rows = connection.execute(_FIND, {"keys": unique[start : start + _KEYS_PER_QUERY]})
        found |= {row.key: _line(row) for row in rows}
    return found


def want(connection: Connection, line: BatchLine) -> None:
    """Store a wanted line, unless the same one is wanted or out already."""
    stored = find(connection, [line.key]).get(line.key)
    if stored is not None and stored.state in ("wanted", "out"):
        return
    row = {field.name: getattr(line, field.name) for field in fields(BatchLine)}
    connection.execute(insert_or_replace(connection.dialect, _table), row | {"questions": [*line.questions]})


def wanted(connection: Connection, project: str, model: str, limit: int, after: str = "") -> list[BatchLine]:
    """Return wanted lines by key, those after a key."""
    query = (
        select(_table)
        .where(
            _table.c.project == project,
            _table.c.state == "wanted",
            _table.c.model == model,
            _table.c.key > after,
        )
        .order_by(_table.c.key)
        .limit(limit)
    )
    return [_line(row) for row in connection.execute(query)]


def of_job(connection: Connection, job: str, limit: int, after: str = "") -> list[BatchLine]:
    """Return lines that are out with a job by key, those after a key."""
    query = (
        select(_table)
        .where(_table.c.job == job, _table.c.state == "out", _table.c.key > after)
        .order_by(_table.c.key)
        .limit(limit)
    )
    return [_line(row) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class Held:
    """How much a job holds: requests, bytes, and tokens by our own count."""

    requests: int
    size: int
    tokens: int


def held(connection: Connection, job: str) -> Held:
    """Return how much of a job is out."""
    requests = func.count(func.coalesce(_table.c.request, _table.c.key).distinct())
    columns = (requests, func.sum(_table.c.size), func.sum(_table.c.counted_tokens))
    query = select(*columns).where(_table.c.job == job, _table.c.state == "out")
    number, size, tokens = connection.execute(query).one()
    return Held(number, int(size or 0), int(tokens or 0))


def take(connection: Connection, line: BatchLine, job: str, call: int) -> None:
    """Let a job take a wanted line, with what is known of its request now."""
    row = {
        "of": line.key,
        "by": job,
        "paid_by": call,
        "sent_as": line.request,
        "shown_as": line.number,
        "most_usd": line.ceiling_usd,
        "counted": line.counted_tokens,
        "most": line.most_input,
        "bytes": line.size,
    }
    connection.execute(_TAKE, row)


def end(connection: Connection, key: str, state: State, code: str | None, usd: float) -> None:
    """End a line that cost so many dollars, and forget its prompt."""
    connection.execute(_END, {"of": key, "now": state, "why": code, "paid": to_picodollars(usd)})


def give_back(connection: Connection, key: str, code: str | None, *, tried: bool) -> None:
    """Let a line be wanted again.

    Args:
        connection: a write transaction.
        key: the line's key.
        code: why it has no answer yet.
        tried: whether that counts as one of its tries.
    """
    values = {"state": "wanted", "code": code, "tries": _table.c.tries + int(tried)}
    alone_again = {"call": None, "request": None, "number": None}
    connection.execute(update(_table).where(_table.c.key == key).values(values | alone_again))


def count(connection: Connection, project: str) -> dict[tuple[str, str], int]:
    """Return how many lines each model has in each state: (model, state) → number."""
    query = (
        select(_table.c.model, _table.c.state, func.count().label("lines"))
        .where(_table.c.project == project)
        .group_by(_table.c.model, _table.c.state)
    )
    return {(row.model, row.state): row.lines for row in connection.execute(query)}


def sums_by_job(connection: Connection, jobs: Sequence[str]) -> dict[str, dict[str, tuple[int, int]]]:
    """Return for each job the number of its lines in each state, and their cost in picodollars."""
    query = (
        select(
            _table.c.job, _table.c.state, func.count().label("lines"), func.sum(_table.c.cost).label("cost")
        )
        .where(_table.c.job.in_(bindparam("jobs", expanding=True)))
        .group_by(_table.c.job, _table.c.state)
    )
    sums: dict[str, dict[str, tuple[int, int]]] = {job: {} for job in jobs}
    for start in range(0, len(jobs), _KEYS_PER_QUERY):
        for row in connection.execute(query, {"jobs": [*jobs[start : start + _KEYS_PER_QUERY]]}):
            sums[row.job][row.state] = (row.lines, int(row.cost or 0))
    return sums


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Forget the prompts of deleted tasks; a line that no provider has yet is discarded at once."""
    mine = (_table.c.project == project, among(connection.dialect, _table.c.task, tasks))
    connection.execute(update(_table).where(*mine).values(body=None))
    unsent = or_(_table.c.state == "wanted", _table.c.state == "failed")
    connection.execute(update(_table).where(*mine, unsent).values(state="discarded"))


def _line(row: Row[Any]) -> BatchLine:
    return BatchLine(**row._mapping)
