"""Batch jobs: the requests sent to a provider as one batch, and their state.

A job goes from ``filling`` (its lines are being claimed) over ``sending`` (the provider may have it) and
``out`` (the provider has it) to ``ended`` (every line is settled) and ``closed`` (the provider's files are
deleted). A job that the provider refuses as a whole is ``refused``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from sqlalchemy import Connection, bindparam, case, delete, func, insert, or_, select, update

from backend.ledger.database import tables
from backend.ledger.database.statements import among, by_project, found_among, insert_or_replace, now
from backend.ledger.money import from_picodollars, to_picodollars

_jobs = tables.batch_jobs
_RENEW = (
    update(_jobs)
    .where(_jobs.c.id == bindparam("of"), _jobs.c.owner == bindparam("by"))
    .values(leased_until=bindparam("until"))
)

_REMEMBERED: Final = 24 * 3600.0
_DOUBLINGS: Final = 30

_JobState = Literal["filling", "sending", "out", "ended", "closed", "refused"]

_UNSENT: Final[Sequence[_JobState]] = ("filling", "sending")
"""States in which one process at a time works on a job, by its lease."""

OPEN: Final[Sequence[_JobState]] = (*_UNSENT, "out")
"""States in which lines of a job may still be answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """One job.

    Attributes:
        id: 32 hexadecimal digits.
        project: the project that pays.
        model: the model's name in the pool.
        state: how far it is.
        owner: the process that sends it.
        leased_until: until when no other process sends it, unix seconds.
        provider_id: the provider's name for the batch; ``None`` before it is known.
        files: the provider's files: purpose → id.
        lines: how many lines the provider's batch has; each is about one task or several.
        tokens: their input tokens and the most output tokens, by our own count.
        token_limit: the most enqueued tokens, if the provider refused the job for them.
        cancelled: whether somebody asked to cancel it.
        code: why the provider refused or ended it; ``None`` without a reason.
        created_at: unix seconds.
        sent_at: when the batch was first sent, unix seconds.
        due_at: when the provider gives up at the latest, unix seconds.
        ended_at: when the last line was settled, unix seconds.
    """

    id: str
    project: str
    model: str
    state: _JobState
    owner: str
    leased_until: float
    provider_id: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    lines: int = 0
    tokens: int = 0
    token_limit: int | None = None
    cancelled: bool = False
    code: str | None = None
    created_at: float = 0.0
    sent_at: float | None = None
    due_at: float | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class Jobs:
    """The batch jobs of all projects."""

    connection: Connection

    def create(self, job: str, project: str, model: str, owner: str, seconds: float) -> None:
        """Store a new job without lines, leased by ``owner`` for ``seconds``."""
        at = now(self.connection)
        row = {
            "id": job,
            "project": project,
            "model": model,
            "state": "filling",
            "owner": owner,
            "leased_until": at + seconds,
            "files": {},
            "lines": 0,
            "tokens": 0,
            "cancelled": False,
            "created_at": at,
        }
        self.connection.execute(insert(_jobs), row)

    def get(self, job: str) -> BatchJob | None:
        """Return a job; ``None`` if there is no such job."""
        row = self.connection.execute(select(_jobs).where(_jobs.c.id == job)).one_or_none()
        return None if row is None else BatchJob(**row._mapping)

    def find(
        self, *, states: Sequence[_JobState] = (), project: str | None = None, limit: int | None = None
    ) -> list[BatchJob]:
        """Return the jobs in some states, or in any, the newest last."""
        query = select(_jobs).order_by(_jobs.c.created_at.desc(), _jobs.c.id).limit(limit)
        if states:
            query = query.where(_jobs.c.state.in_(states))
        if project is not None:
            query = query.where(_jobs.c.project == project)
        return [BatchJob(**row._mapping) for row in self.connection.execute(query)][::-1]

    def change(self, job: str, **values: Any) -> None:
        """Set columns of a job."""
        self.connection.execute(update(_jobs).where(_jobs.c.id == job).values(values))

    def change_if(self, job: str, before: _JobState, **values: Any) -> bool:
        """Set columns of a job that is in the state ``before``; whether it was."""
        statement = update(_jobs).where(_jobs.c.id == job, _jobs.c.state == before).values(values)
        return self.connection.execute(statement).rowcount > 0

    def lease(self, job: str, owner: str, seconds: float) -> bool:
        """Lease an unsent job whose lease is over; whether that worked.

        The owner itself waits as well, because its request may still be under way.
        """
        at = now(self.connection)
        statement = (
            update(_jobs)
            .where(_jobs.c.id == job, _jobs.c.state.in_(_UNSENT), _jobs.c.leased_until <= at)
            .values(owner=owner, leased_until=at + seconds)
        )
        return self.connection.execute(statement).rowcount > 0

    def renew(self, jobs: Sequence[str], owner: str, seconds: float) -> None:
        """Let the owner's leases last for ``seconds`` more."""
        until = now(self.connection) + seconds
        for job in jobs:
            self.connection.execute(_RENEW, {"of": job, "by": owner, "until": until})

    def provider_ids(self) -> set[str]:
        """Return the providers' names of all batches that the ledger knows."""
        return set(
            self.connection.scalars(select(_jobs.c.provider_id).where(_jobs.c.provider_id.is_not(None)))
        )

    def enqueued(self, models: Collection[str]) -> int:
        """Return the tokens of the jobs of a model and its twin that a provider may have now."""
        query = select(func.sum(_jobs.c.tokens)).where(_jobs.c.model.in_(models), _jobs.c.state.in_(OPEN))
        return int(self.connection.scalars(query).one() or 0)

    def learned_limit(self, models: Collection[str]) -> int | None:
        """Return how many tokens may be enqueued of a model and its twin, as learnt from the last refusal.

        Each job that it took since then doubles the number. ``None`` if it has not refused within a day.
        """
        mine = (_jobs.c.model.in_(models), _jobs.c.created_at > now(self.connection) - _REMEMBERED)
        refused = self.connection.execute(
            select(_jobs.c.token_limit, _jobs.c.created_at)
            .where(*mine, _jobs.c.token_limit.is_not(None))
            .order_by(_jobs.c.created_at.desc())
            .limit(1)
        ).one_or_none()
        if refused is None:
            return None
        since = (_jobs.c.created_at > refused.created_at, _jobs.c.state.in_(("ended", "closed")))
        taken = self.connection.scalars(select(func.count()).where(*mine, *since)).one()
        return int(refused.token_limit * 2 ** min(taken, _DOUBLINGS))


