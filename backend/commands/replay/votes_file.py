"""The votes table as people keep it: a CSV with a row for each item and a column for each model.

``text`` is what the models saw, ``truth`` the right label, ``item_id`` a name; every other column is a model
with its labels, blank where it gave none. Nothing is guessed: what could be meant in two ways is refused.
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
_SHOWN = 40
"""Characters of a label that an error shows: of a column mistaken for a model it may be a whole text."""


@dataclass(frozen=True, slots=True, eq=False)
class VotesFile:
    """What a votes CSV says.

    Attributes:
        path: where it is from.
        models: the names of the models, in the order of their columns.
        labels: the label set, in the order of their Unicode code points.
        texts: the items' texts, ``None`` without such a column.
        votes: positions in ``labels``, shape (n, K); −1 where a model gave no label.
        truth: positions in ``labels``, shape (n,); −1 where the right label is not known.
        lines: the line of the file that each item begins on.
    """

    path: Path
    models: tuple[str, ...]
    labels: tuple[str, ...]
    texts: tuple[str, ...] | None
    votes: NDArray[np.int64]
    truth: NDArray[np.int64]
    lines: tuple[int, ...]


def read(path: Path) -> VotesFile:
    """The votes of a CSV file in UTF-8.

    Raises:
        ReplayError: it cannot be read, is empty, has no model or a column or row that is wrong; the message
            names the column and the line.
    """
    header, lines, rows = _table(path)
    _check_header(path, header)
    columns = dict(zip(header, map(tuple, zip(*rows, strict=True)), strict=True))
    if ITEM_ID in columns:
        _check_ids(path, columns[ITEM_ID], lines)
    models = tuple(name for name in header if name not in _RESERVED)
    blank = ("",) * len(rows)
    cells = {name: columns.get(name, blank) for name in (TRUTH, *models)}
    labels = _labels(path, cells, lines)
    if not labels:
        raise ReplayError("no model gave a label to any item", where=str(path))
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


def _table(path: Path) -> tuple[list[str], list[int], list[list[str]]]:
    """The header, and each row with the line it begins on; blank lines are no rows."""
    csv.field_size_limit(sys.maxsize)  # 131,072 characters by default; a text may be longer
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            numbered = _numbered(path, stream)
            _, header = next(numbered, (1, []))
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
        raise ReplayError("an empty table", where=str(path), fix="a header and a row for each item")
    return header, lines, rows


def _numbered(path: Path, stream: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the line it begins on (a text may go over several)."""
    reader, line = csv.reader(stream, strict=True), 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise ReplayError(f"is no CSV ({error})", where=f"{path}, line {line}") from error


def _check_header(path: Path, header: list[str]) -> None:
    for name in header:
        meant = name.strip().casefold()
        if not meant:
            raise ReplayError("a column without a name", where=f"{path}, line 1")
        if meant in _RESERVED and name != meant:
            raise ReplayError(f"the column {name!r} is to be called {meant!r}", where=f"{path}, line 1")
        if header.count(name) > 1:
            raise ReplayError(f"two columns {name!r}", where=f"{path}, line 1")
    if set(header) <= set(_RESERVED):
        raise ReplayError(
            "no model column",
            where=str(path),
            fix=f"every column but {', '.join(_RESERVED)} is a model with its labels",
        )


def _check_ids(path: Path, ids: tuple[str, ...], lines: list[int]) -> None:
    seen: dict[str, int] = {}
    for line, item in zip(lines, ids, strict=True):
        if not item.strip():
            raise ReplayError(f"no {ITEM_ID}", where=f"{path}, line {line}")
        if item in seen:
            raise ReplayError(
                f"the {ITEM_ID} {_shown(item)} is that of line {seen[item]} too", where=f"{path}, line {line}"
            )
        seen[item] = line


def _labels(path: Path, cells: dict[str, tuple[str, ...]], lines: list[int]) -> tuple[str, ...]:
    """The label set; cells that hold nothing but blanks are no label."""
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
