"""The queue of blind tasks, by question and epoch; :mod:`camvo.scores.guarantee` has its rules.

An entry outlives its round: the label of a deleted task counts as wrong. It holds no text and no label.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, func, select, update

from backend.ledger.database import tables
from backend.ledger.database.statements import among, insert_new, insert_or_replace
from backend.ledger.rounds import Round, RoundKey
from camvo.scores.guarantee import BlindTask, Verdicts, queue_place, unbroken_run

_blind_queues = tables.blind_queues
_queue_columns = _blind_queues.c


@dataclass(frozen=True, slots=True)
class QueuedTask(BlindTask):
    """An entry of the queue, as reports read it.

    Attributes:
        counting: hash of what the models' votes were counted to: the label, the score, and the plan with its
            weights.
        answers: hash of the valid human answers, by annotation; empty without one.
        closed_through: on one entry of a closed cohort, the newest round of the project when the first answer
            closed it.
        recount: the number of the counting that fixed its label and score, 0 for the first.
        round_id: its round.
    """

    counting: str
    answers: str
    closed_through: int | None
    recount: int
    round_id: int = 0


@dataclass(frozen=True, slots=True)
class BlindQueue:
    """A question's blind tasks in the order of the queue.

    Attributes:
        entries: those of all countings.
        recount: the number of the question's latest counting that changed labels or scores, 0 for the first.
            Entries of earlier countings certify nothing any more.
        complete: whether every task of the project could have been blind. No blind task represents one that
            could not, because ``audit`` was 0 or a run had no ``--blind``.
    """

    entries: tuple[QueuedTask, ...] = ()
    recount: int = 0
    complete: bool = True

    def __iter__(self) -> Iterator[QueuedTask]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def latest(self) -> list[QueuedTask]:
        """The entries whose label and score are of the latest counting."""
        return [entry for entry in self.entries if entry.recount == self.recount]

    @property
    def void(self) -> list[QueuedTask]:
        """The entries that certified labels of earlier countings."""
        return [entry for entry in self.entries if entry.recount < self.recount]

    @property
    def run(self) -> list[QueuedTask]:
        """The entries that certify: those of the latest counting that are answered without a gap."""
        latest = self.latest
        return latest[: len(unbroken_run(latest))]

    @property
    def behind(self) -> list[QueuedTask]:
        """The entries of the latest counting behind the run."""
        latest = self.latest
        return latest[len(unbroken_run(latest)) :]

    @property
    def resting(self) -> list[QueuedTask]:
        """The entries that something rests on: those of earlier countings, and the run of the latest."""
        behind = {entry.task for entry in self.behind}
        return [entry for entry in self.entries if entry.task not in behind]

    @property
    def ends(self) -> dict[int, int]:
        """Cohort → the last round that it represents; a cohort that is still open is absent."""
        return {
            entry.cohort: entry.closed_through for entry in self.entries if entry.closed_through is not None
        }


def _countings_of(connection: Connection, project: str) -> dict[tuple[str, str], int]:
    """Return (control, epoch) → the number of the latest counting that changed its labels or scores."""
    query = select(_queue_columns.control, _queue_columns.epoch, _queue_columns.recount).where(
        _queue_columns.project == project
    )
    return {(row.control, row.epoch): row.recount for row in connection.execute(query)}


def _begin_queue(connection: Connection, project: str, control: str, epoch: str, recount: int) -> None:
    """Record that a recount has changed a question's labels or scores."""
    row = {"project": project, "control": control, "epoch": epoch, "recount": recount}
    connection.execute(insert_or_replace(_blind_queues), row)


_table, _rounds = tables.blind_tasks, tables.rounds
_columns = _table.c

# Statements that an answer needs are built once: building one takes longer than SQLite takes to run it.
_OF = and_(
    _columns.project == bindparam("of_project"),
    _columns.control == bindparam("of_control"),
    _columns.epoch == bindparam("of_epoch"),
)
_IS = and_(_OF, _columns.task == bindparam("of_task"))
_KNOWN = select(_columns.task).where(_IS)
_ENTRY = select(_columns.cohort, _columns.verdicts, _columns.reward).where(
    _IS, _columns.round_id == bindparam("of_round")
)
_ENDS = (
    select(_columns.task)
    .where(_OF, _columns.cohort == bindparam("of_cohort"), _columns.closed_through.is_not(None))
    .limit(1)
)
_CLOSED_COHORTS = select(func.coalesce(func.max(_columns.cohort), 0)).where(
    _OF, _columns.closed_through.is_not(None)
)
_RECOUNT = select(_queue_columns.recount).where(
    _queue_columns.project == bindparam("of_project"),
    _queue_columns.control == bindparam("of_control"),
    _queue_columns.epoch == bindparam("of_epoch"),
)
_NEWEST = select(func.max(_rounds.c.id)).where(_rounds.c.project == bindparam("of_project"))
_ANSWERED = update(_table).where(_IS)


