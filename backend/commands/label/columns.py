"""The columns that ``camvo label`` adds to those of the source.

``_COLUMNS`` declares each of them once: the files that are written, the notebook's DataFrame and the table in
docs/label.md follow it. A new column is one more entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from backend.commands.bulk.dataset_jobs import Stored
from backend.datasets.sinks import PREFIX
from backend.ledger.rounds import Round
from backend.questions import LabelConfig
from camvo.student import without_silent_student

PROJECT, TASK, ID, _LABEL = (f"{PREFIX}{name}" for name in ("project", "task", "id", "label"))
"""The columns of the file of blind tasks, beside the texts."""

ANNOTATOR = f"{PREFIX}annotator"
"""A column that may be added to that file: who gave the row's label."""


def label_columns(config: LabelConfig) -> dict[str, str]:
    """Column of a label → the name of its control."""
    return {f"{_LABEL}{_suffix(config, name)}": name for name in _controls(config)}


@dataclass(frozen=True, slots=True)
class _AddedColumn:
    """A column that is added, and its ``meaning`` in the table of docs/label.md.

    ``kind`` is its type in Parquet and in a DataFrame. Exactly one of ``of_row`` and ``of_round`` fills it:
    by the task and the row's cost, or each control's column by its round, which is empty without one.
    """

    name: str
    kind: type
    meaning: str
    of_row: Callable[[Stored, float], Any] | None = None
    of_round: Callable[[Round], Any] | None = None


_COLUMNS: Final = (
    _AddedColumn("id", str, "the id", of_row=lambda stored, cost: stored.task.id),
    _AddedColumn(
        "label",
        str,
        "the label; empty if the task has none, or is blind and nobody has labelled it",
        of_round=lambda round_: round_.label,
    ),
    _AddedColumn("score", float, "the probability that it is right", of_round=lambda round_: round_.score),
    _AddedColumn(
        "likely",
        str,
        "the scores of the labels with a [recall](recall.md); JSON in CSV and Parquet",
        of_round=lambda round_: round_.plan.get("likely"),
    ),
    _AddedColumn(
        "votes",
        str,
        "who voted what; JSON in CSV and Parquet",
        of_round=lambda round_: without_silent_student(round_.votes),
    ),
    _AddedColumn(
        "incomplete",
        str,
        "the models whose votes are missing and [may still come](#when-a-model-is-down), with the reason;"
        " JSON in CSV and Parquet",
        of_round=lambda round_: round_.missing,
    ),
    _AddedColumn(
        "human",
        str,
        "the label that people gave, once it was [taught](#people-without-label-studio)",
        of_round=lambda round_: round_.human,
    ),
    _AddedColumn(
        "cost_usd",
        float,
        "what the task's calls cost; of rows with equal content the first one carries it, so the column adds"
        " up to the bill",
        of_row=lambda stored, cost: cost,
    ),
    _AddedColumn(
        "blind",
        bool,
        "whether the task is blind",
        of_row=lambda stored, cost: any(round_.audit for _, round_ in stored.decided),
    ),
    _AddedColumn(
        "error",
        str,
        "why the task has no label, or none for one of its questions: a"
        " [code](errors.md#a-task-gets-no-prediction)",
        of_row=lambda stored, cost: None if stored.complete else stored.failure,
    ),
)
"""The columns in their order; those of one control stay together."""


def added_kinds(config: LabelConfig) -> dict[str, type]:
    """The added columns in their order: name → type."""
    return {name: column.kind for name, column, _ in _named(config)}


def added_values(
    config: LabelConfig, stored: Stored, shown: Mapping[str, Round], cost_usd: float
) -> dict[str, Any]:
    """The values of one row's added columns, by the same names; only a task's first row has its cost."""
    values = {}
    for name, column, control in _named(config):
        if column.of_row is not None:
            values[name] = column.of_row(stored, cost_usd)
        elif column.of_round is not None:
            values[name] = column.of_round(shown[control]) if control in shown else None
    return values


def _named(config: LabelConfig) -> Iterator[tuple[str, _AddedColumn, str]]:
    """Each column with its whole name and its control, which is empty for a column of the row."""
    for of_controls, columns in groupby(_COLUMNS, lambda column: column.of_round is not None):
        together = tuple(columns)
        for control in _controls(config) if of_controls else [""]:
            suffix = _suffix(config, control) if of_controls else ""
            for column in together:
                yield f"{PREFIX}{column.name}{suffix}", column, control


def _controls(config: LabelConfig) -> list[str]:
    return [question.name for question in config.questions]


def _suffix(config: LabelConfig, control: str) -> str:
    return "" if len(config.questions) == 1 else f"_{control}"
