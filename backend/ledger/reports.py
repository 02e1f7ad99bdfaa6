"""Sums over rounds, votes, calls and annotations, of a project or a question."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    and_,
    case,
    cast,
    exists,
    false,
    func,
    or_,
    select,
    true,
)

from backend.errors import WithdrawnError
from backend.ledger.blind_tasks import is_represented
from backend.ledger.database import tables
from backend.ledger.database.statements import among
from backend.ledger.human_annotations import is_open, is_overruled
from backend.ledger.money import EVERY_PROJECT, TOTAL, from_picodollars
from backend.ledger.recounts import (
    Recounts,
    latest_checked_score,
    latest_confirmed,
    latest_label,
    latest_score,
)
from backend.ledger.rounds import ProjectRounds, QuestionRounds
from camvo.scores.reviews import ExampleTrial

_annotations, _rounds, _votes = tables.human_annotations.c, tables.rounds.c, tables.votes.c
_calls, _accounts = tables.calls.c, tables.accounts.c

_every_model_usd = case((_rounds.carried_from.is_(None), _rounds.full_cost_usd), else_=0.0).label(
    "every_model_usd"
)
"""What a round would have cost if every model had been asked; nobody was to be asked in a carried one."""


@dataclass(frozen=True, slots=True)
class HumansRow:
    """Counts of a project's human annotations.

    Attributes:
        annotations: annotations that are not deleted.
        teaching: those that teach, or will once their task has a round; not tied, overruled or blind ones.
        tasks: tasks that somebody has labelled, and not only skipped, also where people are tied.
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


SCORE_BINS = 100
"""Number of equally wide bins into which :meth:`QuestionSums.scores` sorts."""

_BLOCKS = 20
"""The most blocks of :meth:`QuestionSums.blocks`."""

_LEAST_IN_BLOCK = 100
"""The fewest rounds of a block, unless there is one block only: smaller ones would show chance alone."""


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


@dataclass(frozen=True, slots=True)
class Block:
    """Rounds that follow one another; the names are keys of the status report's JSON.

    Attributes:
        rounds: their number.
        cost_usd: what they cost, in $, reused answers at the price of new ones.
        every_model_usd: what they would have cost if every model had been asked, in $.
        checked: how many of their labels have a human answer.
        right: how many of these were right.
        last_at: unix seconds of the last of them.
    """

    rounds: int
    cost_usd: float
    every_model_usd: float
    checked: int
    right: float
    last_at: float


LOST = "lost"
"""The failure of a call whose process died before it ended, or whose answer a batch has no more."""


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


@dataclass(frozen=True, slots=True)
class CallsRow:
    """The calls to one model with the same outcome.

    Attributes:
        model: the model's name in the pool.
        under_way: whether the calls are still running.
        failure: the error's code, or :data:`LOST`; ``None`` for answers and running calls.
        calls: number of calls.
        cost_usd: their cost, in $; a lost call counts with what such a call usually costs.
    """

    model: str
    under_way: bool
    failure: str | None
    calls: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class _PacksRow:
    """The answered prompts of one packed arm."""

    arm: str
    prompts: int
    tasks: int
    cost_usd: float


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
        once: the part of them that does not count under other labels.
        checked: number of rounds with a human label.
        confirmed: sum of their voted labels' agreement with the human label.
        cost_usd: cost of the rounds, in $.
        full_cost_usd: cost if every model had been asked, in $; nobody was to be asked in rounds that were
            carried over from another label scheme.
        bounded_usd: the part of it of which only an upper bound is known.
        reused: answers that another task had paid for.
        reused_usd: the part of ``full_cost_usd`` that is theirs.
        last_at: unix seconds of the latest round.
    """

    control: str
    epoch: str
    audit: bool
    rounds: int
    once: int
    checked: int
    confirmed: float
    cost_usd: float
    full_cost_usd: float
    bounded_usd: float
    reused: float
    reused_usd: float
    last_at: float


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


_LATEST = 2000
"""The most labels that are read one by one."""


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A voted label beside the human one.

    Attributes:
        task: the task's number.
        label: the voted label, by the latest counting before somebody annotated the task.
        human: the human label.
        score: the voted label's score.
        confirmed: the agreement of the two, in [0, 1].
    """

    task: int
    label: str
    human: str
    score: float
    confirmed: float


@dataclass(frozen=True, slots=True)
class _LabelRow:
    """How many rounds have a label, and how many of these people have labelled."""

    label: str
    rounds: int
    people: int


