"""The result of a later counting of a round's stored votes. The round itself is unchanged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, insert, select, true, update

from backend.ledger.database import tables
from backend.ledger.database.packing import unpack_context
from backend.ledger.database.statements import among, insert_new, insert_or_replace
from backend.ledger.human_annotations import is_open
from backend.ledger.rounds import QuestionRounds, Round, RoundKey
from camvo.scores.reviews import NOTHING_SEEN, TaughtBefore
from camvo.twins import not_voted
from camvo.typing import Array

_table, _rounds, _contexts = tables.recounts, tables.rounds.c, tables.contexts.c
_checks, _countings, _looks = tables.recount_checks, tables.countings, tables.recount_looks
_further_votes, _annotations = tables.further_votes, tables.human_annotations.c

Purpose = Literal["doubt", "human", "missing", "beside"]
"""Why a model was asked after the round: the label was in doubt, people have labelled the task, the model
could not vote in the round, or another run asked it beside the run that made the round."""


@dataclass(frozen=True, slots=True)
class FurtherVote:
    """One model's vote after the round.

    Attributes:
        round_id: the round.
        model: the model.
        task: the round's task.
        vote: what it voted; ``None`` if it gave no vote.
        confidence: how sure it said it was, in [0, 1]; ``None`` if it said nothing.
        cost_usd: what was paid for it, in $; shared equally among the questions of the prompt.
        purpose: why it was asked.
        taught: whether the round's human label has taught with this vote.
        created_at: unix seconds.
    """

    round_id: int
    model: str
    task: int
    vote: str | None
    confidence: float | None
    cost_usd: float
    purpose: Purpose
    created_at: float
    taught: bool = False


_FURTHER_VOTES_OF = (
    select(*_further_votes.c[*(field.name for field in fields(FurtherVote))])
    .where(among(_further_votes.c.round_id, "numbers"))
    .order_by(_further_votes.c.round_id, _further_votes.c.model)
)


def further_votes_of(connection: Connection, round_ids: Sequence[int]) -> dict[int, list[FurtherVote]]:
    """Return round → its further votes, by model; rounds without any are absent."""
    if not round_ids:
        return {}
    found: dict[int, list[FurtherVote]] = {}
    for row in connection.execute(_FURTHER_VOTES_OF, {"numbers": round_ids}):
        found.setdefault(row.round_id, []).append(FurtherVote(**row._mapping))
    return found


def set_further_taught(connection: Connection, round_id: int, models: Collection[str]) -> None:
    """Record which of a round's further votes its human label has taught with."""
    taught = case((_further_votes.c.model.in_(list(models)), True), else_=False)
    connection.execute(
        update(_further_votes).where(_further_votes.c.round_id == round_id).values(taught=taught)
    )


def all_votes(votes: Mapping[str, str | None], further: Sequence[FurtherVote]) -> dict[str, str | None]:
    """The votes of a round with the further ones: arm → vote."""
    return {**votes, **{vote.model: vote.vote for vote in further}}


def all_confidences(confidences: Mapping[str, float], further: Sequence[FurtherVote]) -> dict[str, float]:
    """The confidences of a round's votes with those of the further ones: arm → confidence."""
    later = {vote.model: vote.confidence for vote in further if vote.confidence is not None}
    return {**confidences, **later}


@dataclass(frozen=True, slots=True)
class FurtherSum:
    """The cost of a project's further votes for one purpose.

    Attributes:
        tasks: how many tasks have some.
        votes: how many models were asked, over all tasks and questions.
        usd: what that cost, in $.
    """

    tasks: int
    votes: int
    usd: float


NO_FURTHER_VOTES: Final = FurtherSum(0, 0, 0.0)


FELT = 0.005
"""The smallest change of a score that is stored; no order or threshold that people use depends on less."""


@dataclass(frozen=True, slots=True)
class Recount:
    """A round's new label and score.

    Attributes:
        round_id: the round.
        task: its task.
        label: the label by the kept votes.
        score: the probability that it is right, in [0, 1].
        label_changed: whether the label is another than before this counting.
    """

    round_id: int
    task: int
    label: str
    score: float
    label_changed: bool