_lines = tables.batch_lines
_FIND_LINES = select(_lines).where(among(_lines.c.key, "keys"))
_FIND_OUT = select(_lines.c.task).where(
    _lines.c.project == bindparam("of"), among(_lines.c.task, "numbers"), _lines.c.state == "out"
)
_TAKE = (
    update(_lines)
    .where(_lines.c.key == bindparam("of"), _lines.c.state == "wanted")
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
    update(_lines)
    .where(_lines.c.key == bindparam("of"))
    .values(state=bindparam("now"), code=bindparam("why"), cost=bindparam("paid"), body=None)
)

_LineState = Literal["wanted", "out", "answered", "failed", "discarded"]

ENDED: Final[Sequence[_LineState]] = ("answered", "failed", "discarded")
"""States of lines that are finished."""


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
    state: _LineState = "wanted"
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
        """The cost in $."""
        return from_picodollars(self.cost or 0)


@dataclass(frozen=True, slots=True)
class _Held:
    """How much a job holds: requests, bytes, and tokens by our own count."""

    requests: int
    size: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of batch jobs, of all projects."""

    connection: Connection

    def find(self, keys: Collection[str]) -> dict[str, BatchLine]:
        """Return the lines by key; keys without a line are absent."""
        rows = self.connection.execute(_FIND_LINES, {"keys": list(dict.fromkeys(keys))})
        return {row.key: BatchLine(**row._mapping) for row in rows}

    def out_among(self, tasks: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
        """Return those of the tasks, projects and numbers, of which a job has a line."""
        return found_among(self.connection, _FIND_OUT, tasks)

    def want(self, line: BatchLine) -> None:
        """Store a wanted line, unless the same one is wanted or out already."""
        stored = self.find([line.key]).get(line.key)
        if stored is not None and stored.state in ("wanted", "out"):
            return
        row = {field.name: getattr(line, field.name) for field in fields(BatchLine)}
        self.connection.execute(insert_or_replace(_lines), row | {"questions": [*line.questions]})

    def wanted(self, project: str, model: str, limit: int, after: str = "") -> list[BatchLine]:
        """Return wanted lines by key, those after a key."""
        query = (
            select(_lines)
            .where(
                _lines.c.project == project,
                _lines.c.state == "wanted",
                _lines.c.model == model,
                _lines.c.key > after,
            )
            .order_by(_lines.c.key)
            .limit(limit)
        )
        return [BatchLine(**row._mapping) for row in self.connection.execute(query)]

    def out_with(self, job: str, limit: int, after: str = "") -> list[BatchLine]:
        """Return lines that are out with a job by key, those after a key."""
        query = (
            select(_lines)
            .where(_lines.c.job == job, _lines.c.state == "out", _lines.c.key > after)
            .order_by(_lines.c.key)
            .limit(limit)
        )
        return [BatchLine(**row._mapping) for row in self.connection.execute(query)]

    def held(self, job: str) -> _Held:
        """Return how much of a job is out."""
        requests = func.count(func.coalesce(_lines.c.request, _lines.c.key).distinct())
        columns = (requests, func.sum(_lines.c.size), func.sum(_lines.c.counted_tokens))
        query = select(*columns).where(_lines.c.job == job, _lines.c.state == "out")
        number, size, tokens = self.connection.execute(query).one()
        return _Held(number, int(size or 0), int(tokens or 0))

    def take(self, line: BatchLine, job: str, call: int) -> None:
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
        self.connection.execute(_TAKE, row)

    def end(self, key: str, state: _LineState, code: str | None, usd: float) -> None:
        """End a line that cost ``usd`` dollars, and forget its prompt."""
        self.connection.execute(_END, {"of": key, "now": state, "why": code, "paid": to_picodollars(usd)})

    def give_back(self, key: str, code: str | None, *, tried: bool) -> None:
        """Mark a line as wanted again."""
        values = {"state": "wanted", "code": code, "tries": _lines.c.tries + int(tried)}
        alone_again = {"call": None, "request": None, "number": None}
        self.connection.execute(update(_lines).where(_lines.c.key == key).values(values | alone_again))

    def count(self, project: str) -> dict[tuple[str, str], int]:
        """Return how many lines each model has in each state: (model, state) → number."""
        query = (
            select(_lines.c.model, _lines.c.state, func.count().label("lines"))
            .where(_lines.c.project == project)
            .group_by(_lines.c.model, _lines.c.state)
        )
        return {(row.model, row.state): row.lines for row in self.connection.execute(query)}

    def sums_by_job(self, jobs: Sequence[str]) -> dict[str, dict[str, tuple[int, int]]]:
        """Return for each job the number of its lines in each state, and their cost in picodollars."""
        query = (
            select(
                _lines.c.job,
                _lines.c.state,
                func.count().label("lines"),
                func.sum(_lines.c.cost).label("cost"),
            )
            .where(among(_lines.c.job, jobs))
            .group_by(_lines.c.job, _lines.c.state)
        )
        sums: dict[str, dict[str, tuple[int, int]]] = {job: {} for job in jobs}
        for row in self.connection.execute(query):
            sums[row.job][row.state] = (row.lines, int(row.cost or 0))
        return sums

    def forget_tasks(self, project: str, tasks: Sequence[int]) -> None:
        """Forget the prompts of deleted tasks; a line that no provider has yet is discarded at once."""
        mine = (_lines.c.project == project, among(_lines.c.task, tasks))
        self.connection.execute(update(_lines).where(*mine).values(body=None))
        unsent = or_(_lines.c.state == "wanted", _lines.c.state == "failed")
        self.connection.execute(update(_lines).where(*mine, unsent).values(state="discarded"))


_tasks = tables.batch_tasks
_OF_TASK = (_tasks.c.project == bindparam("of"), _tasks.c.task == bindparam("number"))
_FIND_TASKS = select(_tasks).where(*_OF_TASK)
_FORGET = delete(_tasks).where(_tasks.c.project == bindparam("of"), among(_tasks.c.task, "numbers"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """One waiting task.

    Attributes:
        project: the project's key.
        task: the task's number.
        questions: a hash of what is asked; another one makes the rest of the row obsolete.
        exploration: the outcome of the exploration draw; ``None`` for a policy that draws nothing.
        drawn: the draw's probabilities, and the arms of the first stage.
        plan: question → the plan as it was before the first line was sent.
        asked: the stages so far: for each, model → the key of its answer.
        created_at: unix seconds.
    """

    project: str
    task: int
    questions: str
    exploration: str | None
    drawn: Mapping[str, Any]
    plan: Mapping[str, Any]
    asked: Sequence[Mapping[str, str]]
    created_at: float


@dataclass(frozen=True, slots=True)
class WaitingTasks:
    """The tasks that wait for the answers of batches."""

    connection: Connection

    def find(self, project: str, task: int) -> BatchTask | None:
        """Return what a task waits for; ``None`` if it waits for nothing."""
        row = self.connection.execute(_FIND_TASKS, {"of": project, "number": task}).one_or_none()
        return None if row is None else BatchTask(**row._mapping)

    def store(self, task: BatchTask) -> None:
        """Store a waiting task; an earlier row of the task is replaced."""
        row = {field.name: getattr(task, field.name) for field in fields(BatchTask)}
        self.connection.execute(insert_or_replace(_tasks), row)

    def forget(self, tasks: Iterable[tuple[str, int]]) -> None:
        """Remove the rows of waiting tasks, each a project and a number."""
        for project, numbers in by_project(tasks):
            self.connection.execute(_FORGET, {"of": project, "numbers": numbers})

    def count(self, project: str) -> tuple[int, int]:
        """Return how many tasks of a project wait, and how many of them ask all models."""
        everyone = case((_tasks.c.exploration == "everyone", 1), else_=0)
        query = select(func.count(), func.sum(everyone)).where(_tasks.c.project == project)
        waiting, exploring = self.connection.execute(query).one()
        return int(waiting), int(exploring or 0)