def enter(connection: Connection, round_: Round, round_id: int) -> None:
    """Put a new blind round at the end of its question's queue; only a task's first round enters."""
    key = round_.key
    if connection.execute(_KNOWN, _values(key)).first() is not None:
        return
    last_closed = connection.scalars(_CLOSED_COHORTS, _values(key)).one()
    row = {
        "project": key.project,
        "control": key.control,
        "epoch": key.epoch,
        "task": key.task,
        "round_id": round_id,
        "cohort": last_closed + 1,
        "place": queue_place(key.project, key.task),
        "score": round_.score,
        "counting": counting_hash(round_.label, round_.score, round_.plan),
        "verdicts": _pack(Verdicts()),
        "answers": "",
        "recount": connection.scalars(_RECOUNT, _values(key)).first() or 0,
    }
    connection.execute(insert_new(_table), row)


def record_answer(
    connection: Connection, round_: Round, round_id: int, rewards: Mapping[int, float], said: str
) -> None:
    """Record what people now say about a blind label; the first answer of a cohort closes the cohort.

    Args:
        connection: a write transaction.
        round_: the blind round. Later rounds of a task that has one in the queue change nothing.
        round_id: its id.
        rewards: annotation → how right the voted label is according to it, for the valid answers, in the
            order of their arrival.
        said: the valid answers, as one text; only its hash is kept.
    """
    values = _values(round_.key)
    entry = connection.execute(_ENTRY, values | {"of_round": round_id}).one_or_none()
    if entry is None:
        return
    verdicts = _unpack(entry.verdicts).after(rewards)
    values |= {
        "verdicts": _pack(verdicts),
        "answers": hashlib.sha256(said.encode()).hexdigest() if rewards else "",
        "reward": verdicts.reward(rewards),
    }
    if entry.reward is None:
        _close(connection, round_.key, entry.cohort)
    connection.execute(_ANSWERED, values)


def is_represented(project: str, task: ColumnElement[int]) -> ColumnElement[bool]:
    """In a query: whether blind tasks represent a task: each of its rounds could have been blind."""
    other = _rounds.alias()
    shown = select(other.c.task).where(other.c.project == project, other.c.task == task, ~other.c.audited)
    return ~shown.exists()


