"""Sources of rows: every format gives the same rows, and a mistake names its line."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.datasets.sinks import Result, open_sink
from backend.datasets.sources import open_source
from backend.datasets.tasks import Columns
from backend.errors import DatasetError

ROWS = [{"text": 'a "b", c\nd', "n": "1"}, {"text": "é ü 漢", "n": "2"}]


def as_csv(folder: Path) -> Path:
    path = folder / "rows.csv"
    path.write_text('text,n\n"a ""b"", c\nd",1\né ü 漢,2\n', "utf-8")
    return path


def as_json_lines(folder: Path) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("\n\n".join(json.dumps(row) for row in ROWS), "utf-8")
    return path


def as_plain_json(folder: Path) -> Path:
    path = folder / "rows.json"
    path.write_text(json.dumps(ROWS, indent=1), "utf-8")
    return path


def as_tasks(folder: Path) -> Path:
    path = folder / "tasks.json"
    path.write_text(json.dumps([{"id": 3 + n, "data": row} for n, row in enumerate(ROWS)]), "utf-8")
    return path


def as_parquet(folder: Path) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    path = folder / "rows.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(ROWS), path)
    return path


@pytest.mark.parametrize("written", [as_csv, as_json_lines, as_plain_json, as_tasks, as_parquet])
def test_every_format_gives_the_same_rows(tmp_path: Path, written: Callable[[Path], Path]) -> None:
    assert [dict(row.data) for row in open_source(written(tmp_path)).rows()] == ROWS


def test_a_source_can_be_read_twice(tmp_path: Path) -> None:
    source = open_source(as_csv(tmp_path))
    assert list(source.rows()) == list(source.rows())


def test_label_studios_tasks_bring_their_ids(tmp_path: Path) -> None:
    assert [row.id for row in open_source(as_tasks(tmp_path)).rows()] == ["3", "4"]


def test_a_row_of_csv_stands_where_it_begins_although_cells_have_several_lines(tmp_path: Path) -> None:
    assert [row.place for row in open_source(as_csv(tmp_path)).rows()] == ["line 2", "line 4"]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_separator_of_csv_is_found(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f'"a,b;c"{separator}d\n1{separator}2\n', "utf-8-sig")
    [row] = open_source(path).rows()
    assert dict(row.data) == {"a,b;c": "1", "d": "2"}


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.csv", b"text,n\nx,1\ny\n", "line 3"),
        ("a.csv", b"text,text\nx,1\n", "line 1"),
        ("a.csv", b"", "line 1"),
        ("a.csv", b"text\nx\n\xff\xfe\n", "line 3"),
        ("a.csv", b'text\nx\n"y" z\n', "line 3"),
        ("a.jsonl", b'{"text": "x"}\n{"text"\n', "line 2"),
        ("a.jsonl", b"[1]\n", "line 1"),
        ("a.json", b'{"text": "x"}', "a.json"),
        ("a.json", b'[{"text": "x"}, {"te', "task 2"),
        ("a.json", b"[1]", "task 1"),
        ("a.txt", b"x", "a.txt"),
    ],
)
def test_a_mistake_in_a_file_names_its_place(tmp_path: Path, name: str, content: bytes, place: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DatasetError) as refused:
        list(open_source(path).rows())
    assert place in str(refused.value.where)


def test_a_parquet_file_that_is_none_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    path.write_bytes(b"no parquet at all")
    with pytest.raises(DatasetError, match="is not Parquet"):
        list(open_source(path).rows())


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no such file"):
        open_source(tmp_path / "a.csv")


texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@given(rows=st.lists(st.fixed_dictionaries({"a": texts, "b": texts}), min_size=1, max_size=5))
def test_what_a_sink_writes_a_source_reads(
    tmp_path_factory: pytest.TempPathFactory, ending: str, rows: list[dict[str, str]]
) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    path, columns = tmp_path_factory.mktemp("rows") / f"rows.{ending}", Columns()
    for row in rows:
        columns.add(row)
    with open_sink(path, columns, {"camvo_label": str, "camvo_blind": bool}) as write:
        for row in rows:
            write(Result(row, {"camvo_label": "x", "camvo_blind": False}, {}, []))
    read = [dict(row.data) for row in open_source(path).rows()]
    assert [{"a": row["a"], "b": row["b"]} for row in read] == rows
    assert {row["camvo_label"] for row in read} == {"x"}


def test_a_sink_that_fails_leaves_the_file_of_before(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("before")
    with pytest.raises(TypeError), open_sink(path, Columns(), {}) as write:
        write(Result({("a", "b"): 1}, {}, {}, []))  # type: ignore[dict-item]  # no JSON key
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]


def test_columns_of_parquet_keep_their_type(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path, columns, row = tmp_path / "rows.parquet", Columns(), {"n": 3, "x": 0.5, "yes": True, "list": [1]}
    columns.add(row)
    with open_sink(path, columns, {"camvo_score": float}) as write:
        write(Result(row, {"camvo_score": None}, {}, []))
    [read] = open_source(path).rows()
    assert dict(read.data) == {**row, "list": "[1]", "camvo_score": None}


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv"])
def test_missing_numbers_are_null_in_json(tmp_path: Path, ending: str) -> None:
    path, columns, row = tmp_path / f"rows.{ending}", Columns(), {"n": {"x": [float("nan"), 1.5]}}
    columns.add(row)
    with open_sink(path, columns, {}) as write:
        write(Result(row, {}, {}, []))
    written = path.read_text().replace('""', '"')
    assert '{"x": [null, 1.5]}' in written


def test_label_studios_format_without_a_task_is_an_empty_array(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    with open_sink(path, Columns(), {}):
        pass
    assert json.loads(path.read_text()) == []


def test_a_column_without_a_name_is_called_by_its_position(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(",text,,\n0,hello,,\n")
    assert [dict(row.data) for row in open_source(path).rows()] == [{"column 1": "0", "text": "hello"}]


def test_an_id_of_twenty_digits_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"text": "x", "id": 12345678901234567890, "score": 0.5}]')
    assert [dict(row.data) for row in open_source(path).rows()] == [
        {"text": "x", "id": 12345678901234567890, "score": 0.5}
    ]


def test_an_integer_beyond_64_bits_is_text_in_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path, columns, row = tmp_path / "rows.parquet", Columns(), {"n": 2**70}
    columns.add(row)
    with open_sink(path, columns, {}) as write:
        write(Result(row, {}, {}, []))
    assert [row.data["n"] for row in open_source(path).rows()] == [str(2**70)]


WITHOUT_PANDAS = """
import sys

