"""The index of a dataset: tasks of equal content are one, in the order of the rows, for any memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.datasets.sources import Row
from backend.datasets.tasks import Dataset, Index, content_number, plain_label_config, task_name, task_number
from backend.errors import DatasetError, DiskFullError

CONFIG = plain_label_config(["Glad", "Sad"], "text")


@dataclass
class Texts:
    """Rows in memory."""

    texts: Sequence[str]
    path: Path = Path("made up")

    def rows(self) -> Iterator[Row]:
        for number, text in enumerate(self.texts, start=1):
            yield Row(f"row {number}", {"text": text, "number": number})


many_texts = st.lists(st.sampled_from("abcde"), min_size=1, max_size=30)


@given(texts=many_texts)
def test_each_text_is_one_task_from_the_first_of_its_rows(texts: list[str]) -> None:
    with Index(Dataset(Texts(texts), CONFIG)) as index:
        index.build()
        assert [task.data["text"] for task in index.first_rows()] == list(dict.fromkeys(texts))
        assert (index.rows, index.tasks) == (len(texts), len(set(texts)))


@given(texts=many_texts)
def test_a_row_is_the_first_of_its_text_once(texts: list[str]) -> None:
    with Index(Dataset(Texts(texts), CONFIG)) as index:
        index.build()
        assert list(index.is_first()) == [text not in texts[:place] for place, text in enumerate(texts)]


@given(
    texts=st.lists(st.text("ab", min_size=1, max_size=6), min_size=1, unique=True), count=st.integers(1, 5)
)
def test_a_sample_is_that_of_the_smallest_draws(texts: list[str], count: int) -> None:
    with Index(Dataset(Texts(texts), CONFIG)) as index:
        index.build()
        draws = sorted(content_number({"text": text}) ^ 5 for text in texts)
        assert index.smallest(lambda number: number ^ 5, count) == draws[:count]


def test_columns_that_no_question_reads_make_no_other_task() -> None:
    with Index(Dataset(Texts(["same", "same"]), CONFIG)) as index:
        index.build()
        assert index.tasks == 1
        assert index.columns.names == ["text", "number"]


def test_a_source_that_changes_between_two_readings_is_noticed() -> None:
    source = Texts(["a", "b"])
    with Index(Dataset(source, CONFIG)) as index:
        index.build()
        source.texts = ["b", "a"]
        with pytest.raises(DatasetError, match="has changed"):
            list(index.first_rows())


def test_a_full_disk_of_temporary_files_is_named() -> None:
    with Index(Dataset(Texts([f"text {number}" for number in range(1000)]), CONFIG)) as index:
        index._database.execute("PRAGMA max_page_count=2")
        with pytest.raises(DiskFullError, match="the disk is full"):
            index.build()


def test_a_source_that_becomes_shorter_is_noticed() -> None:
    source = Texts(["a", "b"])
    with Index(Dataset(source, CONFIG)) as index:
        index.build()
        source.texts = ["a"]
        with pytest.raises(DatasetError, match="has changed"):
            list(index.first_rows())


@given(number=st.integers(0, 2**63 - 1))
def test_the_name_of_a_task_is_its_number(number: int) -> None:
    assert task_number(task_name(number)) == number


@pytest.mark.parametrize("name", ["", "12", "t12", "t000000000000000g", "7ae3c06bdc38a278"])
def test_other_texts_are_no_names_of_tasks(name: str) -> None:
    assert task_number(name) is None


def test_ctrl_c_amid_a_draw_ends_it_as_such() -> None:
    def draw(number: int) -> int:
        raise KeyboardInterrupt

    with Index(Dataset(Texts(["one", "two"]), CONFIG)) as index:
        index.build()
        with pytest.raises(KeyboardInterrupt):
            index.smallest(draw, 1)