_RECOUNTS_OF = (
    select(*_table.c[*(field.name for field in fields(Recount))])
    .where(among(_table.c.round_id, "numbers"))
    .order_by(_table.c.number)
)


def latest(connection: Connection, round_ids: Sequence[int]) -> dict[int, Recount]:
    """Return round → its latest recount; rounds that were counted once are absent."""
    if not round_ids:
        return {}
    rows = connection.execute(_RECOUNTS_OF, {"numbers": round_ids})
    return {row.round_id: Recount(**row._mapping) for row in rows}


def with_latest(connection: Connection, found: Mapping[RoundKey, Round]) -> dict[RoundKey, Round]:
    """Return the rounds with their further votes, and with the label and score of their latest recount."""
    ids = [round_.id for round_ in found.values()]
    recounted, further = latest(connection, ids), further_votes_of(connection, ids)
    return {
        key: replace(
            round_,
            votes=all_votes(round_.votes, further.get(round_.id, ())),
            **_decided(recounted.get(round_.id)),
        )
        for key, round_ in found.items()
    }


def _decided(recount: Recount | None) -> dict[str, Any]:
    return {} if recount is None else {"label": recount.label, "score": recount.score}


def differs(before: tuple[str, float], after: tuple[str, float]) -> bool:
    """Whether a label with its score differs from another; scores do from :data:`FELT` on."""
    return before[0] != after[0] or abs(before[1] - after[1]) >= FELT


_MAX_LABELLED_ROUNDS = 2000
"""At most this many human-labelled rounds are compared with the open ones, the latest ones.

More would hardly change which open tasks differ from the labelled ones.
"""


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round without a human label.

    Attributes:
        id: the round's id in the ledger.
        task: the task's number.
        votes: arm → label, ``None`` where the model gave no vote; those that the label is counted from.
        label: the voted label, by the latest counting.
        score: the probability that it is right, in [0, 1].
    """

    id: int
    task: int
    votes: Mapping[str, str | None]
    label: str
    score: float


@dataclass(frozen=True, slots=True)
class RecountCheck:
    """A round that people have answered.

    Attributes:
        round_id: the round.
        task: its task.
        human: the answer.
        label: the label by its kept votes, counted without the answer.
        score: the probability that it is right, in [0, 1].
        confirmed: the label's agreement with the answer, in [0, 1].
    """

    round_id: int
    task: int
    human: str
    label: str
    score: float
    confirmed: float


_newest = select(_table).where(_table.c.round_id == _rounds.id).order_by(_table.c.number.desc()).limit(1)

latest_label: ColumnElement[str] = func.coalesce(
    _newest.with_only_columns(_table.c.label).scalar_subquery(), _rounds.label
)
"""In a query of rounds: a round's label by its latest recount, or its own."""

latest_score: ColumnElement[float] = func.coalesce(
    _newest.with_only_columns(_table.c.score).scalar_subquery(), _rounds.score
)
"""In a query of rounds: a round's score by its latest recount, or its own."""

_checked = select(_checks).where(_checks.c.round_id == _rounds.id)

latest_checked_score: ColumnElement[float] = func.coalesce(
    _checked.with_only_columns(_checks.c.score).scalar_subquery(), latest_score
)
"""In a query of rounds: the score that the latest counting gives a round, counted without its answer."""

latest_confirmed: ColumnElement[float] = func.coalesce(
    _checked.with_only_columns(_checks.c.confirmed).scalar_subquery(), _rounds.confirmed
)
"""In a query of rounds: how right the latest counting's label is."""


@dataclass(frozen=True, slots=True, eq=False)
class CountableRound:
    """A round whose votes can be counted again, with its label and score by the latest counting.

    Attributes:
        id: the round's id.
        task: the task's number.
        votes: arm → vote, further votes included; ``None`` where the model gave none.
        confidences: arm → how sure it said it was, in [0, 1], for the arms that said so.
        plan: the plan as JSON.
        context: the embedding, shape (d,).
        label: the label now.
        score: its score now.
        audit: whether the task is blind.
        full_cost_usd: what asking every model about the task costs, in $.
    """

    id: int
    task: int
    votes: Mapping[str, str | None]
    confidences: Mapping[str, float]
    plan: Mapping[str, Any]
    context: Array
    label: str
    score: float
    audit: bool
    full_cost_usd: float