class NoPandas:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoPandas())
from pathlib import Path
from backend.datasets.sources import open_source
list(open_source(Path(sys.argv[1])).rows())
"""


def test_times_in_nanoseconds_are_named_where_pandas_is_missing(tmp_path: Path) -> None:
    pyarrow, path = pytest.importorskip("pyarrow"), tmp_path / "rows.parquet"
    table = pyarrow.table({"at": pyarrow.array([1577836800123456789], pyarrow.timestamp("ns"))})
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    command = [sys.executable, "-c", WITHOUT_PANDAS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert "has times in nanoseconds" in done.stderr


def test_two_columns_of_parquet_with_one_name_are_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "rows.parquet"
    table = pyarrow.Table.from_arrays([pyarrow.array(["a"]), pyarrow.array(["b"])], ["text", "text"])
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    with pytest.raises(DatasetError, match="has two columns 'text'"):
        list(open_source(path).rows())


def test_bytes_of_parquet_are_text_if_they_are_utf_8(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "rows.parquet"
    table = pyarrow.table({"text": pyarrow.array(["café".encode(), b"\xff\x00"], pyarrow.binary())})
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    assert [row.data["text"] for row in open_source(path).rows()] == ["café", b"\xff\x00"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_bytes_are_written_as_text_or_in_base64(tmp_path: Path, ending: str) -> None:
    row = {"raw": b"\xff\x00", "list": [b"caf\xc3\xa9"]}
    columns, path = Columns(), tmp_path / f"out.{ending}"
    columns.add(row)
    with open_sink(path, columns, {}) as write:
        write(Result(row, {}, {}, []))
    [written] = [row.data for row in open_source(path).rows()]
    assert written["raw"] == "/wA="
    assert written["list"] in (["café"], '["café"]')


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv"])
def test_a_byte_that_is_not_utf_8_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows = ['{"text": "a"}', '{"text": "caf\xe9"}']
    text = {"a.json": f"[{rows[0]},\n{rows[1]}]", "a.csv": "text\ncaf\xe9\n"}.get(name, "\n".join(rows))
    path.write_bytes(text.encode("cp1252"))
    with pytest.raises(DatasetError, match="0xE9") as refused:
        list(open_source(path).rows())
    assert str(refused.value.where).endswith("line 2")
    assert "iconv" in str(refused.value.fix)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_the_cure_of_json_in_utf_16_converts_from_utf_16(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes('[{"text": "café"},\n{}]'.encode("utf-16"))
    with pytest.raises(DatasetError) as refused:
        list(open_source(tmp_path / name).rows())
    assert "iconv -f UTF-16 -t UTF-8" in str(refused.value.fix)


@pytest.mark.parametrize(
    ("name", "first", "cure"),
    [("a.csv.gz", b"\x1f\x8b\x08", "gunzip"), ("a.xlsx", b"PK\x03\x04", "CSV UTF-8")],
)
def test_an_unknown_ending_of_a_known_format_gets_the_cure_of_that_format(
    tmp_path: Path, name: str, first: bytes, cure: str
) -> None:
    (tmp_path / name).write_bytes(first)
    with pytest.raises(DatasetError) as refused:
        open_source(tmp_path / name)
    assert cure in str(refused.value.fix)
    assert "ending" not in refused.value.message


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_lone_surrogate_is_written_as_a_question_mark(tmp_path: Path, ending: str) -> None:
    row = {"text": "half \ud800", "list": ["\udfff"]}
    columns, path = Columns(), tmp_path / f"out.{ending}"
    columns.add(row)
    with open_sink(path, columns, {}) as write:
        write(Result(row, {}, {}, []))
    [written] = [row.data for row in open_source(path).rows()]
    assert written == {"text": "half ?", "list": '["?"]'}


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.tsv"])
def test_a_compressed_file_is_called_so(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"text"))
    with pytest.raises(DatasetError, match="compressed"):
        list(open_source(tmp_path / name).rows())
