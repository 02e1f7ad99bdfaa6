"""Tables as spreadsheets, pandas and people write them."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.datasets.sources import CsvError, csv_records

PROSE = st.text("abc \n,;\t\"'é", max_size=12)


def cells(folder: Path, content: str | bytes, name: str = "a.csv") -> list[list[str]]:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [record.cells for record in csv_records(path)]


def refusal(folder: Path, content: str | bytes, name: str = "a.csv") -> CsvError:
    with pytest.raises(CsvError) as refused:
        cells(folder, content, name)
    return refused.value


def test_quotes_in_a_text_with_tabs_are_characters_where_they_would_join_rows(tmp_path: Path) -> None:
    rows = cells(tmp_path, 'id\ttext\n1\t"Great start\n2\tmiddle\n3\tends with quote"\n', "a.tsv")
    assert rows[1:] == [["1", '"Great start'], ["2", "middle"], ["3", 'ends with quote"']]


def test_one_quote_in_a_text_with_tabs_is_a_character(tmp_path: Path) -> None:
    assert cells(tmp_path, 'id\ttext\n1\t"x\n2\ty\n', "a.tsv")[1:] == [["1", '"x'], ["2", "y"]]


def test_quotes_around_cells_with_tabs_and_line_ends_are_those_of_csv(tmp_path: Path) -> None:
    assert cells(tmp_path, 'id\ttext\n1\t"a\nb ""c"" d"\n', "a.tsv")[1:] == [["1", 'a\nb "c" d']]


@pytest.mark.parametrize(
    "content",
    [
        'id,text\n0,x\n1,"Great start\n2,middle\n3,ends with quote"\n4,y\n',
        'text,id\nx,0\n"Great start,1\nmiddle,2\nends with quote",3\n',
        'id,text,label\na,x,pos\nb,"y,neg\nc,z",neg\n',
    ],
)
def test_a_quote_that_joins_rows_of_commas_is_refused_with_the_line_where_it_opens(
    tmp_path: Path, content: str
) -> None:
    assert refusal(tmp_path, content).line == 3


def test_a_quote_that_is_never_closed_is_refused_with_the_line_where_it_opens(tmp_path: Path) -> None:
    wrong = refusal(tmp_path, 'id,text\n1,x\n2,"y\n3,z\n')
    assert (wrong.line, wrong.message) == (3, "has a quote that is never closed")


@pytest.mark.parametrize(
    "text",
    [
        "Dear all,\nthanks, really",
        "one, two\nthree",
        "a\nb\nc",
        "1,\n2",
        "x\n7, that many\ny",
        "How many yards?\nA. 9,750 yards\nB. 19,500 yards",
        "How many came?\n12,000 people",
    ],
)
@pytest.mark.parametrize("id_", ["1", "question_0305"])
def test_prose_of_several_lines_is_one_cell(tmp_path: Path, text: str, id_: str) -> None:
    assert cells(tmp_path, f'id,text\n{id_},"{text}"\n2,y\n')[1:] == [[id_, text], ["2", "y"]]


@given(rows=st.lists(st.tuples(st.integers(0, 99).map(str), PROSE, st.sampled_from("xy")), max_size=5))
def test_what_pythons_csv_writes_is_read_back_unless_it_looks_like_joined_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    stream = io.StringIO()
    csv.writer(stream).writerows([("id", "text", "label"), *rows])
    try:
        read = cells(tmp_path_factory.mktemp("csv"), stream.getvalue())[1:]
        refused = ""
    except CsvError as error:
        read, refused = [], error.message
    assert (read, refused) in (
        ([list(row) for row in rows], ""),
        ([], "has a cell that swallows the rows after it"),
    )


def test_excels_line_with_the_separator_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfsep=;\r\nid;text\r\n1;a, b\r\n")
    assert [(record.line, record.cells) for record in csv_records(path)] == [
        (2, ["id", "text"]),
        (3, ["1", "a, b"]),
    ]


def test_a_tsv_of_one_column_has_no_other_separator(tmp_path: Path) -> None:
    assert cells(tmp_path, "text\na, b\n", "a.tsv") == [["text"], ["a, b"]]


def test_excels_text_in_utf_16_is_read(tmp_path: Path) -> None:
    assert cells(tmp_path, "id\ttext\n1\té\n".encode("utf-16"), "a.csv") == [["id", "text"], ["1", "é"]]


def test_blank_cells_and_rows_at_the_edge_are_dropped(tmp_path: Path) -> None:
    assert cells(tmp_path, "id,text\n1,x,,\n,,,\n2,y,\n,\n\n") == [["id", "text"], ["1", "x"], ["2", "y"]]


def test_a_further_cell_with_a_value_is_refused_with_its_line(tmp_path: Path) -> None:
    wrong = refusal(tmp_path, "id,text\n1,x\n2,y,z\n")
    assert (wrong.line, wrong.message) == (3, "has 3 cells under 2 columns")


def test_a_byte_that_is_not_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    wrong = refusal(tmp_path, b"text\n" + b"row\n" * 5000 + b"caf\xe9\n" + b"row\n" * 5000)
    assert (wrong.line, wrong.message) == (5002, "holds the byte 0xE9, which is not UTF-8")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_utf_16_and_utf_32_are_read_with_and_without_a_mark(tmp_path: Path, encoding: str) -> None:
    assert cells(tmp_path, "id,text\n1,café\n".encode(encoding)) == [["id", "text"], ["1", "café"]]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("before", ["", "sep=,\n"])
def test_a_second_byte_order_mark_hides_no_column(tmp_path: Path, encoding: str, before: str) -> None:
    text = f'\ufeff{before}"id",text\n1,café\n'
    assert cells(tmp_path, text.encode(encoding)) == [["id", "text"], ["1", "café"]]


@pytest.mark.parametrize(
    ("first", "cure"),
    [
        (b"PK\x03\x04\x14\x00", "CSV UTF-8"),
        (b"\x1f\x8b\x08\x00", "gunzip"),
        (b"PAR1PAR1", r"\*\.parquet"),
    ],
)
def test_a_file_of_another_format_is_named_with_its_cure(tmp_path: Path, first: bytes, cure: str) -> None:
    assert re.search(cure, refusal(tmp_path, first).fix)


def test_a_header_may_begin_with_the_mark_of_parquet(tmp_path: Path) -> None:
    assert cells(tmp_path, b"PAR1,PAR2\n1,2\n") == [["PAR1", "PAR2"], ["1", "2"]]
