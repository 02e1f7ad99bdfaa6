"""New instructions: tasks keep their labels, unless somebody pays for asking about them again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from labelling import LabelFolder, always
from whole_backend import prompt_of

from backend.commands.bulk.dataset_jobs import _LEVELS
from backend.commands.shared.certificate import contents_of
from backend.commands.teach import teach_file
from backend.errors import ConfigError
from backend.ledger import projects
from backend.settings import load
from backend.testing import Reply

TEXTS = [f"{kind} {number}" for number in range(6) for kind in ("sun", "rain")]


def doubtful_rain(body: dict[str, Any]) -> Reply:
    """Green doubts that rain is sad, so its labels are less certain."""
    rain = "rain" in prompt_of(body).split("text:")[-1]
    return Reply.says({"label": "Sad" if rain and body["model"] != "green" else "Glad"})


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LabelFolder]:
    """Texts that are labelled already."""
    with LabelFolder(tmp_path, doubtful_rain, models=("red", "green", "blue")) as folder:
        folder.table(*TEXTS)
        folder.label()
        yield folder


def instructed(folder: LabelFolder, text: str | None) -> None:
    """Change the instructions in the settings."""
    path = folder.path / "camvo.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "instructions": text}))


def labels(folder: LabelFolder, **options: Any) -> dict[str, str]:
    folder.label(**options)
    return {row["text"]: row["camvo_label"] for row in folder.rows()}


def printed(folder: LabelFolder) -> str:
    return str(folder.console.file.getvalue())  # type: ignore[attr-defined]


def test_new_instructions_ask_nobody_again_and_print_what_that_would_cost(folder: LabelFolder) -> None:
    before, calls = labels(folder), folder.server.count()
    instructed(folder, "Be brave.")
    folder.server.script = always("Sad")
    assert labels(folder) == before
    assert folder.server.count() == calls
    assert "12 tasks have labels of earlier instructions: none is asked about again" in printed(folder)
    assert "The choice, by what tasks have cost until now:" in printed(folder)
    assert re.search(r"--below 1: all, 12 for about \$[0-9.]+, at most \$[0-9.]+\n", printed(folder))


def test_tasks_that_have_no_label_are_asked_about_under_the_new_text(folder: LabelFolder) -> None:
    before, calls = labels(folder), folder.server.count()
    instructed(folder, "Be brave.")
    folder.table(*TEXTS, "sun 99")
    folder.server.script = always("Sad")
    after = labels(folder)
    assert after.pop("sun 99") == "Sad"
    assert (after, folder.server.count() - calls) == (before, 3)


def test_those_with_a_lower_score_are_asked_about_again_if_somebody_says_so(folder: LabelFolder) -> None:
    calls = folder.server.count()
    scores = {row["text"]: float(row["camvo_score"]) for row in folder.rows()}
    instructed(folder, "Be brave.")
    folder.server.script = always("Glad")
    level = (max(scores.values()) + min(scores.values())) / 2
    low = [text for text, score in scores.items() if score < level]
    assert {*low} == {text for text in TEXTS if "rain" in text}
    assert set(labels(folder, below=level).values()) == {"Glad"}
    assert folder.server.count() - calls == 3 * len(low)


def test_low_scores_that_people_have_labelled_are_counted_among_all_only(folder: LabelFolder) -> None:
    folder.write("people.csv", "camvo_project,text,camvo_label\nin,rain 0,Sad\n")
    teach_file(folder.path / "people.csv", folder.path / "camvo.yaml")
    scores = {row["text"]: float(row["camvo_score"]) for row in folder.rows()}
    level = next(level for level in _LEVELS if scores["rain 0"] < level)
    low = sum(score < level for score in scores.values()) - 1
    instructed(folder, "Be brave.")
    labels(folder)
    assert f"a score below {level:g}, {low} for about" in printed(folder)
    assert "--below 1: all, 12 for about $" in printed(folder)


def test_all_are_asked_about_again_if_somebody_says_so_also_later(folder: LabelFolder) -> None:
    calls = folder.server.count()
    instructed(folder, "Be brave.")
    folder.server.script = always("Glad")
    labels(folder)
    assert folder.server.count() == calls
    assert set(labels(folder, below=1.0).values()) == {"Glad"}
    assert folder.server.count() - calls == 3 * len(TEXTS)


def test_a_text_that_is_taken_back_finds_the_labels_that_it_had(folder: LabelFolder) -> None:
    before = labels(folder)
    instructed(folder, "Be brave.")
    folder.server.script = always("Glad")
    labels(folder, below=1.0)
    calls = folder.server.count()
    instructed(folder, None)
    assert labels(folder) == before
    assert folder.server.count() == calls


def is_of_another_text(folder: LabelFolder) -> bool:
    """Whether a certificate would say that its labels are of what was asked before."""
    with folder.ledger.read() as connection:
        stored = projects.get(connection, "in")
        assert stored is not None
        return contents_of(connection, stored, load(folder.path / "camvo.yaml")).asked_otherwise


def test_a_certificate_says_if_its_labels_are_of_earlier_instructions(folder: LabelFolder) -> None:
    assert not is_of_another_text(folder)
    instructed(folder, "Be brave.")
    labels(folder)
    assert is_of_another_text(folder)
    labels(folder, below=1.0)
    assert not is_of_another_text(folder)


def test_a_label_that_is_added_is_asked_about_before_anything_is_spent(folder: LabelFolder) -> None:
    calls = folder.server.count()
    with pytest.raises(ConfigError, match=r"from which labels 'Calm' takes tasks.*--add new=a,b"):
        labels(folder, labels=("Glad", "Sad", "Calm"))
    assert folder.server.count() == calls
