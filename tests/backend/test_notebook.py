"""``backend.notebook.label``: a DataFrame comes back with its labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from labelling import LabelFolder
from whole_backend import prompt_of

from backend.errors import DatasetError
from backend.notebook import label
from backend.testing import Reply


def moods(body: dict[str, object]) -> Reply:
    return Reply.says({"label": "Sad" if "gloomy" in prompt_of(body) else "Glad"})


def test_a_frame_keeps_its_rows_index_and_columns_and_gets_the_labels(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"n": [1, 2, 3], "text": ["lovely", "gloomy", None]}, index=["first", "second", "third"]
    )
    with LabelFolder(tmp_path, moods) as folder:
        labelled = label(
            frame,
            labels=["Glad", "Sad"],
            text_column="text",
            config=folder.environment.config,
        )
    assert isinstance(labelled, pd.DataFrame)
    assert list(labelled.index) == ["first", "second", "third"]
    assert list(labelled["n"]) == [1, 2, 3]
    assert list(labelled["camvo_label"])[:2] == ["Glad", "Sad"]
    assert labelled["camvo_label"].isna().tolist() == [False, False, True]
    assert labelled["camvo_error"].tolist()[2] == "text_empty"
    assert labelled["camvo_score"].between(0, 1)[:2].all()


def test_a_missing_text_of_a_nullable_column_is_no_text(tmp_path: Path) -> None:
    """It was read as "<NA>", which models were asked about."""
    frame = pd.DataFrame({"text": pd.array(["lovely", pd.NA], dtype="string")})
    with LabelFolder(tmp_path, moods) as folder:
        labelled = label(frame, labels=["Glad", "Sad"], text_column="text", config=folder.environment.config)
    assert labelled["camvo_error"].tolist()[1] == "text_empty"


def test_labels_in_one_text_are_those_of_the_command(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        frame = pd.DataFrame({"text": ["gloomy"]})
        labelled = label(frame, labels="Glad,Sad", text_column="text", config=folder.environment.config)
    assert labelled["camvo_label"].tolist() == ["Sad"]


@pytest.mark.parametrize(
    "frame",
    [
        pd.Series(["lovely"], name="text"),
        ["lovely"],
        pd.DataFrame([["lovely", "gloomy"]], columns=["text", "text"]),
    ],
)
def test_what_is_no_frame_is_refused_with_its_cure(frame: Any) -> None:
    with pytest.raises(DatasetError, match="is no DataFrame"):
        label(frame, labels=["Glad", "Sad"], text_column="text")
