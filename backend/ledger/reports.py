"""Sums over a project's rounds: by question, by bin of the score, and from a score on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    and_,
    bindparam,
    case,
    cast,
    exists,
    func,
    or_,
    select,
    update,
)

from backend.ledger import recounts
from backend.ledger.database import tables
from backend.ledger.database.statements import among, insert_new, now
from backend.ledger.human_annotations import is_open
from backend.ledger.money import EVERY_PROJECT, TOTAL, from_picodollars
from camvo.scores.reviews import ExampleTrial

_annotations, _human_rounds = tables.human_annotations, tables.rounds


@dataclass(frozen=True, slots=True)
class HumansRow:
    """Counts of a project's human annotations.

    Attributes:
        annotations: annotations that are not deleted.
        teaching: those that teach, or will once their task has a round; not those that are tied.
        tasks: tasks with at least one such annotation.
        ground_truths: those marked as ground truth.
        withdrawn: those that ``camvo ledger forget`` has withdrawn; they are in no other count but the first.
        last_at: unix seconds when the latest arrived, ``None`` before the first.
    """

    annotations: int
    teaching: int
    tasks: int
    ground_truths: int
    withdrawn: int
    last_at: float | None


def sum_annotations(connection: Connection, project: str) -> HumansRow:
    """Count a project's human annotations."""
    columns = _annotations.c
    of_task = and_(_human_rounds.c.project == columns.project, _human_rounds.c.task == columns.task)
    decided = exists().where(of_task, _human_rounds.c.human.is_not(None))
    teaches = and_(columns.teaches, ~columns.withdrawn, or_(decided, ~exists().where(of_task)))
    query = select(
        func.count().label("annotations"),
        func.count(case((teaches, 1))).label("teaching"),
        func.count(case((teaches, columns.task)).distinct()).label("tasks"),
        func.count(case((and_(columns.ground_truth, ~columns.withdrawn), 1))).label("ground_truths"),
        func.count(case((columns.withdrawn, 1))).label("withdrawn"),
        func.max(columns.received_at).label("last_at"),
    ).where(columns.project == project, ~columns.deleted)
    return HumansRow(**connection.execute(query).one()._mapping)


_columns = tables.rounds.c

SCORE_BINS = 100
"""Number of equally wide bins into which :func:`count_scores` sorts."""

BLOCKS = 20
"""Number of blocks of :func:`sum_blocks`."""


def count_scores(connection: Connection, project: str, control: str, epoch: str) -> list[int]:
    """Count a question's labels in an epoch by the bin of their latest score: :data:`SCORE_BINS` numbers."""
    score = recounts.latest_checked_score() if recounts.is_recounted(connection, project) else _columns.score
    place = score * SCORE_BINS
    # SQLite's cast cuts the decimals off, PostgreSQL's rounds
    whole = place if connection.dialect.name == "sqlite" else func.floor(place)
    number = cast(whole, Integer).label("bin")
    query = (
        select(number, func.count().label("labels"))
        .where(of_question(project, control, epoch))
        .group_by(number)
    )
    counts = [0] * SCORE_BINS
    for place_, labels in connection.execute(query):
        counts[min(place_, SCORE_BINS - 1)] += labels
    return counts


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """A label with a human answer.

    Attributes:
        audit: whether its prediction was held back for blind labelling.
        score: its score by the latest counting, which did not know the human label.
        confirmed: the agreement of that counting's label with the human label, in [0, 1].
    """

    audit: bool
    score: float
    confirmed: float