class CountedRounds(QuestionRounds):
    """The rounds on one question in one epoch, as the latest counting left them."""

    def open(self) -> list[OpenRound]:
        """Return the latest round of each task that nobody has annotated, without audits (blind labelling).

        Pruned rounds are left out: people can teach them nothing. A skipped task counts as annotated; a task
        whose annotations are all withdrawn does not.
        """
        fields = (_rounds.id, _rounds.task, _rounds.votes, _rounds.label, _rounds.score)
        query = select(*fields).where(
            self.condition, ~_rounds.audit, ~_rounds.pruned, is_open(self.project, _rounds.task)
        )
        rows = self.connection.execute(query.order_by(_rounds.id))
        newest = {row.task: OpenRound(**row._mapping) for row in rows}
        ids = [round_.id for round_ in newest.values()]
        recounted, further = latest(self.connection, ids), further_votes_of(self.connection, ids)
        for task, round_ in newest.items():
            if (recount := recounted.get(round_.id)) is not None:
                votes = all_votes(round_.votes, further.get(round_.id, ()))
                newest[task] = replace(round_, votes=votes, label=recount.label, score=recount.score)
        return [*newest.values()]

    def labelled_ids(self) -> list[int]:
        """Return the ids of the latest rounds that people teach, at most :data:`_MAX_LABELLED_ROUNDS`."""
        query = select(_rounds.id).where(
            self.condition, _rounds.human.is_not(None), ~_rounds.audit, ~_rounds.pruned
        )
        return list(self.connection.scalars(query.order_by(_rounds.id.desc()).limit(_MAX_LABELLED_ROUNDS)))

    def countable(
        self, *, after: int, limit: int, tasks: Sequence[int] | None = None
    ) -> list[CountableRound]:
        """Return rounds whose task nobody has annotated, and all blind ones, in the order of ids.

        A task that has several rounds, because its text has changed, is there with its latest. Pruned rounds
        are left out, and so are those of other tasks than ``tasks``, if these are given.
        """
        chosen = true() if tasks is None else among(_rounds.task, tasks)
        later = tables.rounds.alias()
        is_latest = ~(
            select(later.c.id)
            .where(
                later.c.project == self.project,
                later.c.task == _rounds.task,
                later.c.control == self.control,
                later.c.epoch == self.epoch,
                later.c.id > _rounds.id,
            )
            .exists()
        )
        names = ("id", "task", "votes", "plan", "label", "score", "audit", "full_cost_usd")
        query = (
            select(*(_rounds[name] for name in names), _contexts.context)
            .join(tables.contexts, _contexts.round_id == _rounds.id)
            .where(self.condition)
            .where(
                ~_rounds.pruned,
                _rounds.id > after,
                is_latest,
                _rounds.audit | is_open(self.project, _rounds.task),
                chosen,
            )
            .order_by(_rounds.id)
            .limit(limit)
        )
        rows = [dict(row._mapping) for row in self.connection.execute(query)]
        ids = [row["id"] for row in rows]
        recounted, further = latest(self.connection, ids), further_votes_of(self.connection, ids)
        for row in rows:
            added = further.get(row["id"], [])
            row["votes"] = all_votes(row["votes"], added)
            row["confidences"] = all_confidences(row["plan"].get("confidences", {}), added)
            row["context"] = unpack_context(row["context"])
            if (recount := recounted.get(row["id"])) is not None:
                row |= {"label": recount.label, "score": recount.score}
        return [CountableRound(**row) for row in rows]


CountingReason = Literal["command", "training", "automatic"]
"""Why a counting was made: ``camvo predict``, *Start training*, or because it was worth it."""


