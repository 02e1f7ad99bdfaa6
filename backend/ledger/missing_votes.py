"""Votes and labels that are missing: how many of each model, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
)

from backend.errors import (
    BadAnswerError,
    CutOffError,
    NoUsableAnswerError,
    NoVoteError,
    RefusedError,
    StoppingError,
)
from backend.ledger.database import tables
from backend.ledger.money import from_picodollars
from camvo.student import STUDENT
from camvo.twins import model_of

_rounds, _votes, _calls = tables.rounds.c, tables.votes.c, tables.calls.c
_failed, _answers = tables.failed_tasks.c, tables.answers.c

_NO_VOTE = (NoVoteError.code, NoUsableAnswerError.code)

_WINDOW = 500
"""The latest rounds of a project that are looked at, and the most failed tasks."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment of the ledger: what has a higher number is newer.

    Attributes:
        round: the number of the latest round.
        call: that of the latest call.
    """

    round: int
    call: int

    @classmethod
    def now(cls, connection: Connection) -> Mark:
        """The present moment."""
        newest_round, newest_call = func.max(_rounds.id), func.max(_calls.id)
        return cls(
            connection.scalars(select(newest_round)).one() or 0,
            connection.scalars(select(newest_call)).one() or 0,
        )


@dataclass(slots=True)
class AskedModel:
    """How often one model was asked, and gave no vote.

    Attributes:
        tasks: the tasks about which it was asked, or would have been if it had not rested after failures.
        rested: those of them about which it was not asked.
        failures: code of the reason → the tasks on which it gave no vote, or none on a question.
        first_at: when the first of these tasks was decided, unix seconds; ``None`` without any.
        last_at: when the last of them was.
        usd: what its calls cost, in $.
    """

    tasks: int = 0
    rested: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    first_at: float | None = None
    last_at: float | None = None
    usd: float = 0.0

    @property
    def voteless(self) -> int:
        """How many tasks lack its vote."""
        return min(self.failures.total(), self.tasks)

    def add(self, code: str, tasks: int, first_at: float | None, last_at: float | None) -> None:
        """Count tasks without its vote."""
        self.failures[code] += tasks
        times = [at for at in (self.first_at, self.last_at, first_at, last_at) if at is not None]
        self.first_at, self.last_at = min(times, default=None), max(times, default=None)


@dataclass(frozen=True, slots=True)
class MissingVotes:
    """The votes and labels that a project lacks, in a read transaction.

    Attributes:
        connection: the transaction.
        project: the project's key.
        after: what is looked at is newer than this; ``None`` for the latest :data:`WINDOW` rounds.
    """

    connection: Connection
    project: str
    after: Mark | None

    def of_models(self) -> dict[str, AskedModel]:
        """The models that were asked: of rounds, and of the tasks that have no label."""
        models: dict[str, AskedModel] = {}

        def of(arm: str) -> AskedModel:
            return models.setdefault(model_of(arm) or arm, AskedModel())

        queries = _queries(marked=self.after is not None)
        for row in self._all(queries.asked):
            of(row.model).tasks += row.tasks
            of(row.model).rested += row.rested
        for row in self._all(queries.voteless):
            of(row.model).add(row.failure, row.tasks, row.first_at, row.last_at)
        for row in self._all(queries.calls_about_failed_tasks):
            of(row.model).tasks += row.tasks
            of(row.model).add(row.failure, row.tasks, row.first_at, row.last_at)
        for row in self._all(queries.costs):
            of(row.model).usd += from_picodollars(int(row.cost))
        models.pop(STUDENT, None)
        return models

    def _all(self, query: Select[Any]) -> list[Any]:
        after = self.after or Mark(0, 0)
        values = {"of": self.project, "after_round": after.round, "after_call": after.call}
        return list(self.connection.execute(query, values))


@dataclass(frozen=True, slots=True)
class _Queries:
    """The queries of :meth:`MissingVotes.of_models`, of a project after a round and a call."""

    asked: Select[Any]
    voteless: Select[Any]
    calls_about_failed_tasks: Select[Any]
    costs: Select[Any]


_PROJECT: BindParameter[str] = bindparam("of")
_AFTER_ROUND: BindParameter[int] = bindparam("after_round")
_AFTER_CALL: BindParameter[int] = bindparam("after_call")


@cache
def _queries(*, marked: bool) -> _Queries:
    """The queries after a mark, or of the latest rounds; to build them takes longer than to run them."""
    in_window = _votes.round_id > _AFTER_ROUND
    if not marked:
        latest = select(_rounds.id).where(_rounds.project == _PROJECT)
        some = latest.order_by(_rounds.id.desc()).limit(_WINDOW).subquery().select()
        in_window = _votes.round_id.in_(some)
    return _Queries(
        _asked(in_window), _voteless(in_window), _calls_about_failed_tasks(marked=marked), _costs()
    )


def _asked(in_window: ColumnElement[bool]) -> Select[Any]:
    # A vote that came later leaves no failure.
    rested = _votes.voted.is_(None) & _votes.failure.is_not(None)
    return (
        select(
            _votes.model,
            func.count(_rounds.task.distinct()).label("tasks"),
            func.count(case((rested, _rounds.task)).distinct()).label("rested"),
        )
        .join(tables.rounds, _rounds.id == _votes.round_id)
        .where(_votes.project == _PROJECT, in_window)
        .group_by(_votes.model)
    )


def _voteless(in_window: ColumnElement[bool]) -> Select[Any]:
    tasks = func.count(_rounds.task.distinct()).label("tasks")
    first, last = func.min(_rounds.created_at), func.max(_rounds.created_at)
    return (
        select(_votes.model, _votes.failure, tasks, first.label("first_at"), last.label("last_at"))
        .join(tables.rounds, _rounds.id == _votes.round_id)
        .where(_votes.project == _PROJECT, in_window, _votes.failure.is_not(None))
        .group_by(_votes.model, _votes.failure)
    )


def _calls_about_failed_tasks(*, marked: bool) -> Select[Any]:
    """The last call of each model about each task without a label.

    One that was answered gave no vote if the task ended with no vote. If it ended for another reason,
    such as a stopped run, nobody has counted the answer yet, and it is left out. So is a call that a stopping
    run has not sent.
    """
    failed = select(_failed.task).where(_failed.project == _PROJECT)
    some = failed.order_by(_failed.failed_at.desc()).limit(_WINDOW).subquery().select()
    last = (
        select(func.max(_calls.id))
        .where(_calls.project == _PROJECT, _calls.task.in_(failed if marked else some))
        .where(_calls.state == "settled", _calls.id > _AFTER_CALL)
        .where(func.coalesce(_calls.error_code, "") != StoppingError.code)
        .group_by(_calls.model, _calls.task)
    )
    was_cut_off = exists().where(
        _answers.task == _calls.task,
        _answers.project == _calls.project,
        _answers.model == _calls.model,
        _answers.cut_off,
    )
    counted = _calls.task.in_(failed.where(_failed.code.startswith("model_") | _failed.code.in_(_NO_VOTE)))
    answered = case((was_cut_off, CutOffError.code), else_=BadAnswerError.code)
    ended = select(
        _calls.model, _calls.created_at, func.coalesce(_calls.error_code, answered).label("failure")
    )
    calls = ended.where(_calls.id.in_(last), _calls.error_code.is_not(None) | counted).subquery().c
    tasks = func.count().label("tasks")
    first_at, last_at = func.min(calls.created_at), func.max(calls.created_at)
    return select(
        calls.model, calls.failure, tasks, first_at.label("first_at"), last_at.label("last_at")
    ).group_by(calls.model, calls.failure)


def _costs() -> Select[Any]:
    return (
        select(_calls.model, func.coalesce(func.sum(_calls.cost), 0).label("cost"))
        .where(_calls.project == _PROJECT, _calls.id > _AFTER_CALL)
        .group_by(_calls.model)
    )


UNREAD = frozenset({BadAnswerError.code, CutOffError.code, RefusedError.code})
"""The codes of answers that came and gave no vote."""

_LONGEST_EXAMPLE = 200

_WITHOUT_TEXT = {RefusedError.code: "(refused)", CutOffError.code: "(cut off)"}
_EMPTY = "(empty or far too long)"
"""What is said of an answer whose text the ledger does not hold; a far too long one is not stored."""


def unread_examples(connection: Connection, project: str) -> dict[str, str]:
    """Return model → the beginning of its latest answer about a task on which it gave no vote.

    Of a model none of whose answers has a text, it says why. The texts of tasks may be repeated in it.
    """
    voteless = (
        select(_votes.model, _rounds.task, _votes.failure)
        .join(tables.rounds, _rounds.id == _votes.round_id)
        # A model that rests after such failures may have been asked before the latest rounds only.
        .where(_votes.project == project, _votes.failure.in_(UNREAD), _votes.voted.is_not(None))
        .order_by(_votes.round_id.desc())
        .limit(_WINDOW)
        .subquery()
        .c
    )
    failed = (
        select(_failed.task, _failed.code)
        .where(_failed.project == project, _failed.code.in_(UNREAD))
        .limit(_WINDOW)
        .subquery()
        .c
    )
    about = and_(voteless.model == _answers.model, voteless.task == _answers.task)
    beginning = func.substr(_answers.content, 1, _LONGEST_EXAMPLE).label("beginning")
    found = (
        select(_answers.model, beginning, func.coalesce(voteless.failure, failed.code).label("why"))
        .outerjoin(voteless.model.table, about)
        .outerjoin(failed.task.table, failed.task == _answers.task)
        .where(_answers.project == project, voteless.model.is_not(None) | failed.task.is_not(None))
        .order_by(_answers.content != "", _answers.created_at)
    )
    return {
        model_of(row.model) or row.model: " ".join(row.beginning.split())
        or _WITHOUT_TEXT.get(row.why, _EMPTY)
        for row in connection.execute(found)
    }


_RECENT_CALLS = 1000


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended.

    Attributes:
        code: the error's code; ``None`` for an answer.
        at: when the call began, unix seconds.
    """

    code: str | None
    at: float


def recent_outcomes(connection: Connection) -> dict[tuple[str, str], list[Outcome]]:
    """Return (project, model) → the outcomes of its finished calls among the latest 1000 of all projects.

    The latest come first. Calls that ended for a reason that is not the model's, such as one that its round
    gave up before it was sent, say nothing of the model and are left out.
    """
    latest = (
        select(_calls.id, _calls.project, _calls.model, _calls.state, _calls.error_code, _calls.created_at)
        .order_by(_calls.id.desc())
        .limit(_RECENT_CALLS)
        .subquery()
    )
    rows = connection.execute(
        select(latest.c.project, latest.c.model, latest.c.error_code, latest.c.created_at)
        .where(
            latest.c.state == "settled",
            or_(latest.c.error_code.is_(None), latest.c.error_code.startswith("model_")),
        )
        .order_by(latest.c.id.desc())
    )
    outcomes: dict[tuple[str, str], list[Outcome]] = {}
    for project, model, code, at in rows:
        outcomes.setdefault((project, model), []).append(Outcome(code, at))
    return outcomes
