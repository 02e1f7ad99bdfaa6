"""Reads and checks the inputs of a replay. It also finds what is odd but not wrong, for a warning."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from backend.commands.shared.output import Advance
from backend.datasets.sources import CsvError, CsvRecord, csv_records
from backend.errors import ReplayError
from backend.models.embedder import Embedder
from backend.questions.controls import are_steps
from backend.questions.naming import first_alike
from backend.server.status.formats import of
from camvo.typing import Array

TEXT, _TRUTH, _ITEM_ID = "text", "truth", "item_id"
_CONFIDENCE = "conf_"
"""The beginning of the name of a column of confidences; the model's name follows."""

_RESERVED = (TEXT, _TRUTH, _ITEM_ID)
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

    @classmethod
    def read(cls, path: Path, delimiter: str = ",", category: str | None = None) -> VotesFile:
        """Read a votes CSV in UTF-8."""
        header, lines, rows = _table(path, _character(delimiter))
        _check_header(path, header)
        columns = dict(zip(header, map(tuple, zip(*rows, strict=True)), strict=True))
        if _ITEM_ID in columns:
            _check_ids(path, columns[_ITEM_ID], lines)
        if category is not None:
            _check_category(path, header, category)
        others = {*_RESERVED, category}
        models = tuple(name for name in header if name not in others and not name.startswith(_CONFIDENCE))
        blank = ("",) * len(rows)
        cells = _one_spelling({name: columns.get(name, blank) for name in (_TRUTH, *models)})
        labels = _labels(path, cells, lines)
        if not labels:
            raise ReplayError(
                "no model gave a label to any item", where=str(path), fix="fill the model columns"
            )
        position = {label: number for number, label in enumerate(labels)}
        codes = {name: [position.get(cell, -1) for cell in column] for name, column in cells.items()}
        return cls(
            path=path,
            models=models,
            labels=labels,
            texts=columns.get(TEXT),
            votes=np.array([codes[name] for name in models], dtype=np.int64).T,
            truth=np.array(codes[_TRUTH], dtype=np.int64),
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
    """Return the header, the line on which each row begins, and the rows.

    Columns without a name, such as the index that pandas writes, are left out.
    """
    try:
        records = csv_records(path, delimiter)
        first = next(records, CsvRecord(1, []))
        _check_delimiter(path, first.cells)
        named = [column for column, name in enumerate(first.cells) if name.strip()]
        lines, rows = [], []
        for record in records:
            lines.append(record.line)
            rows.append([record.cells[column] for column in named])
    except OSError as error:
        raise ReplayError(f"cannot be read ({error.strerror})", where=str(path)) from error
    except CsvError as error:
        raise ReplayError(error.message, where=f"{path}, line {error.line}", fix=error.fix) from None
    if not rows:
        raise ReplayError("the table is empty", where=str(path), fix="add a header, and a row for each item")
    return [first.cells[column] for column in named], lines, rows


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


def _check_header(path: Path, header: list[str]) -> None:
    for name in header:
        meant = name.strip().casefold()
        if meant in _RESERVED and name != meant:
            raise ReplayError(
                f"the column {name!r} must be called {meant!r}", where=f"{path}, line 1", fix="rename it"
            )
        if header.count(name) > 1:
            raise ReplayError(f"two columns {name!r}", where=f"{path}, line 1", fix="rename or remove one")
    for name in header:
        if name.startswith(_CONFIDENCE) and name.removeprefix(_CONFIDENCE) not in header:
            raise ReplayError(
                f"the column {name!r} has the confidences of {name.removeprefix(_CONFIDENCE)!r}, which is no"
                " column",
                where=f"{path}, line 1",
                fix=f"add its labels, or rename a model whose name begins with {_CONFIDENCE!r}",
            )
    if set(header) <= set(_RESERVED):
        raise ReplayError(
            "no model column",
            where=str(path),
            fix=f"add a column of labels for each model, besides {', '.join(_RESERVED)}",
        )


def _check_category(path: Path, header: list[str], category: str) -> None:
    if category not in header or category in _RESERVED or category.startswith(_CONFIDENCE):
        raise ReplayError(
            f"{category!r} is no column of categories in {path}",
            where="--context",
            fix="name a column with each item's language, subject or the like",
        )


def _check_ids(path: Path, ids: tuple[str, ...], lines: list[int]) -> None:
    line_of: dict[str, int] = {}
    for line, item in zip(lines, ids, strict=True):
        if not item.strip():
            raise ReplayError(f"no {_ITEM_ID}", where=f"{path}, line {line}")
        if item in line_of:
            raise ReplayError(
                f"line {line_of[item]} has the same {_ITEM_ID} {_quoted(item)}",
                where=f"{path}, line {line}",
                fix="give each item a unique name",
            )
        line_of[item] = line


_NUMBER = re.compile(r"[+-]?\d{1,15}(\.0*)?", re.ASCII)


def _one_spelling(cells: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The cells with each label in one spelling: of Unicode, and of whole numbers.

    Pandas writes ``1.0`` for 1 in a column with blanks. It is ``1`` if some column says that, or if all
    labels are whole numbers.
    """
    cells = {
        name: tuple(unicodedata.normalize("NFC", cell) for cell in column) for name, column in cells.items()
    }
    said = {cell.strip() for column in cells.values() for cell in column} - {""}
    whole = {cell: str(int(float(cell))) for cell in said if _NUMBER.fullmatch(cell)}
    if len(whole) < len(said):
        whole = {cell: number for cell, number in whole.items() if number in said}
    plain = {cell: number for cell, number in whole.items() if "." in cell}
    return {name: tuple(plain.get(cell.strip(), cell) for cell in column) for name, column in cells.items()}


def _labels(path: Path, cells: dict[str, tuple[str, ...]], lines: list[int]) -> tuple[str, ...]:
    """Return the label set; blank cells are not labels."""
    places: dict[str, str] = {}
    for name, column in cells.items():
        for line, cell in zip(lines, column, strict=True):
            if cell not in places and cell.strip():
                places[cell] = f"{path}, line {line}, column {name!r}"
    if (alike := first_alike(places)) is not None:
        first, second = map(_quoted, alike)
        raise ReplayError(
            f"the labels {first} and {second} differ only in case or blanks", where=places[alike[1]]
        )
    return tuple(sorted(places))


def _confidences(
    path: Path, columns: Mapping[str, Sequence[str]], models: Sequence[str], lines: Sequence[int]
) -> Array | None:
    """Return the confidences, shape (n, K), NaN where a cell is blank; ``None`` without such columns."""
    named = {model: f"{_CONFIDENCE}{model}" for model in models if f"{_CONFIDENCE}{model}" in columns}
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
            f"{_quoted(cell)} is not a confidence",
            where=where,
            fix="give a number from 0 to 1, or leave it blank",
        )
    return confidence


def _quoted(cell: str) -> str:
    return repr(cell if len(cell) <= _SHOWN else cell[: _SHOWN - 1] + "…")


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a stream whose content replaces ``path`` when the block ends, or is dropped if it fails."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as stream:
            yield stream
        draft.replace(path)
    except OSError as error:
        raise ReplayError(f"cannot be written ({error.strerror})", where=str(path)) from error
    finally:
        draft.unlink(missing_ok=True)


def require_writable_file(path: Path, what: str) -> None:
    """Check that a file can be written, before hours of work."""
    if path.is_dir():
        raise ReplayError("is a folder, not a file", where=f"{what} {path}", fix="give the path of a file")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise ReplayError(
            "its folder is missing or cannot be written to",
            where=f"{what} {path}",
            fix="create the folder, or give another path",
        )


_PORTION = 256
"""Texts embedded between two progress updates."""


def read_embeddings(path: Path, table: VotesFile) -> Array:
    """Read a ``.npy`` file of embeddings as float64, shape (n, d); row i belongs to the table's item i."""
    try:
        contexts = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ReplayError(f"cannot be read ({error.strerror or error})", where=str(path)) from error
    except (ValueError, EOFError) as error:
        raise ReplayError("is not an array in NumPy's .npy format", where=str(path)) from error
    n = len(table.truth)
    if not isinstance(contexts, np.ndarray) or contexts.ndim != 2 or len(contexts) != n or not contexts.size:
        shape = getattr(contexts, "shape", "a file of several arrays")
        raise ReplayError(
            f"{shape} does not fit the {n} items of {table.path}: needs ({n}, d)", where=str(path)
        )
    if contexts.dtype.kind != "f":
        raise ReplayError(f"{contexts.dtype} is not a type of embeddings: needs floats", where=str(path))
    if not (finite := np.isfinite(contexts).all(axis=1)).all():
        row = int(np.argmin(finite))
        raise ReplayError(
            f"row {row} (of 0 to {n - 1}; line {table.lines[row]} of {table.path}) holds NaN or infinity",
            where=str(path),
        )
    return contexts.astype(np.float64)


def embed_texts(table: VotesFile, embedder: Embedder, advance: Advance) -> Array:
    """Return the texts' embeddings, shape (n, d), from the cache beside the table if it exists.

    The cache's name ends in a hash of the texts and the embedder, so a cache is never out of date.
    """
    texts = _texts(table)
    cache = _cache(table.path, texts, embedder)
    if cache.exists():
        return read_embeddings(cache, table)
    require_writable_file(cache, "the embeddings' cache")
    rows = []
    for start in range(0, len(texts), _PORTION):
        rows.append(embedder.embed(texts[start : start + _PORTION]))
        advance(len(rows[-1]))
    contexts = np.concatenate(rows)
    with atomic_write(cache) as stream:
        np.save(stream, contexts.astype(np.float32))  # lossless: the embedder returns float32
    return contexts


def _texts(table: VotesFile) -> Sequence[str]:
    if table.texts is None:
        raise ReplayError(
            f"no column {TEXT!r} to embed",
            where=str(table.path),
            fix="add it, give --embeddings FILE.npy, or replay --policy joint alone",
        )
    for line, text in zip(table.lines, table.texts, strict=True):
        if not text.strip():
            raise ReplayError(f"a blank {TEXT} cannot be embedded", where=f"{table.path}, line {line}")
    return table.texts


def _cache(path: Path, texts: Sequence[str], embedder: Embedder) -> Path:
    digest = hashlib.sha256(embedder.identity.encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8")).digest())
    return path.with_name(f"{path.stem}.{digest.hexdigest()[:16]}.npy")


_MOST = 5
"""The most labels that are listed; the others are counted."""


def oddities(table: VotesFile, k_mins: Iterable[int], *, ordered: bool = False) -> list[str]:
    """Describe labels that are probably typing errors or a scale, and a k_min that no set of models can have.

    ``ordered`` says that the labels are already read as a scale.
    """
    models = len(table.models)
    return [
        *_missing_values(table),
        *_odd_labels(table),
        *([] if ordered else _unread_scale(table)),
        *(
            f"k_min = {k_min} is more than the {models} models of the table: every model is always asked"
            for k_min in dict.fromkeys(k_mins)
            if k_min > models
        ),
    ]


def _unread_scale(table: VotesFile) -> list[str]:
    """Describe labels that look like a scale."""
    if not all(map(str.isdecimal, table.labels)) or not are_steps(sorted(table.labels, key=int)):
        return []
    return ["the labels look like a scale: if they are one, --ordered exact reads them as one"]


_MISSING = frozenset({"nan", "none", "null", "n/a", "na", "<na>", "nat"})
"""How programs spell a value that is missing, in lower case."""


def _missing_values(table: VotesFile) -> list[str]:
    """Describe labels that are rather missing values."""
    return [
        f"the label {_quoted(label)} reads as a missing value; leave such cells blank"
        for label in table.labels
        if label.strip().casefold() in _MISSING
    ]


def _odd_labels(table: VotesFile) -> list[str]:
    """Describe labels that only one column of the table names, which are often typing errors."""
    columns = {_TRUTH: table.truth, **dict(zip(table.models, table.votes.T, strict=True))}
    counts = {
        name: np.bincount(column[column >= 0], minlength=len(table.labels))
        for name, column in columns.items()
    }
    others = len(table.models) > 1 or bool(counts[_TRUTH].any())
    sentences = []
    for position, label in enumerate(table.labels):
        named = [name for name, count in counts.items() if count[position]]
        items = of(sum(int(counts[name][position]) for name in named), "item")
        if named == [_TRUTH]:
            sentences.append(
                f"no model ever names the truth {_quoted(label)} ({items}), so no policy can be right there"
            )
        elif len(named) == 1 and others:
            sentences.append(f"only {named[0]!r} names the label {_quoted(label)} ({items}); a typing error?")
    rest = len(sentences) - _MOST
    return [*sentences[:_MOST], *([f"{rest} more labels are named in one column only"] if rest > 0 else [])]


_Way: TypeAlias = Literal["random", "first", "lowest"]


@dataclass(frozen=True, slots=True)
class HumanLabels:
    """Which share of the replayed items with a known truth a human labels.

    ``random`` ones, the ``first`` ones, or those with the ``lowest`` scores so far, as in a review queue.
    """

    way: _Way = "random"
    share: float = 0.0

    @classmethod
    def parse(cls, option: str) -> HumanLabels:
        """Parse ``--human-labels``: a share such as 0.05, which means ``random:0.05``, or WAY:SHARE."""
        way, colon, share = option.rpartition(":")
        if colon and way not in get_args(_Way):
            raise ReplayError(
                f"{way!r} is no way to choose items",
                where="--human-labels",
                fix=f"known: {', '.join(f'{name}:SHARE' for name in get_args(_Way))}",
            )
        try:
            number = float(share)
        except ValueError:
            number = -1.0
        if not 0.0 <= number <= 1.0:
            raise ReplayError(
                f"{share!r} is not a share from 0 to 1", where="--human-labels", fix="give e.g. random:0.05"
            )
        return cls(way if colon else "random", number)  # type: ignore[arg-type]  # checked above


@dataclass(frozen=True, slots=True, eq=False)
class Shuffle:
    """The items of a run by their positions in the table, in order.

    A human labels those marked in ``human`` right after the decision, and the share ``reviewed`` of all from
    a review queue (:func:`camvo.replay`).
    """

    order: NDArray[np.int64]
    human: NDArray[np.bool_] | None = None
    reviewed: float = 0.0

    @classmethod
    def draw(
        cls,
        truth: NDArray[np.int64],
        seed: int,
        limit: int | None,
        human_labels: HumanLabels,
        *,
        in_order: bool = False,
    ) -> Shuffle:
        """Draw a random order of the items, and choose which of them have a human label."""
        order = (
            np.arange(len(truth)) if in_order else np.random.default_rng([seed, 0]).permutation(len(truth))
        )
        order = order[:limit]
        if not human_labels.share:
            return cls(order)
        if human_labels.way == "lowest":
            return cls(order, reviewed=human_labels.share)
        (known,) = np.nonzero(truth[order] >= 0)
        count = round(human_labels.share * len(known))
        if human_labels.way == "random":
            known = np.random.default_rng([seed, 1]).permutation(known)
        return cls(order, np.isin(np.arange(len(order)), known[:count]))


_OPTION = "--prices"

_KEY = "usd_per_million_input_tokens"
"""The key of the prices in a JSON file that describes more than the prices."""


def read_prices(
    option: str | None, models: Sequence[str], table: Path, *, has_truth: bool = True
) -> dict[str, float]:
    """Read the price of each model, in the order of ``models``.

    ``option`` is the value of ``--prices``; ``None`` for the JSON file beside the table. Without right labels
    in the table, a column without a price may hold them.
    """
    where, prices = _source(option, table)
    checked = {}
    for name, price in prices.items():
        if name not in models:
            raise ReplayError(
                f"{name!r} is not a model of {table}", where=where, fix=f"models: {', '.join(models)}"
            )
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0.0 <= price < math.inf:
            raise ReplayError(
                f"{price!r} is not a price in dollars", where=f"{where}, {name}", fix="give 0 or more"
            )
        checked[name] = float(price)
    for name in models:
        if name not in checked:
            fix = _missing_price(where, name)
            if not has_truth:
                fix += f", or rename the column to {_TRUTH!r} if it has the right labels"
            raise ReplayError(f"no price for the model {name!r} of {table}", where=where, fix=fix)
    return {name: checked[name] for name in models}


def _missing_price(where: str, name: str) -> str:
    """How to add the price of a model to those of the option or of a file."""
    if where == _OPTION and "," not in name:
        return f"add {name}=usd"
    pair = f"write {json.dumps(name, ensure_ascii=False)}: usd"
    return f"{pair} and the other prices into a JSON file" if where == _OPTION else pair


def _source(option: str | None, table: Path) -> tuple[str, dict[str, object]]:
    """Return the source of the prices, for errors, and its unchecked content."""
    if option is not None and "=" in option and not Path(option).exists():
        return _OPTION, _pairs(option)
    path = table.with_suffix(".json") if option is None else Path(option)
    return str(path), _file(path)


def _pairs(option: str) -> dict[str, object]:
    prices: dict[str, object] = {}
    for pair in option.split(","):
        name, equals, number = (part.strip() for part in pair.rpartition("="))
        if not (name and equals) or name in prices:
            raise ReplayError(
                f"{pair!r} is not one model=usd each",
                where=_OPTION,
                fix="give e.g. small=0.1,large=5, or a JSON file",
            )
        try:
            prices[name] = float(number)
        except ValueError as error:
            raise ReplayError(
                f"{number!r} is not a price in dollars", where=f"{_OPTION}, {name}", fix="give a number"
            ) from error
    return prices


def _file(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise ReplayError(
            f"no prices: cannot be read ({error.strerror})",
            where=str(path),
            fix="give --prices FILE.json or --prices name=usd,…",
        ) from error
    except ValueError as error:
        raise ReplayError("is not JSON in UTF-8", where=str(path), fix="correct the file") from error
    prices = content.get(_KEY, content) if isinstance(content, dict) else content
    if not isinstance(prices, dict):
        raise ReplayError(f'needs {{"model": usd, …}}, by itself or under "{_KEY}"', where=str(path))
    return prices