@dataclass(frozen=True, slots=True)
class BlindQueues:
    """The queues of a project's blind tasks."""

    connection: Connection
    project: str

    def unrepresented(self) -> set[int]:
        """Return the tasks with a round that could not have been blind."""
        return set(self.connection.scalars(self._shown))

    @property
    def _shown(self) -> Select[tuple[int]]:
        query = select(_rounds.c.task).where(_rounds.c.project == self.project, ~_rounds.c.audited)
        return query.order_by(_rounds.c.task)  # else SQLite reads every round, instead of the index of these

    def count_as_wrong(self, tasks: Sequence[int]) -> None:
        """Count the labels of deleted tasks as wrong; as an answer does, that closes their cohorts."""
        chosen = among(_columns.task, tasks), _columns.project == self.project
        unanswered = select(_columns.control, _columns.epoch, _columns.cohort, func.min(_columns.task)).where(
            *chosen, _columns.reward.is_(None)
        )
        cohorts = unanswered.group_by(_columns.control, _columns.epoch, _columns.cohort)
        for control, epoch, cohort, task in self.connection.execute(cohorts).all():
            _close(self.connection, RoundKey(self.project, task, control, "", epoch), cohort)
        self.connection.execute(update(_table).where(*chosen).values(reward=0.0, answers=""))

    def all(self) -> dict[tuple[str, str], BlindQueue]:
        """Return (control, epoch) → the queue of the question, from its front."""
        names = [
            *BlindTask.__dataclass_fields__,
            "counting",
            "answers",
            "closed_through",
            "recount",
            "round_id",
        ]
        query = select(_columns.control, _columns.epoch, *(_columns[name] for name in names)).where(
            _columns.project == self.project
        )
        order = (_columns.control, _columns.epoch, _columns.cohort, _columns.place, _columns.task)
        found: dict[tuple[str, str], list[QueuedTask]] = {}
        for control, epoch, *values in self.connection.execute(query.order_by(*order)):
            found.setdefault((control, epoch), []).append(QueuedTask(*values))
        newest = _countings_of(self.connection, self.project)
        complete = self.connection.scalars(self._shown.limit(1)).first() is None
        return {
            key: BlindQueue(tuple(entries), newest.get(key, 0), complete) for key, entries in found.items()
        }

    def of(self, control: str, epoch: str) -> BlindQueue:
        """Return a question's queue, from its front."""
        return self.all().get((control, epoch), BlindQueue())

    def recounted(
        self, control: str, epoch: str, *, number: int, results: Mapping[int, tuple[str, float]]
    ) -> list[int]:
        """Begin a queue for the labels of a new counting, with every task after the run of the last queue.

        The run is a part of the queue that a hash chose, and so is what is left. The tasks of the run keep
        what certified the earlier labels, and certify nothing any more. The others stay in their cohorts. An
        answer among them was given out of turn; the caller compares it with the new label too, and the lower
        of both rewards counts. If every task is in the run, the new queue is empty until others come.

        Args:
            control: the name of the control tag.
            epoch: the epoch.
            number: the counting's number.
            results: round → its label and score by this counting. A round without one keeps its own.

        Returns:
            The tasks of the new queue that somebody has answered.
        """
        behind = self.of(control, epoch).behind
        of_question = and_(
            _columns.project == self.project, _columns.control == control, _columns.epoch == epoch
        )
        for entry in behind:
            values: dict[str, Any] = {"recount": number}
            if (result := results.get(entry.round_id)) is not None:
                label, score = result
                values |= {"score": score, "counting": counting_hash(label, score, {"counting": number})}
            self.connection.execute(
                update(_table).where(of_question, _columns.task == entry.task).values(**values)
            )
        _begin_queue(self.connection, self.project, control, epoch, number)
        return [entry.task for entry in behind if entry.reward is not None]

    def waiting(self, epochs: Mapping[str, str], limit: int) -> list[int]:
        """Return the first tasks that nobody has answered, in the order of the queue."""
        tasks: dict[int, tuple[int, int, int]] = {}
        for control, epoch in epochs.items():
            query = (
                select(_columns.cohort, _columns.place, _columns.task)
                .where(_columns.project == self.project, _columns.control == control, _columns.epoch == epoch)
                .where(_columns.reward.is_(None))
                .order_by(_columns.cohort, _columns.place, _columns.task)
            )
            for cohort, place, task in self.connection.execute(query.limit(limit)):
                tasks[task] = min((cohort, place, task), tasks.get(task, (cohort, place, task)))
        return sorted(tasks, key=tasks.__getitem__)[:limit]


def counting_hash(label: str, score: float, plan: Mapping[str, Any]) -> str:
    """Hash a label, its score, and the plan or the counting that they are of."""
    counted = json.dumps([label, score, plan], sort_keys=True)
    return hashlib.sha256(counted.encode()).hexdigest()


def _close(connection: Connection, key: RoundKey, cohort: int) -> None:
    """Close the cohort of a blind round, unless it is closed already."""
    values = _values(key)
    if connection.execute(_ENDS, values | {"of_cohort": cohort}).first() is None:
        through = connection.scalars(_NEWEST, values).one()
        connection.execute(_ANSWERED, values | {"closed_through": through})


def _values(key: RoundKey) -> dict[str, Any]:
    return {"of_project": key.project, "of_control": key.control, "of_epoch": key.epoch, "of_task": key.task}


def _pack(verdicts: Verdicts) -> dict[str, object]:
    return {"first": verdicts.first, "lowest": {str(n): reward for n, reward in verdicts.lowest.items()}}


def _unpack(stored: Mapping[str, Any]) -> Verdicts:
    lowest = {int(number): reward for number, reward in stored["lowest"].items()}
    return Verdicts(stored["first"], lowest)