@dataclass(frozen=True, slots=True)
class Counting:
    """One counting of a project.

    Attributes:
        number: 1, 2, 3 … within the project.
        reason: why it was made.
        sequence: the project's last event that it knew.
        counted: how many rounds were counted.
        labels: how many labels changed.
        scores: how many labels stayed and got another score.
        score_before: the mean score of what was counted, before.
        score_after: its mean score by this counting.
        created_at: when it began to read votes, unix seconds.
    """

    number: int
    reason: CountingReason
    sequence: int
    counted: int
    labels: int
    scores: int
    score_before: float
    score_after: float
    created_at: float


@dataclass(frozen=True, slots=True)
class Look:
    """What a counting would have changed when the server last looked.

    Attributes:
        looked_at: unix seconds by the database's clock.
        seconds: how long it took.
        sequence: the project's last event that it knew.
        counted: how many rounds were counted.
        labels: how many labels would have changed.
        score_change: by how much the scores would have changed, on average over all that were counted.
        by_hand: whether the change is worth a counting and waits for a command, since the server has no key
            for Label Studio, or since the counting would end what blind labels certify.
    """

    looked_at: float
    seconds: float
    sequence: int
    counted: int
    labels: int
    score_change: float
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class FurtherVotes:
    """A project's votes that were asked for after their rounds."""

    connection: Connection
    project: str

    def store(self, votes: Sequence[FurtherVote]) -> None:
        """Store votes; stored ones are unchanged."""
        if votes:
            self.connection.execute(
                insert_new(_further_votes), [{"project": self.project, **asdict(vote)} for vote in votes]
            )

    def sums(self) -> dict[Purpose, FurtherSum]:
        """Return purpose → the project's further votes; purposes without any are absent."""
        query = (
            select(
                _further_votes.c.purpose,
                func.count(_further_votes.c.task.distinct()).label("tasks"),
                func.count().label("votes"),
                func.sum(_further_votes.c.cost_usd).label("usd"),
            )
            .where(_further_votes.c.project == self.project)
            .group_by(_further_votes.c.purpose)
        )
        return {
            row.purpose: FurtherSum(row.tasks, row.votes, row.usd) for row in self.connection.execute(query)
        }

    def usd(self) -> float:
        """What all of them cost, in $."""
        return sum(purpose.usd for purpose in self.sums().values())

    def uncounted(self) -> list[int]:
        """Return the tasks that have got a missing vote since the latest counting, by number."""
        newest = select(func.max(_countings.c.created_at)).where(_countings.c.project == self.project)
        since = self.connection.scalars(newest).one() or 0.0
        query = select(_further_votes.c.task).where(
            _further_votes.c.project == self.project,
            _further_votes.c.purpose == "missing",
            _further_votes.c.created_at > since,
        )
        return sorted(set(self.connection.scalars(query)))

    def incomplete(self, *, after: int, limit: int) -> list[int]:
        """Return labelled tasks with a model that has neither voted nor failed, the lowest number first.

        Blind tasks are left out: their labels teach nothing.
        """
        query = (
            select(_rounds.id, _rounds.task, _rounds.plan, _rounds.votes)
            .where(
                _rounds.project == self.project, _rounds.taught_by == "human", ~_rounds.audit, ~_rounds.pruned
            )
            .where(_rounds.task > after)
            .order_by(_rounds.task)
        )
        found: dict[int, None] = {}
        for rows in self.connection.execute(query).partitions(limit):
            further = further_votes_of(self.connection, [row.id for row in rows])
            for row in rows:
                voted = {*row.votes, *(vote.model for vote in further.get(row.id, ()))}
                if not_voted(row.plan["arms"], voted).keys() - voted:
                    found[row.task] = None
                    if len(found) == limit:
                        return [*found]
        return [*found]


