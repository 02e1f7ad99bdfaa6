from __future__ import annotations

from pathlib import Path

import pytest

from backend.commands.replay.inputs import VotesFile, oddities
from backend.errors import ReplayError

GOOD = "item_id,text,truth,small,large\na,one,yes,yes,no\nb,two,,,yes\nc,three,no,maybe,no\n"


def table(folder: Path, content: str | bytes) -> VotesFile:
    path = folder / "votes.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return VotesFile.read(path)


def refusal(folder: Path, content: str | bytes) -> str:
    with pytest.raises(ReplayError) as caught:
        table(folder, content)
    return str(caught.value).removeprefix(str(folder / "votes.csv"))


def test_models_are_the_other_columns_in_their_order(tmp_path: Path) -> None:
    assert table(tmp_path, GOOD).models == ("small", "large")


def test_labels_are_those_of_the_votes_and_the_truth_in_the_order_of_their_characters(tmp_path: Path) -> None:
    assert table(tmp_path, GOOD).labels == ("maybe", "no", "yes")
    assert table(tmp_path, "m,truth\n10,2\n9,10\n").labels == ("10", "2", "9")


def test_votes_and_truth_are_positions_and_a_blank_cell_is_none(tmp_path: Path) -> None:
    read = table(tmp_path, GOOD)
    assert read.votes.tolist() == [[2, 1], [-1, 2], [0, 1]]
    assert read.truth.tolist() == [2, -1, 1]


def test_only_a_model_is_needed(tmp_path: Path) -> None:
    read = table(tmp_path, "m\nyes\nno\n")
    assert (read.texts, read.truth.tolist()) == (None, [-1, -1])


def test_a_text_may_be_long_and_go_over_lines_which_are_counted(tmp_path: Path) -> None:
    long = "word " * 100_000
    read = table(tmp_path, f'text,m\n"{long}\n\nend",yes\n\nshort,no\n')
    assert read.texts == (f"{long}\n\nend", "short")
    assert read.lines == (2, 6)


def test_the_mark_that_a_spreadsheet_puts_before_utf_8_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert table(tmp_path, b"\xef\xbb\xbftext,m\nx,yes\n").models == ("m",)


def test_confidences_belong_to_the_model_that_their_column_names(tmp_path: Path) -> None:
    read = table(tmp_path, "conf_large,small,large\n0.75,yes,no\n,no,no\n1,yes,no\n")
    assert read.models == ("small", "large")
    assert read.confidences is not None
    assert str(read.confidences.tolist()) == "[[nan, 0.75], [nan, nan], [nan, 1.0]]"


def test_without_such_columns_there_are_no_confidences(tmp_path: Path) -> None:
    assert table(tmp_path, GOOD).confidences is None