def checked_labels(connection: Connection, project: str, control: str, epoch: str) -> list[CheckedRow]:
    """Return a question's labels with a human answer in an epoch, in the order of their prediction."""
    score: ColumnElement[float] = _columns.score
    confirmed: ColumnElement[float] = _columns.confirmed
    if recounts.is_recounted(connection, project):
        score, confirmed = recounts.latest_checked_score(), recounts.latest_confirmed()
    query = (
        select(_columns.audit, score.label("score"), confirmed.label("confirmed"))
        .where(of_question(project, control, epoch), _columns.confirmed.is_not(None))
        .order_by(_columns.created_at, _columns.score, _columns.confirmed)
    )
    return [CheckedRow(**row._mapping) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class BlockRow:
    """Rounds that follow one another.

    Attributes:
        rounds: their number.
        cost_usd: what they cost, in $.
        full_cost_usd: what they would have cost if every model had been asked, in $.
        checked: how many of their labels have a human answer.
        confirmed: the sum of these labels' agreement with it.
        last_at: unix seconds of the last of them.
    """

    rounds: int
    cost_usd: float
    full_cost_usd: float
    checked: int
    confirmed: float
    last_at: float


def sum_blocks(connection: Connection, project: str, control: str, epoch: str) -> list[BlockRow]:
    """Sum a question's rounds in an epoch by :data:`BLOCKS` blocks of the same size, in their order."""
    block = func.ntile(BLOCKS).over(order_by=_columns.created_at).label("block")
    fields = (_columns.cost_usd, _columns.full_cost_usd, _columns.confirmed, _columns.created_at)
    numbered = select(block, *fields).where(of_question(project, control, epoch)).subquery()
    query = (
        select(
            func.count().label("rounds"),
            func.sum(numbered.c.cost_usd).label("cost_usd"),
            func.sum(numbered.c.full_cost_usd).label("full_cost_usd"),
            func.count(numbered.c.confirmed).label("checked"),
            func.coalesce(func.sum(numbered.c.confirmed), 0.0).label("confirmed"),
            func.max(numbered.c.created_at).label("last_at"),
        )
        .group_by(numbered.c.block)
        .order_by(numbered.c.block)
    )
    return [BlockRow(**row._mapping) for row in connection.execute(query)]


def of_question(project: str, control: str, epoch: str) -> ColumnElement[bool]:
    """The condition that a round is about one question in one epoch."""
    return and_(_columns.project == project, _columns.control == control, _columns.epoch == epoch)


_votes, _calls = tables.votes, tables.calls

LOST = "lost"
"""The failure of a call whose process died before the call ended."""


@dataclass(frozen=True, slots=True)
class VotesRow:
    """One model's votes, separately for audits (rounds with blind labelling) and other rounds.

    Attributes:
        model: the model's name in the pool.
        audit: whether the rounds' predictions were held back for blind labelling.
        asked: rounds in which the model was asked.
        voted: rounds in which it gave a valid vote.
        compared: votes compared with the voted label: another model voted too, and the votes did not decide
            which models were asked.
        agreed: sum of their agreement with the voted label.
        checked: votes compared with a human label, in rounds where the model was asked regardless of other
            votes.
        confirmed: sum of their agreement with the human label.
    """

    model: str
    audit: bool
    asked: int
    voted: int
    compared: int
    agreed: float
    checked: int
    confirmed: float


def sum_votes(connection: Connection, project: str) -> list[VotesRow]:
    """Sum a project's votes by model and audit, ordered by these."""
    columns = _votes.c
    query = (
        select(
            columns.model,
            columns.audit,
            func.count().label("asked"),
            func.count(case((columns.voted, 1))).label("voted"),
            func.count(columns.agreed).label("compared"),
            func.coalesce(func.sum(columns.agreed), 0.0).label("agreed"),
            func.count(columns.confirmed).label("checked"),
            func.coalesce(func.sum(columns.confirmed), 0.0).label("confirmed"),
        )
        .where(columns.project == project)
        .group_by(columns.model, columns.audit)
        .order_by(columns.model, columns.audit)
    )
    return [VotesRow(**row._mapping) for row in connection.execute(query)]


def sum_example_trials(connection: Connection, project: str) -> dict[str, ExampleTrial]:
    """Return model → how right its votes were with examples and where examples were left out at random.

    Only votes on human-labelled rounds count, and no blind ones: the outcome decides what later prompts show.
    """
    columns = _votes.c
    with_examples = columns.examples > 0
    query = (
        select(
            columns.model,
            func.sum(case((with_examples, columns.confirmed), else_=0.0)).label("right_with"),
            func.sum(case((with_examples, 1), else_=0)).label("votes_with"),
            func.sum(case((with_examples, 0.0), else_=columns.confirmed)).label("right_without"),
            func.sum(case((with_examples, 0), else_=1)).label("votes_without"),
        )
        .where(columns.project == project, ~columns.audit)
        .where(columns.examples >= 0, columns.confirmed.is_not(None))
        .group_by(columns.model)
    )
    return {
        row.model: ExampleTrial(
            float(row.right_with), int(row.votes_with), float(row.right_without), int(row.votes_without)
        )
        for row in connection.execute(query)
    }


@dataclass(frozen=True, slots=True)
class CallsRow:
    """The calls to one model with the same outcome.

    Attributes:
        model: the model's name in the pool.
        under_way: whether the calls are still running.
        failure: the error's code, or :data:`LOST`; ``None`` for answers and running calls.
        calls: number of calls.
        cost_usd: their cost, in $; a lost call counts with its full reservation.
    """

    model: str
    under_way: bool
    failure: str | None
    calls: int
    cost_usd: float


def sum_calls(connection: Connection, project: str) -> list[CallsRow]:
    """Sum a project's calls by model and outcome, ordered by these."""
    columns = _calls.c
    query = (
        select(
            columns.model,
            columns.state,
            columns.error_code,
            func.count().label("calls"),
            func.coalesce(func.sum(columns.cost), 0).label("cost"),
        )
        .where(columns.project == project)
        .group_by(columns.model, columns.state, columns.error_code)
        .order_by(columns.model, columns.state, columns.error_code)
    )
    return [
        CallsRow(
            model=row.model,
            under_way=row.state == "reserved",
            failure=LOST if row.state == "lost" else row.error_code,
            calls=row.calls,
            cost_usd=from_picodollars(int(row.cost)),  # PostgreSQL sums big integers to a Decimal
        )
        for row in connection.execute(query)
    ]


def answer_seconds(connection: Connection, project: str, model: str, answered: int, quantile: float) -> float:
    """Return a quantile of the durations of a model's answered calls, in seconds.

    Args:
        connection: in the transaction that counted ``answered``.
        project: the project's key.
        model: the model's name in the pool.
        answered: number of its calls that returned an answer, at least one.
        quantile: in (0, 1]; the result is the smallest duration that this share does not exceed.
    """
    columns = _calls.c
    of_model = and_(columns.project == project, columns.model == model)
    is_answered = and_(columns.state == "settled", columns.error_code.is_(None))
    rank = math.ceil(quantile * answered)
    query = select(columns.seconds).where(of_model, is_answered).order_by(columns.seconds)
    return float(connection.execute(query.offset(rank - 1).limit(1)).scalar_one())


_packed_calls = tables.calls.c


@dataclass(frozen=True, slots=True)
class _PacksRow:
    """The answered prompts of one packed arm."""

    arm: str
    prompts: int
    tasks: int
    cost_usd: float


def sum_packs(connection: Connection, project: str) -> list[_PacksRow]:
    """Sum a project's prompts about several tasks by arm, ordered by it."""
    query = (
        select(
            _packed_calls.model,
            func.count().label("prompts"),
            func.sum(_packed_calls.tasks).label("tasks"),
            func.sum(_packed_calls.cost).label("cost"),
        )
        .where(_packed_calls.project == project, _packed_calls.tasks > 1)
        .where(_packed_calls.state == "settled", _packed_calls.error_code.is_(None))
        .group_by(_packed_calls.model)
        .order_by(_packed_calls.model)
    )
    return [
        _PacksRow(row.model, row.prompts, int(row.tasks), from_picodollars(int(row.cost)))
        for row in connection.execute(query)
    ]


_rounds = tables.rounds

BINS = 10
"""Number of equally wide bins into which [0, 1] is divided for scores."""


@dataclass(frozen=True, slots=True)
class RoundsRow:
    """The rounds of one question in one epoch, separately for audits and other rounds.

    Attributes:
        control: the name of the question's control tag.
        epoch: the question's epoch.
        audit: whether the predictions were held back for blind labelling.
        rounds: number of rounds.
        checked: number of rounds with a human label.
        confirmed: sum of their voted labels' agreement with the human label.
        cost_usd: cost of the rounds, in $.
        full_cost_usd: cost if every model had been asked, in $.
        last_at: unix seconds of the latest round.
    """

    control: str
    epoch: str
    audit: bool
    rounds: int
    checked: int
    confirmed: float
    cost_usd: float
    full_cost_usd: float
    last_at: float


def sum_rounds(connection: Connection, project: str) -> list[RoundsRow]:
    """Sum a project's rounds by question, epoch and audit, ordered by these."""
    columns = _rounds.c
    query = (
        select(
            columns.control,
            columns.epoch,
            columns.audit,
            func.count().label("rounds"),
            func.count(columns.confirmed).label("checked"),
            func.coalesce(func.sum(columns.confirmed), 0.0).label("confirmed"),
            func.sum(columns.cost_usd).label("cost_usd"),
            func.sum(columns.full_cost_usd).label("full_cost_usd"),
            func.max(columns.created_at).label("last_at"),
        )
        .where(columns.project == project)
        .group_by(columns.control, columns.epoch, columns.audit)
        .order_by(columns.control, columns.epoch, columns.audit)
    )
    return [RoundsRow(**row._mapping) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class BinRow:
    """The human-labelled rounds whose scores fall into one bin.

    Attributes:
        audit: whether the predictions were held back for blind labelling.
        bin: 0 to :data:`BINS` - 1.
        rounds: number of rounds.
        score: sum of their scores.
        confirmed: sum of their voted labels' agreement with the human label.
    """

    audit: bool
    bin: int
    rounds: int
    score: float
    confirmed: float


def latest_plan(connection: Connection, project: str, control: str, epoch: str) -> Mapping[str, Any] | None:
    """The plan of a question's newest round in an epoch; ``None`` without a round."""
    columns = _rounds.c
    query = (
        select(columns.plan)
        .where(columns.project == project, columns.control == control, columns.epoch == epoch)
        .order_by(columns.id.desc())
        .limit(1)
    )
    plan: Mapping[str, Any] | None = connection.execute(query).scalar()
    return plan


def sum_scores(connection: Connection, project: str) -> list[BinRow]:
    """Sum a project's human-labelled rounds by audit and bin of the score; empty bins are absent."""
    columns = _rounds.c
    bounds = [(columns.score < (number + 1) / BINS, number) for number in range(BINS - 1)]
    number = case(*bounds, else_=BINS - 1).label("bin")
    query = (
        select(
            columns.audit,
            number,
            func.count().label("rounds"),
            func.sum(columns.score).label("score"),
            func.sum(columns.confirmed).label("confirmed"),
        )
        .where(columns.project == project, columns.confirmed.is_not(None))
        .group_by(columns.audit, number)
        .order_by(columns.audit, number)
    )
    return [BinRow(**row._mapping) for row in connection.execute(query)]


def count_labels(  # noqa: PLR0917 - the question, and which of its labels
    connection: Connection,
    project: str,
    control: str,
    epoch: str,
    score: float = 0.0,
    through: int | None = None,
) -> int:
    """Count a question's labels in an epoch, each with its score by the latest counting.

    Once votes were counted again, only the tasks that nobody has annotated count: the others kept the labels
    of an earlier counting, and people have seen to them.

    Args:
        connection: in a read transaction.
        project: the project's key.
        control: the name of the control tag.
        epoch: the epoch.
        score: the least score of the labels.
        through: the last round to count; ``None`` for all rounds.
    """
    columns = _rounds.c
    of_question = (columns.project == project, columns.control == control, columns.epoch == epoch)
    query = select(func.count()).where(*of_question)
    if recounts.is_recounted(connection, project):
        query = query.where(recounts.latest_score() >= score, is_open(project, columns.task))
    else:
        query = query.where(columns.score >= score)
    return connection.scalars(query if through is None else query.where(columns.id <= through)).one()


_round_columns, _human_annotations, _recent_calls = (
    tables.rounds.c,
    tables.human_annotations.c,
    tables.calls.c,
)

_LATEST = 2000
"""Labels at most that :func:`latest_labels` and :func:`judged_labels` read."""

_RECENT_CALLS = 1000


def count_task_states(connection: Connection, project: str, epochs: Mapping[str, str] | None = None) -> int:
    """Count the tasks with a label.

    Args:
        connection: a read transaction.
        project: the project's key.
        epochs: control → epoch: only labels of these epochs count; ``None`` for all labels.
    """
    query = select(func.count(_round_columns.task.distinct())).where(_round_columns.project == project)
    if epochs is not None:
        if not epochs:
            return 0
        query = query.where(or_(*(of_question(project, control, epoch) for control, epoch in epochs.items())))
    return connection.scalars(query).one()


def latest_labels(connection: Connection, project: str, control: str, epoch: str) -> Counter[str]:
    """Count the labels of a question's latest rounds in an epoch, at most :data:`_LATEST` of them."""
    latest = (
        select(_round_columns.label)
        .where(of_question(project, control, epoch))
        .order_by(_round_columns.id.desc())
        .limit(_LATEST)
        .subquery()
    )
    query = select(latest.c.label, func.count().label("labels")).group_by(latest.c.label)
    return Counter({row.label: row.labels for row in connection.execute(query)})


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A voted label beside the human one.

    Attributes:
        task: the task's number.
        label: the voted label.
        human: the human label.
        score: the voted label's score.
        confirmed: the agreement of the two, in [0, 1].
    """

    task: int
    label: str
    human: str
    score: float
    confirmed: float


def judged_labels(connection: Connection, project: str, control: str, epoch: str) -> list[JudgedRow]:
    """Return a question's latest labels with a human answer in an epoch, at most :data:`_LATEST`."""
    fields = (
        _round_columns.task,
        _round_columns.label,
        _round_columns.human,
        _round_columns.score,
        _round_columns.confirmed,
    )
    query = (
        select(*fields)
        .where(
            of_question(project, control, epoch),
            _round_columns.confirmed.is_not(None),
            _round_columns.human.is_not(None),
        )
        .order_by(_round_columns.created_at.desc(), _round_columns.id.desc())
        .limit(_LATEST)
    )
    return [JudgedRow(**row._mapping) for row in connection.execute(query)]


def annotators(connection: Connection, project: str, tasks: Sequence[int]) -> dict[int, int]:
    """Return task → the number of its valid annotations, for those of the tasks that have one."""
    query = (
        select(_human_annotations.task, func.count().label("annotations"))
        .where(
            _human_annotations.project == project,
            among(connection.dialect, _human_annotations.task, tasks),
            _human_annotations.teaches,
            ~_human_annotations.withdrawn,
            ~_human_annotations.deleted,
        )
        .group_by(_human_annotations.task)
    )
    return {row.task: row.annotations for row in connection.execute(query)}


def recent_outcomes(connection: Connection) -> dict[tuple[str, str], list[str | None]]:
    """Return (project, model) → the outcomes of its finished calls among the latest 1000 of all projects.

    An outcome is an error's code, or ``None`` for an answer; the latest come first.
    """
    latest = (
        select(
            _recent_calls.id,
            _recent_calls.project,
            _recent_calls.model,
            _recent_calls.state,
            _recent_calls.error_code,
        )
        .order_by(_recent_calls.id.desc())
        .limit(_RECENT_CALLS)
        .subquery()
    )
    rows = connection.execute(
        select(latest.c.project, latest.c.model, latest.c.error_code)
        .where(latest.c.state == "settled")
        .order_by(latest.c.id.desc())
    )
    outcomes: dict[tuple[str, str], list[str | None]] = {}
    for project, model, code in rows:
        outcomes.setdefault((project, model), []).append(code)
    return outcomes


_table, _accounts = tables.rounds, tables.accounts


def newest(connection: Connection, project: str) -> int:
    """Return the number of a project's latest round, 0 if it has none."""
    query = select(func.max(_table.c.id)).where(_table.c.project == project)
    return connection.scalars(query).one() or 0


def newest_at(connection: Connection, project: str) -> float:
    """Return when a project's latest round was stored, in unix seconds; 0 if it has none."""
    query = select(func.max(_table.c.created_at)).where(_table.c.project == project)
    return connection.scalars(query).one() or 0.0


def count_tasks(connection: Connection, project: str, after: int, first: int, last: int | None) -> int:
    """Count the tasks with a round later than ``after`` whose numbers are in a range.

    Args:
        connection: a read transaction.
        project: the project's key.
        after: the number of a round; only later ones count.
        first: the lowest number of a task.
        last: the highest number of a task; ``None`` for no end.
    """
    query = select(func.count(_table.c.task.distinct())).where(
        _table.c.project == project, _table.c.id > after, _table.c.task >= first
    )
    if last is not None:
        query = query.where(_table.c.task <= last)
    return connection.scalars(query).one()


def paid_tasks(connection: Connection) -> tuple[int, float]:
    """Return how many tasks of all projects have a round, and what all calls have cost so far, in $."""
    tasks = select(_table.c.project, _table.c.task).distinct().subquery()
    count = connection.scalars(select(func.count()).select_from(tasks)).one()
    total = select(func.coalesce(func.sum(_accounts.c.spent), 0)).where(
        _accounts.c.scope == TOTAL, _accounts.c.project != EVERY_PROJECT
    )
    return count, from_picodollars(int(connection.scalars(total).one()))


_alerts = tables.alerts
_alert_columns = _alerts.c

_PATIENCE = 900.0
"""An alert is over when it was not seen for this many seconds, so that a flickering one is reported once."""


@dataclass(frozen=True, slots=True, order=True)
class AlertKey:
    """What an alert is about.

    Attributes:
        project: the project's key, empty if it concerns all of them.
        code: its stable code.
        subject: the model or the control that it is about, empty if none.
    """

    project: str
    code: str
    subject: str


_IS = (
    _alert_columns.project == bindparam("of"),
    _alert_columns.code == bindparam("named"),
    _alert_columns.subject == bindparam("about"),
)


def see_alerts(connection: Connection, seen: Collection[AlertKey]) -> list[AlertKey]:
    """Record which alerts there are now; those not seen for :data:`_PATIENCE` seconds are over.

    Args:
        connection: a write transaction.
        seen: the alerts of this moment.

    Returns:
        Those of them that have not been reported to people since they began.
    """
    at = now(connection)
    for key in sorted(seen):
        row = {"project": key.project, "code": key.code, "subject": key.subject}
        new = insert_new(connection.dialect, _alerts)
        connection.execute(new, row | {"began_at": at, "seen_at": at})
        again = update(_alerts).where(*_IS, _alert_columns.over_at.is_not(None))
        connection.execute(again.values(began_at=at, posted_at=None, over_at=None), _named(key))
        connection.execute(update(_alerts).where(*_IS).values(seen_at=at), _named(key))
    gone = (_alert_columns.over_at.is_(None), _alert_columns.seen_at < at - _PATIENCE)
    connection.execute(update(_alerts).where(*gone).values(over_at=at))
    untold = select(_alert_columns.project, _alert_columns.code, _alert_columns.subject).where(
        _alert_columns.over_at.is_(None), _alert_columns.posted_at.is_(None)
    )
    return sorted({AlertKey(*row) for row in connection.execute(untold)} & set(seen))


def alert_raised(connection: Connection, keys: Collection[AlertKey]) -> None:
    """Record that these alerts were reported to people."""
    at = now(connection)
    for key in keys:
        connection.execute(update(_alerts).where(*_IS).values(posted_at=at), _named(key))


def known_alerts(connection: Connection) -> dict[AlertKey, bool]:
    """Return every alert that was ever recorded → whether it still holds."""
    query = select(
        _alert_columns.project, _alert_columns.code, _alert_columns.subject, _alert_columns.over_at
    )
    return {
        AlertKey(project, code, subject): over_at is None
        for project, code, subject, over_at in connection.execute(query)
    }


def _named(key: AlertKey) -> dict[str, str]:
    return {"of": key.project, "named": key.code, "about": key.subject}
