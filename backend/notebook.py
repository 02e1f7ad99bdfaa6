"""``camvo label`` for notebooks: takes a DataFrame of pandas or polars, and gives it back with the labels.

::

    from backend.notebook import label

    labelled = label(reviews, labels=["Positive", "Negative"], text_column="review", budget=5)
    labelled[["review", "camvo_label", "camvo_score"]]

It needs the extra ``[notebook]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
from narwhals.typing import IntoDataFrameT
from rich.console import Console

from backend.commands.label.run import run_label
from backend.commands.shared.arguments import listed, quiet_environment
from backend.commands.shared.options import LabelOptions
from backend.datasets.sinks import Kinds, Result, typed
from backend.datasets.sources import Row
from backend.datasets.tasks import Columns
from backend.errors import DatasetError
from camvo.votes.labels import ErrorName


def label(
    frame: IntoDataFrameT,
    *,
    labels: Sequence[str] | str = (),
    text_column: str | None = None,
    ordered: ErrorName | None = None,
    label_config: str | Path | None = None,
    config: str | Path | None = None,
    id_column: str | None = None,
    name: str = "notebook",
    blind: int = 0,
    budget: float | None = None,
    yes: bool = False,
    pilot: int = 0,
    sample: int = 0,
    retry_failed: bool = False,
    no_wait: bool = False,
    below: float = 0.0,
) -> IntoDataFrameT:
    """Label a DataFrame. Calls models, which costs money; what the ledger knows is not bought again."""
    if isinstance(label_config, Path):
        label_config = label_config.read_text("utf-8")
    options = LabelOptions(
        label_config=label_config,
        labels=listed(labels) if isinstance(labels, str) else labels,
        text_column=text_column,
        ordered=ordered,
        id_column=id_column,
        name=name,
        blind=blind,
        budget=budget,
        yes=yes,
        pilot=pilot,
        sample=sample,
        retry_failed=retry_failed,
        no_wait=no_wait,
        below=below,
    )
    try:
        table = nw.from_native(frame, eager_only=True)
    except (TypeError, nw.exceptions.DuplicateError) as error:
        raise DatasetError(
            "is no DataFrame of pandas or polars with a name for each column",
            where="frame",
            fix="give a DataFrame, such as series.to_frame(), and name no column twice",
        ) from error
    environment = quiet_environment(None if config is None else Path(config))
    console, added = Console(), _AddedColumns()
    tally = run_label(_Rows(table), options, environment, console, added.take)
    console.print(tally.summary(), highlight=False, markup=False)
    labelled: IntoDataFrameT = added.beside(table).to_native()
    return labelled


@dataclass(frozen=True, slots=True)
class _Rows:
    """A DataFrame as a source."""

    table: nw.DataFrame[Any]

    @property
    def path(self) -> Path:
        """What errors call it."""
        return Path("the DataFrame")

    def rows(self) -> Iterator[Row]:
        """Read the rows; missing values are ``None``, whatever the library has for them."""
        missing = self.table.select(nw.all().is_null()).iter_rows()
        for number, (values, gaps) in enumerate(
            zip(self.table.iter_rows(named=True), missing, strict=True), 1
        ):
            known = zip(values.items(), gaps, strict=True)
            yield Row(
                f"row {number}", {name: None if gap else _without_nan(value) for (name, value), gap in known}
            )


def _without_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


class _AddedColumns:
    """Gathers the columns that CaMVo adds."""

    def __init__(self) -> None:
        self._kinds: Kinds = {}
        self._values: dict[str, list[Any]] = {}

    def take(self, results: Iterator[Result], _: Columns, added: Kinds) -> None:
        """Gather the results of all rows."""
        self._kinds, self._values = added, {name: [] for name in added}
        for result in results:
            for name, kind in added.items():
                self._values[name].append(typed(result.added[name], kind))

    def beside(self, table: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
        """The table with these columns."""
        return table.with_columns(
            _series(name, kind, self._values[name], table.implementation)
            for name, kind in self._kinds.items()
        )


_TYPES: dict[type, Any] = {bool: nw.Boolean, int: nw.Int64, float: nw.Float64, str: nw.String}

_NULLABLE = {bool: "boolean", int: "Int64"}
"""The types of pandas for booleans and integers that may be missing, which those of NumPy may not."""


def _series(name: str, kind: type, values: list[Any], backend: Any) -> nw.Series[Any]:
    if backend.is_pandas_like() and kind in _NULLABLE and None in values:
        native = backend.to_native_namespace().Series(values, dtype=_NULLABLE[kind])
        series: nw.Series[Any] = nw.from_native(native, series_only=True).alias(name)
        return series
    return nw.new_series(name, values, _TYPES[kind], backend=backend)
