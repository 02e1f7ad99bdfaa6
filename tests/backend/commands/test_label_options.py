"""What is wrong with a list of labels or a label config, named by the option that was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.commands.shared.options import LabelOptions
from backend.datasets.sources import open_source
from backend.datasets.tasks import Dataset
from camvo.errors import CamvoError


def dataset(folder: Path, options: LabelOptions) -> Dataset:
    path = folder / "in.csv"
    path.write_text("text\nlovely\n", "utf-8")
    return options.dataset(open_source(path))


@pytest.mark.parametrize("labels", [("Yes", "yes"), ("New York", "New  York"), ("Yes", "No", "YES")])
def test_labels_that_differ_only_in_case_or_blanks_are_refused(
    tmp_path: Path, labels: tuple[str, ...]
) -> None:
    with pytest.raises(CamvoError, match="differ only in case or blanks") as refused:
        dataset(tmp_path, LabelOptions(labels=labels, text_column="text"))
    assert refused.value.where == "--labels"


def test_a_label_that_no_label_config_can_hold_is_the_fault_of_the_labels(tmp_path: Path) -> None:
    with pytest.raises(CamvoError) as refused:
        dataset(tmp_path, LabelOptions(labels=("Good\x01", "Bad"), text_column="text"))
    assert refused.value.where == "--labels"


@pytest.mark.parametrize("xml", ["no XML", "<View/>", '<View><Text name="t" value="$text"/></View>'])
def test_a_label_config_that_asks_nothing_is_named_by_its_option(tmp_path: Path, xml: str) -> None:
    with pytest.raises(CamvoError) as refused:
        dataset(tmp_path, LabelOptions(label_config=xml))
    assert refused.value.where == "--label-config"


def test_labels_without_the_column_of_the_text_are_refused_with_the_names_of_the_columns(
    tmp_path: Path,
) -> None:
    (tmp_path / "in.csv").write_text("id,review\n1,lovely\n", "utf-8")
    with pytest.raises(CamvoError) as refused:
        LabelOptions(labels=("Good", "Bad")).dataset(open_source(tmp_path / "in.csv"))
    assert (refused.value.where, refused.value.fix) == ("--text-column", "name one of 'id', 'review'")
