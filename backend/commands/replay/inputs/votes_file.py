"""The votes table as a CSV file, with a row for each item and a column for each model.

The column ``text`` has the texts that the models saw, ``truth`` the right labels, ``item_id`` unique names.
A column ``conf_<model>`` has how sure the model says it is, in [0, 1]; a blank cell means that it says
nothing. Every other column is a model with its labels; a blank cell means no vote. Ambiguous content is
refused.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backend.errors import ReplayError
from camvo.typing import Array

TEXT, TRUTH, ITEM_ID = "text", "truth", "item_id"
CONFIDENCE = "conf_"
"""The beginning of the name of a column of confidences; the model's name follows."""

_RESERVED = (TEXT, TRUTH, ITEM_ID)
_NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t"}
_SHOWN = 40
"""The most characters of a label in an error message. A wrong column may hold whole texts."""


@dataclass(frozen=True, slots=True, eq=False)
class VotesFile:
    """The content of a votes CSV with n items and K models.

    Attributes:
        path: the file.
        models: the names of the models, in the order of their columns.
        labels: the label set, sorted by Unicode code points.
        texts: the items' texts; ``None`` without the column.
        votes: positions in ``labels``, shape (n, K); −1 means no vote.
        truth: positions in ``labels``, shape (n,); −1 means unknown.
        lines: the line on which each item begins, for errors.
        confidences: in [0, 1], shape (n, K); NaN where a model gave none. ``None`` without such columns.
        categories: each item's category, blank where it has none; ``None`` if no column was asked for.
    """

    path: Path
    models: tuple[str, ...]
    labels: tuple[str, ...]
    texts: tuple[str, ...] | None
    votes: NDArray[np.int64]
    truth: NDArray[np.int64]
    lines: tuple[int, ...]
    confidences: Array | None = None
    categories: tuple[str, ...] | None = None


def read_votes(path: Path, delimiter: str = ",", category: str | None = None) -> VotesFile:
    """Read a votes CSV in UTF-8.

    Args:
        path: the file.
        delimiter: what separates the cells: a character, or ``tab``.
        category: the column with the items' categories, which is then no model.

    Raises:
        ReplayError: the delimiter is none, or the file cannot be read, is empty, has no model, or has an
            invalid column or row. The message names the column and the line.
    """
    header, lines, rows = _table(path, _character(delimiter))
    _check_header(path, header)
    columns = dict(zip(header, map(tuple, zip(*rows, strict=True)), strict=True))
    if ITEM_ID in columns:
        _check_ids(path, columns[ITEM_ID], lines)
    if category is not None:
        _check_category(path, header, category)
    others = {*_RESERVED, category}
    models = tuple(name for name in header if name not in others and not name.startswith(CONFIDENCE))
    blank = ("",) * len(rows)
    cells = {name: columns.get(name, blank) for name in (TRUTH, *models)}
    labels = _labels(path, cells, lines)
    if not labels:
        raise ReplayError("no model gave a label to any item", where=str(path), fix="fill the model columns")
    position = {label: number for number, label in enumerate(labels)}
    codes = {name: [position.get(cell, -1) for cell in column] for name, column in cells.items()}
    return VotesFile(
        path=path,
        models=models,
        labels=labels,
        texts=columns.get(TEXT),
        votes=np.array([codes[name] for name in models], dtype=np.int64).T,
        truth=np.array(codes[TRUTH], dtype=np.int64),
        lines=tuple(lines),
        confidences=_confidences(path, columns, models, lines),
        categories=None if category is None else columns[category],
    )


def _character(delimiter: str) -> str:
    character = _NAMED_DELIMITERS.get(delimiter, delimiter)
    if len(character) != 1 or character in '"\r\n ':
        raise ReplayError(
            f"{delimiter!r} cannot separate cells",
            where="--delimiter",
            fix="give a character such as ; or tab",
        )
    return character