class QuestionSums(QuestionRounds):
    """The sums of a question in one epoch, in a read transaction."""

    def scores(self) -> list[int]:
        """Count the labels by the bin of their latest score: :data:`SCORE_BINS` numbers."""
        score = latest_checked_score if self._is_recounted else _rounds.score
        place = score * SCORE_BINS
        # SQLite's cast cuts the decimals off, PostgreSQL's rounds
        whole = place if self.connection.dialect.name == "sqlite" else func.floor(place)
        number = cast(whole, Integer).label("bin")
        query = select(number, func.count().label("labels")).where(self.condition).group_by(number)
        counts = [0] * SCORE_BINS
        for place_, labels in self.connection.execute(query):
            counts[min(place_, SCORE_BINS - 1)] += labels
        return counts

    def labels(self) -> list[_LabelRow]:
        """Count the rounds by their label, and those of them that people have labelled."""
        query = (
            select(_rounds.label, func.count().label("rounds"), func.count(_rounds.human).label("people"))
            .where(self.condition)
            .group_by(_rounds.label)
            .order_by(_rounds.label)
        )
        return [_LabelRow(**row._mapping) for row in self.connection.execute(query)]

    def checked(self) -> list[CheckedRow]:
        """Return the labels with a human answer, in the order of their prediction."""
        score: ColumnElement[float] = _rounds.score
        confirmed: ColumnElement[float] = _rounds.confirmed
        if self._is_recounted:
            score, confirmed = latest_checked_score, latest_confirmed
        query = (
            select(_rounds.audit, score.label("score"), confirmed.label("confirmed"))
            .where(self.condition, _rounds.confirmed.is_not(None))
            .order_by(_rounds.created_at, _rounds.score, _rounds.confirmed)
        )
        return [CheckedRow(**row._mapping) for row in self.connection.execute(query)]

    def blocks(self) -> list[Block]:
        """Sum the rounds by blocks of the same size, in the order in which they were planned.

        Of tasks that are asked about together the cheap ones end first, so another order would show costs
        that rise and fall with each batch of tasks.
        """
        rounds = self.connection.scalars(select(func.count()).where(self.condition)).one()
        most = min(_BLOCKS, max(rounds // _LEAST_IN_BLOCK, 1))
        block = func.ntile(most).over(order_by=(_rounds.planned_at, _rounds.id)).label("block")
        cost = (_rounds.cost_usd + _rounds.reused_usd).label("cost_usd")
        fields = (cost, _every_model_usd, _rounds.confirmed, _rounds.created_at)
        numbered = select(block, *fields).where(self.condition).subquery()
        query = (
            select(
                func.count().label("rounds"),
                func.sum(numbered.c.cost_usd).label("cost_usd"),
                func.sum(numbered.c.every_model_usd).label("every_model_usd"),
                func.count(numbered.c.confirmed).label("checked"),
                func.coalesce(func.sum(numbered.c.confirmed), 0.0).label("right"),
                func.max(numbered.c.created_at).label("last_at"),
            )
            .group_by(numbered.c.block)
            .order_by(numbered.c.block)
        )
        return [Block(**row._mapping) for row in self.connection.execute(query)]

    def latest_plan(self) -> Mapping[str, Any] | None:
        """The plan of the newest round; ``None`` without a round."""
        query = select(_rounds.plan).where(self.condition).order_by(_rounds.id.desc()).limit(1)
        plan: Mapping[str, Any] | None = self.connection.execute(query).scalar()
        return plan

    def count(
        self,
        score: float = 0.0,
        through: int | None = None,
        *,
        represented: bool = False,
        shown: bool = False,
    ) -> int:
        """Count the labels, each with its score by the latest counting.

        Once votes were counted again, only the tasks that nobody has annotated count: the others kept the
        labels of an earlier counting, and people have seen to them.

        Args:
            score: the least score of the labels.
            through: the last round to count; ``None`` for all rounds.
            represented: whether to count only those of tasks that blind ones represent.
            shown: whether to count only those that annotators see, of tasks that nobody has annotated.
        """
        query = select(func.count()).where(self.condition)
        if shown:
            query = query.where(~_rounds.audit, is_open(self.project, _rounds.task))
        if represented:
            query = query.where(is_represented(self.project, _rounds.task))
        if self._is_recounted:
            query = query.where(latest_score >= score, is_open(self.project, _rounds.task))
        else:
            query = query.where(_rounds.score >= score)
        return self.connection.scalars(query if through is None else query.where(_rounds.id <= through)).one()

    def first_labels(self, through: int, *, represented: bool = True) -> Counter[str]:
        """Count the labels of the tasks' first rounds, up to a round. Reads every round of the question.

        ``represented`` says whether to count only those of tasks that blind ones represent.
        """
        of_tasks = [is_represented(self.project, _rounds.task)] if represented else []
        chosen = self.condition, _rounds.id <= through, *of_tasks
        first = select(func.min(_rounds.id)).where(*chosen).group_by(_rounds.task)
        query = (
            select(_rounds.label, func.count().label("tasks"))
            .where(_rounds.id.in_(first.scalar_subquery()))
            .group_by(_rounds.label)
        )
        return Counter({row.label: row.tasks for row in self.connection.execute(query)})

    def likely(self, through: int) -> dict[int, Mapping[str, float]]:
        """Return round → the scores of labels with a recall, for the first rounds that blind tasks represent.

        Reads every round of the question. A round from before a recall was set has no score.
        """
        chosen = self.condition, _rounds.id <= through, is_represented(self.project, _rounds.task)
        first = select(func.min(_rounds.id)).where(*chosen).group_by(_rounds.task)
        query = select(_rounds.id, _rounds.plan).where(_rounds.id.in_(first.scalar_subquery()))
        return {row.id: row.plan.get("likely", {}) for row in self.connection.execute(query)}

    def blind_answers(self, round_ids: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        """Return round → the models' and the people's answers of blind rounds, without deleted tasks.

        That of the people is ``None`` if the task has none that counts.
        """
        query = select(_rounds.id, _rounds.label, _rounds.human).where(
            among(_rounds.id, round_ids), _rounds.audit
        )
        return {row.id: (row.label, row.human) for row in self.connection.execute(query.order_by(_rounds.id))}

    @cached_property
    def _is_recounted(self) -> bool:
        return Recounts(self.connection, self.project).are_there()

    def latest_labels(self) -> Counter[str]:
        """Count the labels of the latest rounds by the latest counting, at most :data:`_LATEST` of them."""
        label = latest_label if self._is_recounted else _rounds.label
        newest = select(label.label("label")).where(self.condition).order_by(_rounds.id.desc())
        latest = newest.limit(_LATEST).subquery()
        query = select(latest.c.label, func.count().label("labels")).group_by(latest.c.label)
        return Counter({row.label: row.labels for row in self.connection.execute(query)})

    def judged(self, reward: Callable[[str, str], float]) -> list[JudgedRow]:
        """Return the latest labels with a human answer, at most :data:`_LATEST`.

        ``reward`` is the agreement of a label that a recount has changed with the human one.
        """
        label: ColumnElement[str] = _rounds.label
        score: ColumnElement[float] = _rounds.score
        if self._is_recounted:
            label, score = latest_label, latest_score
        query = (
            select(
                _rounds.task,
                label.label("label"),
                _rounds.human,
                score.label("score"),
                _rounds.confirmed,
                _rounds.label.label("first"),
            )
            .where(self.condition, _rounds.confirmed.is_not(None), _rounds.human.is_not(None))
            .order_by(_rounds.created_at.desc(), _rounds.id.desc())
            .limit(_LATEST)
        )
        return [
            JudgedRow(
                row.task,
                row.label,
                row.human,
                row.score,
                row.confirmed if row.label == row.first else reward(row.label, row.human),
            )
            for row in self.connection.execute(query)
        ]


@dataclass(frozen=True)
class ProjectSums:
    """A project's sums, in a read transaction."""

    connection: Connection
    project: str

    def humans(self) -> HumansRow:
        """Count a project's human annotations. Beside a ground truth of its task no other one teaches."""
        of_task = and_(_rounds.project == _annotations.project, _rounds.task == _annotations.task)
        decided = exists().where(of_task, _rounds.taught_by == "human")
        labelled = and_(_annotations.teaches, ~_annotations.withdrawn)
        teaches = and_(labelled, ~is_overruled(), or_(decided, ~exists().where(of_task)))
        query = select(
            func.count().label("annotations"),
            func.count(case((teaches, 1))).label("teaching"),
            func.count(case((labelled, _annotations.task)).distinct()).label("tasks"),
            func.count(case((and_(_annotations.ground_truth, ~_annotations.withdrawn), 1))).label(
                "ground_truths"
            ),
            func.count(case((_annotations.withdrawn, 1))).label("withdrawn"),
            func.max(_annotations.received_at).label("last_at"),
        ).where(_annotations.project == self.project, ~_annotations.deleted)
        return HumansRow(**self.connection.execute(query).one()._mapping)

    def votes(self) -> list[VotesRow]:
        """Sum a project's votes by model and audit, ordered by these."""
        query = (
            select(
                _votes.model,
                _votes.audit,
                func.count(_votes.voted).label("asked"),
                func.count(case((_votes.voted, 1))).label("voted"),
                func.count(_votes.agreed).label("compared"),
                func.coalesce(func.sum(_votes.agreed), 0.0).label("agreed"),
                func.count(_votes.confirmed).label("checked"),
                func.coalesce(func.sum(_votes.confirmed), 0.0).label("confirmed"),
            )
            .where(_votes.project == self.project, self._once(_votes.round_id))
            .group_by(_votes.model, _votes.audit)
            .order_by(_votes.model, _votes.audit)
        )
        return [VotesRow(**row._mapping) for row in self.connection.execute(query)]

    def _once(self, number: ColumnElement[int]) -> ColumnElement[bool]:
        """The condition that leaves out rounds which count under other labels."""
        return true() if self._passed is None else number.not_in(self._passed)

    @cached_property
    def _passed(self) -> Select[tuple[int]] | None:
        return ProjectRounds(self.connection, self.project).counted_elsewhere()

    def example_trials(self) -> dict[str, ExampleTrial]:
        """Return model → how right its votes were with examples and where examples were left out at random.

        Only votes on human-labelled rounds count, and no blind ones: the outcome decides what later prompts
        show.
        """
        with_examples = _votes.examples > 0
        query = (
            select(
                _votes.model,
                func.sum(case((with_examples, _votes.confirmed), else_=0.0)).label("right_with"),
                func.sum(case((with_examples, 1), else_=0)).label("votes_with"),
                func.sum(case((with_examples, 0.0), else_=_votes.confirmed)).label("right_without"),
                func.sum(case((with_examples, 0), else_=1)).label("votes_without"),
            )
            .where(_votes.project == self.project, ~_votes.audit, self._once(_votes.round_id))
            .where(_votes.examples >= 0, _votes.confirmed.is_not(None))
            .group_by(_votes.model)
        )
        return {
            row.model: ExampleTrial(
                float(row.right_with), int(row.votes_with), float(row.right_without), int(row.votes_without)
            )
            for row in self.connection.execute(query)
        }

    def calls(self) -> list[CallsRow]:
        """Sum a project's calls by model and outcome, ordered by these. What was never sent is no call."""
        query = (
            select(
                _calls.model,
                _calls.state,
                _calls.error_code,
                func.count().label("calls"),
                func.coalesce(func.sum(_calls.cost), 0).label("cost"),
            )
            .where(_calls.project == self.project, _calls.error_code.is_distinct_from(WithdrawnError.code))
            .group_by(_calls.model, _calls.state, _calls.error_code)
            .order_by(_calls.model, _calls.state, _calls.error_code)
        )
        return [
            CallsRow(
                model=row.model,
                under_way=row.state == "reserved",
                failure=LOST if row.state == "lost" else row.error_code,
                calls=row.calls,
                cost_usd=from_picodollars(int(row.cost)),  # PostgreSQL sums big integers to a Decimal
            )
            for row in self.connection.execute(query)
        ]

    def answer_seconds(self, model: str, quantile: float) -> float | None:
        """Return a quantile of the durations of a model's answered calls, in seconds.

        Lines of batches have no duration. ``None`` if no other call was answered.

        Args:
            model: the model's name in the pool.
            quantile: in (0, 1]; the result is the smallest duration that this share does not exceed.
        """
        answered = (
            _calls.project == self.project,
            _calls.model == model,
            _calls.state == "settled",
            _calls.error_code.is_(None),
            _calls.seconds.is_not(None),
        )
        known = self.connection.scalars(select(func.count()).where(*answered)).one()
        if not known:
            return None
        query = select(_calls.seconds).where(*answered).order_by(_calls.seconds)
        rank = math.ceil(quantile * known)
        return float(self.connection.execute(query.offset(rank - 1).limit(1)).scalar_one())

    def packs(self) -> list[_PacksRow]:
        """Sum a project's prompts about several tasks by arm, ordered by it."""
        query = (
            select(
                _calls.model,
                func.count().label("prompts"),
                func.sum(_calls.tasks).label("tasks"),
                func.sum(_calls.cost).label("cost"),
            )
            .where(_calls.project == self.project, _calls.tasks > 1)
            .where(_calls.state == "settled", _calls.error_code.is_(None))
            .group_by(_calls.model)
            .order_by(_calls.model)
        )
        return [
            _PacksRow(row.model, row.prompts, int(row.tasks), from_picodollars(int(row.cost)))
            for row in self.connection.execute(query)
        ]

    def rounds(self) -> list[RoundsRow]:
        """Sum a project's rounds by question, epoch and audit, ordered by these."""
        query = (
            select(
                _rounds.control,
                _rounds.epoch,
                _rounds.audit,
                func.count().label("rounds"),
                func.sum(case((self._once(_rounds.id), 1), else_=0)).label("once"),
                func.count(_rounds.confirmed).label("checked"),
                func.coalesce(func.sum(_rounds.confirmed), 0.0).label("confirmed"),
                func.sum(_rounds.cost_usd).label("cost_usd"),
                func.sum(_every_model_usd).label("full_cost_usd"),
                func.sum(_rounds.bounded_usd).label("bounded_usd"),
                func.sum(_rounds.reused).label("reused"),
                func.sum(_rounds.reused_usd).label("reused_usd"),
                func.max(_rounds.created_at).label("last_at"),
            )
            .where(_rounds.project == self.project)
            .group_by(_rounds.control, _rounds.epoch, _rounds.audit)
            .order_by(_rounds.control, _rounds.epoch, _rounds.audit)
        )
        return [RoundsRow(**row._mapping) for row in self.connection.execute(query)]

    def scores(self) -> list[BinRow]:
        """Sum a project's human-labelled rounds by audit and bin of the score; empty bins are absent."""
        bounds = [(_rounds.score < (number + 1) / BINS, number) for number in range(BINS - 1)]
        number = case(*bounds, else_=BINS - 1).label("bin")
        query = (
            select(
                _rounds.audit,
                number,
                func.count().label("rounds"),
                func.sum(_rounds.score).label("score"),
                func.sum(_rounds.confirmed).label("confirmed"),
            )
            .where(_rounds.project == self.project, _rounds.confirmed.is_not(None), self._once(_rounds.id))
            .group_by(_rounds.audit, number)
            .order_by(_rounds.audit, number)
        )
        return [BinRow(**row._mapping) for row in self.connection.execute(query)]

    def labelled_tasks(self, epochs: Mapping[str, str]) -> int:
        """Count the tasks with a label of one of these epochs (control → epoch)."""
        of_epochs = (
            QuestionRounds(self.connection, self.project, *epoch).condition for epoch in epochs.items()
        )
        query = select(func.count(_rounds.task.distinct())).where(or_(false(), *of_epochs))
        return self.connection.scalars(query).one()

    def count_blind_tasks(self) -> int:
        """Count the tasks whose prediction was held back for an audit and that wait for a human label."""
        query = select(func.count(_rounds.task.distinct())).where(
            _rounds.project == self.project, _rounds.audit, is_open(self.project, _rounds.task)
        )
        return self.connection.scalars(query).one()

    def annotators(self, tasks: Sequence[int]) -> dict[int, int]:
        """Return task → the number of its valid annotations, for those of the tasks that have one."""
        query = (
            select(_annotations.task, func.count().label("annotations"))
            .where(
                _annotations.project == self.project,
                among(_annotations.task, tasks),
                _annotations.teaches,
                ~_annotations.withdrawn,
                ~_annotations.deleted,
            )
            .group_by(_annotations.task)
        )
        return {row.task: row.annotations for row in self.connection.execute(query)}

    def newest_round(self) -> int:
        """Return the number of a project's latest round, 0 if it has none."""
        query = select(func.max(_rounds.id)).where(_rounds.project == self.project)
        return self.connection.scalars(query).one() or 0

    def newest_round_at(self) -> float:
        """Return when a project's latest round was stored, in unix seconds; 0 if it has none."""
        query = select(func.max(_rounds.created_at)).where(_rounds.project == self.project)
        return self.connection.scalars(query).one() or 0.0

    def tasks_after(self, after: int, first: int, last: int | None) -> int:
        """Count the tasks with a round later than ``after`` whose numbers are in a range."""
        query = select(func.count(_rounds.task.distinct())).where(
            _rounds.project == self.project, _rounds.id > after, _rounds.task >= first
        )
        if last is not None:
            query = query.where(_rounds.task <= last)
        return self.connection.scalars(query).one()


def paid_tasks(connection: Connection) -> tuple[int, float]:
    """Return how many tasks of all projects have a round, and what all calls have cost so far, in $."""
    tasks = select(_rounds.project, _rounds.task).distinct().subquery()
    count = connection.scalars(select(func.count()).select_from(tasks)).one()
    total = select(func.coalesce(func.sum(_accounts.spent), 0)).where(
        _accounts.scope == TOTAL, _accounts.project != EVERY_PROJECT
    )
    return count, from_picodollars(int(connection.scalars(total).one()))
