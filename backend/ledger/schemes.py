"""Label schemes: which labels a question has had, and which label of one became which of the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from backend.ledger.database import tables
from backend.ledger.database.statements import among
from camvo.votes.relabelling import LabelChange, LabelMap

_table, _rounds = tables.schemes, tables.rounds


@dataclass(frozen=True, slots=True)
class Scheme:
    """The labels that a question has from some time on. Schemes are only ever appended.

    Attributes:
        control: the name of the question's control tag.
        epoch: the question's epoch.
        label_config: the label config.
        embedder: the identity of the embedder.
        source: the epoch whose rounds were carried over; ``None`` if everything began anew.
        labels: each label of the source → its label here, ``None`` for one that is dropped; empty if no label
            changed.
        created_at: unix seconds.
        id: the row's id, 0 before the scheme is stored.
        parts: label of the source that is split → its parts here.
        instructions: what models read besides the label config; ``None`` for nothing.
        beside: whether it is of earlier instructions, whose labels were carried over beside those of the
            present ones, so that it was never the question's scheme of its time.
        undo: whether it takes back an earlier change of labels.
    """

    control: str
    epoch: str
    label_config: str
    embedder: str = ""
    source: str | None = None
    labels: LabelMap = field(default_factory=dict)
    created_at: float = 0.0
    id: int = 0
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    instructions: str | None = None
    beside: bool = False
    undo: bool = False

    @property
    def change(self) -> LabelChange:
        """How the labels changed."""
        return LabelChange(self.labels, tuple(self.parts))


@dataclass(frozen=True, slots=True)
class Schemes:
    """The label schemes of a project's questions."""

    connection: Connection
    project: str

    def all(self) -> list[Scheme]:
        """Return every scheme, the earliest first."""
        query = select(_table).where(_table.c.project == self.project).order_by(_table.c.id)
        return [_scheme(row) for row in self.connection.execute(query)]

    def latest(self) -> dict[str, Scheme]:
        """Return control → its scheme now."""
        return latest_of(self.all())

    def epochs(self) -> dict[str, str]:
        """Return control → the epoch of its scheme now."""
        columns = (_table.c.control, _table.c.epoch)
        query = select(*columns).where(_table.c.project == self.project, ~_table.c.beside)
        return {row.control: row.epoch for row in self.connection.execute(query.order_by(_table.c.id))}

    def append(self, scheme: Scheme) -> None:
        """Store a scheme, which is the question's from now on."""
        row = {each.name: getattr(scheme, each.name) for each in fields(Scheme) if each.name != "id"}
        parts = {label: list(of) for label, of in scheme.parts.items()}
        row |= {"labels": dict(scheme.labels), "parts": parts, "project": self.project}
        self.connection.execute(insert(_table), row)


def asked_before_labels_changed(
    connection: Connection, project: str, controls: Collection[str], tasks: Sequence[int]
) -> set[tuple[int, str]]:
    """Return those of the tasks, each with a control, that have a round from before labels changed.

    They are asked about again because the change concerns them, so they are no random tasks.
    """
    changes = select(_table.c.control, _table.c.source, _table.c.labels).where(
        _table.c.project == project, _table.c.source.is_not(None), _table.c.control.in_(controls)
    )
    sources = {(row.control, row.source) for row in connection.execute(changes) if row.labels}
    if not sources:
        return set()
    query = select(_rounds.c.task, _rounds.c.control, _rounds.c.epoch).where(
        _rounds.c.project == project, among(connection.dialect, _rounds.c.task, tasks)
    )
    return {
        (row.task, row.control) for row in connection.execute(query) if (row.control, row.epoch) in sources
    }


def latest_of(history: Iterable[Scheme]) -> dict[str, Scheme]:
    """Return control → its scheme now, of schemes whose earliest comes first."""
    return {scheme.control: scheme for scheme in history if not scheme.beside}


def relabelled_in(
    connection: Connection, projects: Collection[str]
) -> dict[str, dict[str, list[LabelChange]]]:
    """Return project → control → how its labels changed, the earliest first; others are absent."""
    found: dict[str, dict[str, list[LabelChange]]] = {}
    columns = (_table.c.project, _table.c.control, _table.c.labels, _table.c.parts)
    query = select(*columns).where(_table.c.project.in_(projects), _table.c.source.is_not(None))
    query = query.where(~_table.c.beside)  # the same change as the scheme beside which it was made
    for row in connection.execute(query.order_by(_table.c.id)):
        if row.labels:
            of_control = found.setdefault(row.project, {}).setdefault(row.control, [])
            of_control.append(LabelChange(row.labels, tuple(row.parts)))
    return found


def _scheme(row: Row[Any]) -> Scheme:
    return Scheme(**{each.name: getattr(row, each.name) for each in fields(Scheme)})
