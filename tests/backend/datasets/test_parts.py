"""Parts: consecutive rows that together are the dataset, each with what it must know of the others."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.datasets.sources import ParquetRows
from backend.datasets.tasks import Columns, Dataset, Index, Part, PartTasks, plain_label_config

CONFIG = plain_label_config(["Glad", "Sad"], "text")


@given(rows=st.integers(1, 1_000_000))
def test_parts_have_some_hundred_to_ten_thousand_rows(rows: int) -> None:
    parts = list(Part.every(rows, iter(()) if rows > 10_000 else [True] * rows))
    size = parts[1].start if len(parts) > 1 else max(rows, 100)
    assert [part.start for part in parts] == list(range(0, rows, size))
    assert parts[-1].stop == rows
    assert 100 <= size <= 10_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """250 rows in row groups of 40, every third of which repeats the text of row 0, 1 or 2."""
    path = tmp_path_factory.mktemp("parts") / "in.parquet"
    texts = [f"text {row if row % 3 else row % 9}" for row in range(250)]
    pyarrow.parquet.write_table(pyarrow.table({"text": texts}), path, row_group_size=40)
    return path


def test_the_parts_of_a_file_together_are_the_file(table: Path) -> None:
    dataset = Dataset(ParquetRows(table), CONFIG)
    with Index(dataset) as index:
        index.build()
        whole = [(task.row, first) for task, first in zip(dataset.tasks(), index.is_first(), strict=True)]
        parts = list(Part.every(index.rows, index.is_first()))
    assert len(parts) == 3
    found = []
    for part in parts:
        tasks = PartTasks(dataset, part, Columns())
        found += [(task.row, first) for task, first in zip(tasks.every_row(), tasks.is_first(), strict=True)]
        assert tasks.tasks == len({task.number for task in tasks.every_row()}) == len([*tasks.first_rows()])
    assert found == whole


@pytest.mark.parametrize("start", [0, 1, 39, 40, 41, 249, 250])
def test_parquet_is_read_from_any_row(table: Path, start: int) -> None:
    source = ParquetRows(table)
    assert list(source.rows_from(start)) == list(source.rows())[start:]


def test_only_parts_that_a_larger_run_left_are_stale() -> None:
    names = ["part-00000.parquet", "part-00007.parquet", "mine.parquet", "part-1.parquet"]
    assert Part.stale(names, 3) == ["part-00007.parquet"]
