"""The values of rows as tasks hold them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backend.datasets.sources import Row, open_source
from backend.datasets.tasks import Dataset, plain_label_config, task_data
from backend.errors import ConfigError, DatasetError


def refusal(folder: Path, row: Any, label_config: str | None = None, column: str = "text") -> str:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    label_config, renamed = label_config or plain_label_config(["A", "B"], column), {"text": column}
    with pytest.raises(DatasetError) as refused:
        list(Dataset(open_source(path), label_config, renamed=renamed).tasks())
    return str(refused.value)


def test_nan_and_infinities_are_missing() -> None:
    data = task_data(
        Row("row 1", {"a": float("nan"), "b": [float("inf"), 1.5]}), {"a": "a", "b": "b"}, "row 1"
    )
    assert data == {"a": None, "b": [None, 1.5]}


def test_bytes_that_are_no_text_are_refused_by_the_name_of_their_column() -> None:
    with pytest.raises(DatasetError, match="row 1: holds bytes in column 'a' that are not UTF-8"):
        task_data(Row("row 1", {"a": b"\xff"}), {"text": "a"}, "row 1")


def test_an_object_where_text_is_expected_names_how_to_reach_its_keys(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"text": {"en": "a", "de": "b"}})
    assert "has an object in column 'text'" in said
    assert "--text-column text.en" in said


def test_a_path_below_a_column_reaches_a_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": {"en": "a"}}\n')
    config = plain_label_config(["A", "B"], "text.en")
    [task] = Dataset(open_source(path), config, renamed={"text": "text.en"}).tasks()
    assert task.data == {"text": "a"}


def test_a_list_where_text_is_expected_is_named(tmp_path: Path) -> None:
    assert "holds a list here" in refusal(tmp_path, {"text": ["a"]})


def test_a_missing_column_names_those_that_there_are(tmp_path: Path) -> None:
    assert "its columns are 'texte'" in refusal(tmp_path, {"texte": "a"})


def test_a_column_that_only_a_later_row_lacks_is_not_called_misnamed(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n{"note": "b"}\n')
    with pytest.raises(DatasetError) as refused:
        list(Dataset(open_source(path), plain_label_config(["A", "B"], "text")).tasks())
    said = str(refused.value)
    assert "line 2" in said
    assert 'earlier rows have it, so write "" for a blank text' in said
    assert "name one of them" not in said


def test_a_dialogue_without_the_key_of_its_words_names_the_keys_that_it_has(tmp_path: Path) -> None:
    config = (
        '<View><Paragraphs name="d" value="$text" layout="dialogue"/>'
        '<Choices name="c" toName="d"><Choice value="A"/><Choice value="B"/></Choices></View>'
    )
    said = refusal(tmp_path, {"text": [{"role": "user", "content": "hello"}]}, config)
    assert "no entry of the dialogue has the key 'text'; its keys are 'content', 'role'" in said
    assert "set textKey" in said


@pytest.mark.parametrize(
    ("labels", "said"), [(["Glad"], "fewer than two labels"), (["Glad", "Sad", "Glad"], "'Glad' twice")]
)
def test_labels_that_make_no_question_are_refused_by_what_is_wrong(labels: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plain_label_config(labels, "text")
