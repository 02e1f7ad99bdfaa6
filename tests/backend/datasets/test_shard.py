"""Shards: every task is in exactly one, wherever and in whatever order its rows stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.datasets.sources import Row
from backend.datasets.tasks import Dataset, Index, Shard, plain_label_config
from backend.errors import ConfigError, DatasetError

CONFIG = plain_label_config(["Glad", "Sad"], "text")


@dataclass
class Texts:
    """Rows in memory."""

    texts: Sequence[str]
    ids: Sequence[str] = ()
    path: Path = Path("made up")

    def rows(self) -> Iterator[Row]:
        for number, text in enumerate(self.texts):
            yield Row(f"row {number + 1}", {"text": text}, self.ids[number] if self.ids else None)


def shards_of(texts: Sequence[str], of: int) -> list[Index]:
    indexes = [Index(Dataset(Texts(texts), CONFIG, shard=Shard(number + 1, of))) for number in range(of)]
    for index in indexes:
        index.build()
    return indexes


@given(texts=st.lists(st.text("abc", min_size=1, max_size=2), min_size=1, max_size=30), of=st.integers(1, 5))
def test_the_shards_together_are_exactly_the_whole(texts: list[str], of: int) -> None:
    indexes = shards_of(texts, of)
    rows = Counter(task.data["text"] for index in indexes for task in index.every_row())
    firsts = [task.data["text"] for index in indexes for task in index.first_rows()]
    assert rows == Counter(texts)
    assert sorted(firsts) == sorted(set(texts))
    assert sum(index.rows for index in indexes) == len(texts)
    assert sum(sum(index.is_first()) for index in indexes) == len(set(texts))


@given(texts=st.lists(st.text("abc", min_size=1, max_size=2), min_size=1), of=st.integers(1, 5))
def test_each_shard_knows_how_many_tasks_there_are_in_all(texts: list[str], of: int) -> None:
    assert {index.tasks_in_all for index in shards_of(texts, of)} == {len(set(texts))}


def test_an_id_that_rows_of_two_shards_have_is_refused_by_both() -> None:
    texts = ["first", "second", "third", "fourth"]
    for number in (1, 2):
        source = Texts(texts, ids=["same", "other", "another", "same"])
        with (
            Index(Dataset(source, CONFIG, shard=Shard(number, 2))) as index,
            pytest.raises(DatasetError, match="row 4 has the same id as row 1"),
        ):
            index.build()


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "1/0", "-1/4", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no shard"):
        Shard.parse(text)


def test_a_shard_is_counted_from_one() -> None:
    assert [Shard.parse(f"{number}/2").holds(8) for number in (1, 2)] == [True, False]