@dataclass(frozen=True, slots=True)
class Recounts:
    """What counting a project's votes again has changed, and would change."""

    connection: Connection
    project: str

    def new_ones(self, results: Iterable[Recount], blind: Collection[int]) -> list[Recount]:
        """Return the results that change something now: of rounds that still exist and are still open.

        Args:
            results: what a counting made of rounds.
            blind: the blind tasks that are counted although somebody may have annotated them.
        """
        found = {recount.round_id: recount for recount in results}
        chosen = among(_rounds.id, [*found])
        counted = case(
            (_rounds.audit, among(_rounds.task, [*blind])), else_=is_open(self.project, _rounds.task)
        )
        names = (_rounds.id, _rounds.label, _rounds.score)
        query = select(*names).where(_rounds.project == self.project, chosen, counted).order_by(_rounds.id)
        rows = self.connection.execute(query).all()
        recounted = latest(self.connection, [row.id for row in rows])
        news = []
        for row in rows:
            before, result = recounted.get(row.id, row), found[row.id]
            if differs((before.label, before.score), (result.label, result.score)):
                news.append(replace(result, label_changed=before.label != result.label))
        return news

    def store(self, number: int, recounts: Sequence[Recount], hidden: Collection[int]) -> None:
        """Store the changes by a counting.

        Args:
            number: the counting's number.
            recounts: its recounts.
            hidden: the rounds whose prediction Label Studio does not show, so that nothing is to be replaced.
        """
        common = {"number": number, "project": self.project}
        rows = [{**asdict(each), **common, "delivered": each.round_id in hidden} for each in recounts]
        if rows:
            self.connection.execute(insert(_table), rows)

    def pending(self, *, after: int = 0, limit: int = 1000) -> list[int]:
        """Return the tasks that nobody has annotated and whose prediction Label Studio is to replace."""
        query = (
            select(_table.c.task)
            .where(_table.c.project == self.project, ~_table.c.delivered, _table.c.task > after)
            .where(is_open(self.project, _table.c.task))
            .distinct()
            .order_by(_table.c.task)
            .limit(limit)
        )
        return list(self.connection.scalars(query))

    def count_pending(self) -> int:
        """Count the tasks that :meth:`pending` lists."""
        query = select(func.count(_table.c.task.distinct())).where(
            _table.c.project == self.project, ~_table.c.delivered, is_open(self.project, _table.c.task)
        )
        return self.connection.scalars(query).one()

    def changed_labels(self) -> tuple[int, int]:
        """Count the tasks whose label any counting changed, and those for which only the score did.

        Blind tasks are in neither, as in a :class:`Counting`: nobody has seen their labels.
        """
        by_task = (
            select(func.max(case((_table.c.label_changed, 1), else_=0)).label("moved"))
            .join(tables.rounds, _rounds.id == _table.c.round_id)
            .where(_table.c.project == self.project, ~_rounds.audit)
            .group_by(_table.c.task)
            .subquery()
        )
        moved, every = self.connection.execute(
            select(func.coalesce(func.sum(by_task.c.moved), 0), func.count())
        ).one()
        return int(moved), int(every) - int(moved)

    def set_delivered(self, tasks: Sequence[int], through: int) -> None:
        """Remember that Label Studio shows these tasks' labels by the countings up to a number."""
        chosen = among(_table.c.task, tasks)
        of_project = and_(_table.c.project == self.project, _table.c.number <= through, ~_table.c.delivered)
        self.connection.execute(update(_table).where(of_project, chosen).values(delivered=True))

    def open_answers(self, epochs: Mapping[str, str]) -> dict[int, dict[str, tuple[str, float]]]:
        """Return task → control → its label and score, for the tasks that are neither blind nor annotated.

        Args:
            epochs: control → its epoch; the prediction has the labels of these.
        """
        answers: dict[int, dict[str, tuple[str, float]]] = {}
        for control, epoch in sorted(epochs.items()):
            of_question = QuestionRounds(self.connection, self.project, control, epoch).condition
            query = select(_rounds.task, latest_label.label("label"), latest_score.label("score")).where(
                of_question, ~_rounds.audit, is_open(self.project, _rounds.task)
            )
            for row in self.connection.execute(query.order_by(_rounds.id)):
                answers.setdefault(row.task, {})[control] = (row.label, row.score)
        return answers

    def are_there(self) -> bool:
        """Whether any of the project's rounds has a recount."""
        query = select(_table.c.round_id).where(_table.c.project == self.project)
        return self.connection.execute(query.limit(1)).first() is not None

    def store_checks(self, checks: Sequence[RecountCheck]) -> None:
        """Store checks, except of rounds whose answer has changed since."""
        chosen = among(_rounds.id, [check.round_id for check in checks])
        answers = select(_rounds.id, _rounds.human).where(_rounds.project == self.project, chosen)
        human: dict[int, str | None] = {row.id: row.human for row in self.connection.execute(answers)}
        rows = [
            {name: value for name, value in asdict(check).items() if name != "human"}
            | {"project": self.project}
            for check in checks
            if human.get(check.round_id) == check.human
        ]
        if rows:
            self.connection.execute(insert_or_replace(_checks), rows)

    def record_answer(self, task: int, round_id: int, confirmation: Callable[[str], float | None]) -> None:
        """Record a new answer, or the loss of an answer, to a round that was counted again.

        Args:
            task: the round's task.
            round_id: the round.
            confirmation: the agreement of a label with the answer; ``None`` if there is none any more.
        """
        stored = select(_checks.c.label).where(_checks.c.round_id == round_id)
        of_round = _checks.c.round_id == round_id
        if (label := self.connection.execute(stored).scalar_one_or_none()) is not None:
            if (confirmed := confirmation(label)) is None:
                self.connection.execute(delete(_checks).where(of_round))
            else:
                self.connection.execute(update(_checks).where(of_round).values(confirmed=confirmed))
            return
        recount = latest(self.connection, [round_id]).get(round_id)
        if recount is not None and (confirmed := confirmation(recount.label)) is not None:
            found = {"label": recount.label, "score": recount.score, "confirmed": confirmed}
            row = {"round_id": round_id, "project": self.project, "task": task, **found}
            self.connection.execute(insert_or_replace(_checks), row)

    def latest_number(self) -> int:
        """Return the number of the counting whose labels are handed out, 0 for the first labels."""
        newest = select(func.max(_countings.c.number)).where(_countings.c.project == self.project)
        return self.connection.scalars(newest).one() or 0

    def store_counting(self, counting: Counting) -> None:
        """Store a counting; its number follows the latest one."""
        self.connection.execute(insert(_countings), {"project": self.project, **asdict(counting)})

    def countings(self) -> list[Counting]:
        """Return a project's countings, the latest first."""
        names = [_countings.c[field.name] for field in fields(Counting)]
        query = (
            select(*names).where(_countings.c.project == self.project).order_by(_countings.c.number.desc())
        )
        return [Counting(**row._mapping) for row in self.connection.execute(query)]

    def last_look(self) -> Look | None:
        """Return the changes that the server last expected of a counting; ``None`` before the first look."""
        names = [_looks.c[field.name] for field in fields(Look)]
        row = self.connection.execute(select(*names).where(_looks.c.project == self.project)).one_or_none()
        return None if row is None else Look(**row._mapping)

    def remember_look(self, look: Look) -> None:
        """Replace the result of the server's last look."""
        row = {"project": self.project, **asdict(look)}
        self.connection.execute(insert_or_replace(_looks), row)

    def taught_before(self) -> TaughtBefore:
        """The effect of labels, by tasks that people labelled after a counting, without blind ones."""
        made = self.countings()
        if not made:
            return NOTHING_SEEN
        first = made[-1].created_at
        heard = (
            select(func.min(_annotations.received_at))
            .where(
                _annotations.project == self.project, _annotations.task == _rounds.task, ~_annotations.deleted
            )
            .scalar_subquery()
        )
        names = (_rounds.id, _rounds.score, _rounds.human, _rounds.label, heard.label("heard"))
        query = select(*names).where(
            _rounds.project == self.project, _rounds.human.is_not(None), ~_rounds.audit
        )
        rows = self.connection.execute(query).all()
        later = [row for row in rows if row.heard is not None and row.heard > first]
        recounted = latest(self.connection, [row.id for row in later])
        was = [float(row.label == row.human) for row in later]
        now = [
            float((recounted[row.id].label if row.id in recounted else row.label) == row.human)
            for row in later
        ]
        return TaughtBefore(
            labels=float(len(rows) - len(later)),
            wrong=sum(1.0 - row.score for row in later),
            gained=sum(now) - sum(was),
            moved=float(sum(one != other for one, other in zip(was, now, strict=True))),
        )
