"""The votes table as a CSV file, with a row for each item and a column for each model.

The column ``text`` has the texts that the models saw, ``truth`` the right labels, ``item_id`` unique names.
Every other column is a model with its labels; a blank cell means no vote. Ambiguous content is refused.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backend.errors import ReplayError

TEXT, TRUTH, ITEM_ID = "text", "truth", "item_id"
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
    """

    path: Path
    models: tuple[str, ...]
    labels: tuple[str, ...]
    texts: tuple[str, ...] | None
    votes: NDArray[np.int64]
    truth: NDArray[np.int64]
    lines: tuple[int, ...]


def read_votes(path: Path, delimiter: str = ",") -> VotesFile:
    """Read a votes CSV in UTF-8.

    Args:
        path: the file.
        delimiter: what separates the cells: a character, or ``tab``.

    Raises:
        ReplayError: the delimiter is none, or the file cannot be read, is empty, has no model, or has an
            invalid column or row. The message names the column and the line.
    """
    header, lines, rows = _table(path, _character(delimiter))
    _check_header(path, header)
    columns = dict(zip(header, map(tuple, zip(*rows, strict=True)), strict=True))
    if ITEM_ID in columns:
        _check_ids(path, columns[ITEM_ID], lines)
    models = tuple(name for name in header if name not in _RESERVED)
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
    if set(header) <= set(_RESERVED):
        raise ReplayError(
            "no model column",
            where=str(path),
            fix=f"add a column of labels for each model, besides {', '.join(_RESERVED)}",
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


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= _SHOWN else cell[: _SHOWN - 1] + "…")