@pytest.mark.parametrize(("delimiter", "character"), [(";", ";"), ("tab", "\t"), ("\\t", "\t"), ("|", "|")])
def test_cells_may_be_separated_by_something_else(delimiter: str, character: str, tmp_path: Path) -> None:
    (tmp_path / "votes.csv").write_text(GOOD.replace(",", character), encoding="utf-8")
    assert (
        VotesFile.read(tmp_path / "votes.csv", delimiter).votes.tolist()
        == table(tmp_path, GOOD).votes.tolist()
    )


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "semicolon"])
def test_a_delimiter_that_is_none_is_refused(delimiter: str, tmp_path: Path) -> None:
    (tmp_path / "votes.csv").write_text(GOOD, encoding="utf-8")
    with pytest.raises(ReplayError, match="--delimiter: "):
        VotesFile.read(tmp_path / "votes.csv", delimiter)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "text;truth;m\none, two;yes;yes\n",
            ", line 1: the cells seem to be separated by ';' (give --delimiter ';')",
        ),
        ("text\ttruth\tm\none\tyes\tyes\n", ", line 1: the cells seem to be separated by tab"),
        ("", ": the table is empty (add a header, and a row for each item)"),
        ("text,m\n", ": the table is empty (add a header, and a row for each item)"),
        (
            "item_id,text,truth\na,b,c\n",
            ": no model column (add a column of labels for each model, besides text, truth, item_id)",
        ),
        ("text,m\nx,yes\ny\n", ", line 3: has 1 cells under 2 columns"),
        ('text,m\n"x\nx",yes\ny,no,no\n', ", line 4: has 3 cells under 2 columns"),
        ("text,Truth,m\nx,yes,yes\n", ", line 1: the column 'Truth' must be called 'truth'"),
        ("text,m,m\nx,yes,yes\n", ", line 1: two columns 'm'"),
        ("item_id,m\na,yes\nb,no\na,no\n", ", line 4: line 2 has the same item_id 'a'"),
        ("item_id,m\na,yes\n ,no\n", ", line 3: no item_id"),
        ("m,n\nyes,no\nno,Yes\n", ", line 3, column 'n': the labels 'yes' and 'Yes' differ only in case or"),
        ("m\nvery good\nvery  good \n", ", line 3, column 'm': the labels 'very good' and 'very  good ' dif"),
        ("truth,m\nNo,no\n", ", line 2, column 'm': the labels 'No' and 'no' differ only in case or blanks"),
        ("text,m\nx, \n", ": no model gave a label to any item"),
        ('m\n"yes"x\n', ", line 2: is not CSV: ',' expected"),
        (
            "m,conf_n\nyes,0.5\n",
            ", line 1: the column 'conf_n' has the confidences of 'n', which is no column (add its label",
        ),
        ("m,conf_m\nyes,0.5\nno,2\n", ", line 3, column 'conf_m': '2' is not a confidence (give a number"),
        ("m,conf_m\nyes,nan\n", ", line 2, column 'conf_m': 'nan' is not a confidence (give a number"),
        ("m,conf_m\nyes,high\n", ", line 2, column 'conf_m': 'high' is not a confidence (give a number"),
        (b"m\n\xff\n", ", line 2: holds the byte 0xFF, which is not UTF-8 (save the file as UTF-8"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(content: str | bytes, said: str, tmp_path: Path) -> None:
    message = refusal(tmp_path, content)
    assert message.startswith(said)
    assert "\n" not in message


def test_a_text_that_was_taken_for_a_label_is_not_printed_whole(tmp_path: Path) -> None:
    message = refusal(tmp_path, f"m\n{'a' * 500}\n{'A' * 500}\n")
    assert len(message) < 200


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"none\.csv: cannot be read \(No such file"):
        VotesFile.read(tmp_path / "none.csv")


def test_whole_numbers_are_the_same_labels_with_and_without_a_decimal_point(tmp_path: Path) -> None:
    read = table(tmp_path, "truth,a,b\n0,0,0.0\n1,1,\n1,0,1.0\n")
    assert read.labels == ("0", "1")
    assert read.votes.tolist() == [[0, 0], [1, -1], [0, 1]]


def test_numbers_with_fractions_stay_as_they_are(tmp_path: Path) -> None:
    assert table(tmp_path, "a,b\n1.5,1.0\n1.0,1.5\n").labels == ("1.0", "1.5")
    assert table(tmp_path, "a,b\n1.5,1.0\n1.0,1\n").labels == ("1", "1.5")
    assert table(tmp_path, "a,b\n1,1.0\nOther,\n").labels == ("1", "Other")


def test_two_unicode_forms_of_a_label_are_one(tmp_path: Path) -> None:
    assert table(tmp_path, "a,b\ncafe\u0301,caf\u00e9\ntea,tea\n").labels == ("caf\u00e9", "tea")


def test_a_column_without_a_name_is_no_model(tmp_path: Path) -> None:
    assert table(tmp_path, ",a,b\n0,x,y\n1,y,y\n").models == ("a", "b")


def test_labels_that_read_as_missing_values_are_named(tmp_path: Path) -> None:
    [said] = [text for text in oddities(table(tmp_path, "a,b\nyes,nan\nnan,yes\n"), []) if "missing" in text]
    assert "'nan'" in said
