"""The columns that ``camvo label`` adds: every output has the names and the types that are declared."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from labelling import LabelFolder, always

from backend.commands.label.columns import _COLUMNS, _AddedColumn, added_kinds
from backend.notebook import label
from backend.questions import parse_label_config

DOCS = Path(__file__).parents[3] / "docs" / "label.md"
WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}
IN_PARQUET = {
    str: pyarrow.string(),
    int: pyarrow.int64(),
    float: pyarrow.float64(),
    bool: pyarrow.bool_(),
}
IN_PANDAS = {str: "str", int: "Int64", float: "float64", bool: "bool"}
TWO = """<View><Text name="t" value="$text"/>
<Choices name="mood" toName="t"><Choice value="Glad"/><Choice value="Sad"/></Choices>
<Choices name="topic" toName="t"><Choice value="Art"/><Choice value="Law"/></Choices></View>"""
VOTERS = _AddedColumn("voters", int, "how many voted", of_round=lambda round_: len(round_.votes))
KINDS = {
    "camvo_id": str,
    "camvo_label": str,
    "camvo_score": float,
    "camvo_likely": str,
    "camvo_votes": str,
    "camvo_incomplete": str,
    "camvo_human": str,
    "camvo_cost_usd": float,
    "camvo_blind": bool,
    "camvo_error": str,
    "camvo_voters": int,
}


@pytest.fixture(autouse=True)
def one_more_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of whole numbers, which is added by its declaration alone."""
    monkeypatch.setattr("backend.commands.label.columns._COLUMNS", (*_COLUMNS, VOTERS))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LabelFolder]:
    """A text that is labelled, and one that cannot be."""
    with LabelFolder(tmp_path, always("Glad")) as folder:
        folder.table("lovely", '" "')
        yield folder


def test_a_csv_file_has_the_declared_columns_in_their_order(folder: LabelFolder) -> None:
    folder.label()
    with (folder.path / "out.csv").open(newline="") as file:
        assert next(csv.reader(file)) == ["text", *KINDS]
    assert [row["camvo_voters"] for row in folder.rows()] == ["2", ""]


def test_json_lines_keep_every_value_as_it_is(folder: LabelFolder) -> None:
    folder.label(out="out.jsonl")
    labelled, failed = map(json.loads, (folder.path / "out.jsonl").read_text("utf-8").splitlines())
    assert list(labelled) == list(failed) == ["text", *KINDS]
    assert labelled["camvo_votes"] == {"red": "Glad", "green": "Glad"}
    assert (labelled["camvo_voters"], failed["camvo_voters"]) == (2, None)


def test_each_column_of_parquet_has_the_declared_type(folder: LabelFolder) -> None:
    folder.label(out="out.parquet")
    table = pyarrow.parquet.read_table(folder.path / "out.parquet")
    types = {name: table.schema.field(name).type for name in table.column_names}
    assert types == {"text": pyarrow.string(), **{name: IN_PARQUET[kind] for name, kind in KINDS.items()}}
    assert table["camvo_voters"].to_pylist() == [2, None]


def test_a_parquet_file_without_a_row_of_its_own_label_has_the_same_types(folder: LabelFolder) -> None:
    folder.table('" "')
    folder.label(out="out.parquet")
    schema = pyarrow.parquet.read_schema(folder.path / "out.parquet")
    assert {name: schema.field(name).type for name in KINDS} == {
        name: IN_PARQUET[kind] for name, kind in KINDS.items()
    }


@pytest.mark.parametrize("texts", [["lovely", "fine"], ["lovely", None], [None]])
def test_each_column_of_a_data_frame_has_the_declared_type(
    texts: list[str | None], folder: LabelFolder
) -> None:
    labelled = label(
        pd.DataFrame({"text": texts}),
        labels=["Glad", "Sad"],
        text_column="text",
        config=folder.environment.config,
    )
    types = {name: str(labelled[name].dtype).replace("int64", "Int64") for name in labelled.columns[1:]}
    assert types == {name: IN_PANDAS[kind] for name, kind in KINDS.items()}


def test_each_control_has_columns_of_its_own() -> None:
    assert list(added_kinds(parse_label_config(TWO))) == [
        "camvo_id",
        *(f"camvo_{name}_mood" for name in ("label", "score", "likely", "votes", "incomplete", "human")),
        *(f"camvo_{name}_topic" for name in ("label", "score", "likely", "votes", "incomplete", "human")),
        *("camvo_cost_usd", "camvo_blind", "camvo_error"),
        *("camvo_voters_mood", "camvo_voters_topic"),
    ]


def test_every_column_is_filled_in_one_way() -> None:
    assert all((column.of_row is None) != (column.of_round is None) for column in _COLUMNS)


def test_the_documented_columns_are_the_declared_ones() -> None:
    rows = [f"| `camvo_{column.name}` | {WORDS[column.kind]} | {column.meaning} |" for column in _COLUMNS]
    table = "\n".join(["| column | type | content |", "|---|---|---|", *rows])
    assert f"\n\n{table}\n\n" in DOCS.read_text("utf-8")


def test_a_file_with_columns_of_an_earlier_run_is_labelled_with_a_word_about_what_is_replaced(
    tmp_path: Path,
) -> None:
    with LabelFolder(tmp_path, always("Glad")) as folder:
        folder.write("in.csv", "text,camvo_label,camvo_note\nlovely,Sad,mine\n")
        folder.label()
        [row] = folder.rows()
        said = folder.console.file.getvalue()  # type: ignore[attr-defined]
    assert (row["camvo_label"], row["camvo_note"]) == ("Glad", "mine")
    assert "in.csv has camvo_label already" in said
    assert "camvo_note" not in said


def test_columns_of_parquet_keep_their_types_and_values_in_parquet(tmp_path: Path) -> None:
    source = pyarrow.table(
        {
            "text": pyarrow.array(["lovely", "gloomy"], pyarrow.large_string()),
            "small": pyarrow.array([1, None], pyarrow.int8()),
            "price": pyarrow.array([Decimal("1.20"), None], pyarrow.decimal128(10, 2)),
            "day": pyarrow.array([date(2026, 1, 2), None]),
            "at": pyarrow.array([1577836800123456789, None], pyarrow.timestamp("ns", "UTC")),
            "raw": pyarrow.array([b"\xff\x00", b"caf\xc3\xa9"]),
            "kind": pyarrow.array(["a", "b"]).dictionary_encode(),
            "of": pyarrow.array([{"n": 1, "raw": [b"x"]}, None]),
            "map": pyarrow.array([[("k", 1)], None], pyarrow.map_(pyarrow.string(), pyarrow.int32())),
            "none": pyarrow.array([None, None]),
            "camvo_cost_usd": pyarrow.array(["replaced", None]),
        }
    )
    with LabelFolder(tmp_path, always("Glad")) as folder:
        pyarrow.parquet.write_table(source, tmp_path / "in.parquet")
        source = pyarrow.parquet.read_table(tmp_path / "in.parquet")
        folder.label("in.parquet", out="out.parquet")
        written = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    own = source.drop_columns("camvo_cost_usd")
    assert written.select(own.column_names).equals(own)
    assert written.schema.field("camvo_cost_usd").type == pyarrow.float64()