def _table(path: Path, delimiter: str) -> tuple[list[str], list[int], list[list[str]]]:
    """Return the header, the line on which each row begins, and the rows; blank lines are skipped."""
    csv.field_size_limit(sys.maxsize)  # the default of 131,072 characters is too small for some texts
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            numbered = _numbered(path, stream, delimiter)
            _, header = next(numbered, (1, []))
            _check_delimiter(path, header)
            lines, rows = [], []
            for line, row in numbered:
                if len(row) != len(header):
                    raise ReplayError(
                        f"{len(row)} cells under {len(header)} columns", where=f"{path}, line {line}"
                    )
                lines.append(line)
                rows.append(row)
    except OSError as error:
        raise ReplayError(f"cannot be read ({error.strerror})", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise ReplayError(
            "is not UTF-8", where=str(path), fix="save it as CSV with the encoding UTF-8"
        ) from error
    if not rows:
        raise ReplayError("the table is empty", where=str(path), fix="add a header, and a row for each item")
    return header, lines, rows


def _check_delimiter(path: Path, header: list[str]) -> None:
    """Refuse a header of one column that another delimiter would divide."""
    if len(header) != 1:
        return
    for character, name in {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}.items():
        if character in header[0]:
            raise ReplayError(
                f"the cells seem to be separated by {name}",
                where=f"{path}, line 1",
                fix=f"give --delimiter {name}",
            )


def _numbered(path: Path, stream: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with the line on which it begins; texts may have several."""
    reader, line = csv.reader(stream, delimiter=delimiter, strict=True), 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise ReplayError(f"is not CSV ({error})", where=f"{path}, line {line}") from error


def _check_header(path: Path, header: list[str]) -> None:
    for name in header:
        meant = name.strip().casefold()
        if not meant:
            raise ReplayError("a column without a name", where=f"{path}, line 1")
        if meant in _RESERVED and name != meant:
            raise ReplayError(
                f"the column {name!r} must be called {meant!r}", where=f"{path}, line 1", fix="rename it"
            )
        if header.count(name) > 1:
            raise ReplayError(f"two columns {name!r}", where=f"{path}, line 1", fix="rename or remove one")
    for name in header:
        if name.startswith(CONFIDENCE) and name.removeprefix(CONFIDENCE) not in header:
            raise ReplayError(
                f"the column {name!r} has the confidences of {name.removeprefix(CONFIDENCE)!r}, which is no"
                " column",
                where=f"{path}, line 1",
                fix=f"add its labels, or rename a model whose name begins with {CONFIDENCE!r}",
            )
    if set(header) <= set(_RESERVED):
        raise ReplayError(
            "no model column",
            where=str(path),
            fix=f"add a column of labels for each model, besides {', '.join(_RESERVED)}",
        )


def _check_category(path: Path, header: list[str], category: str) -> None:
    if category not in header or category in _RESERVED or category.startswith(CONFIDENCE):
        raise ReplayError(
            f"{category!r} is no column of categories in {path}",
            where="--context",
            fix="name a column with each item's language, subject or the like",
        )


def _check_ids(path: Path, ids: tuple[str, ...], lines: list[int]) -> None:
    line_of: dict[str, int] = {}
    for line, item in zip(lines, ids, strict=True):
        if not item.strip():
            raise ReplayError(f"no {ITEM_ID}", where=f"{path}, line {line}")
        if item in line_of:
            raise ReplayError(
                f"line {line_of[item]} has the same {ITEM_ID} {_shown(item)}",
                where=f"{path}, line {line}",
                fix="give each item a unique name",
            )
        line_of[item] = line


def _labels(path: Path, cells: dict[str, tuple[str, ...]], lines: list[int]) -> tuple[str, ...]:
    """Return the label set; blank cells are not labels."""
    known: dict[str, str] = {}
    labels = set()
    for name, column in cells.items():
        for line, cell in zip(lines, column, strict=True):
            if cell in labels or not cell.strip():
                continue
            other = known.setdefault(" ".join(cell.split()).casefold(), cell)
            if other != cell:
                raise ReplayError(
                    f"the labels {_shown(other)} and {_shown(cell)} differ only in case or blanks",
                    where=f"{path}, line {line}, column {name!r}",
                )
            labels.add(cell)
    return tuple(sorted(labels))


def _confidences(
    path: Path, columns: Mapping[str, Sequence[str]], models: Sequence[str], lines: Sequence[int]
) -> Array | None:
    """Return the confidences, shape (n, K), NaN where a cell is blank; ``None`` without such columns."""
    named = {model: f"{CONFIDENCE}{model}" for model in models if f"{CONFIDENCE}{model}" in columns}
    if not named:
        return None
    confidences = np.full((len(lines), len(models)), np.nan)
    for column, model in enumerate(models):
        if model not in named:
            continue
        for row, (line, cell) in enumerate(zip(lines, columns[named[model]], strict=True)):
            if cell.strip():
                confidences[row, column] = _confidence(cell, f"{path}, line {line}, column {named[model]!r}")
    return confidences


def _confidence(cell: str, where: str) -> float:
    try:
        confidence = float(cell)
    except ValueError:
        confidence = math.nan
    if not 0.0 <= confidence <= 1.0:
        raise ReplayError(
            f"{_shown(cell)} is not a confidence",
            where=where,
            fix="give a number from 0 to 1, or leave it blank",
        )
    return confidence


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= _SHOWN else cell[: _SHOWN - 1] + "…")
