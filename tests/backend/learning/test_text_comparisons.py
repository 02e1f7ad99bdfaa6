"""New instructions and earlier ones, compared by what people say of the labels under both."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from labelling import LabelFolder
from whole_backend import prompt_of

from backend.commands.relabel.run import opened_project, relabel
from backend.commands.shared.arguments import LabelChanges
from backend.commands.teach import teach_file
from backend.learning.label_schemes import TextComparison, compare_texts_so_far
from backend.server.status.alarms import Alert
from backend.server.status.build import build_report
from backend.settings import load
from backend.testing import Reply

TEXTS = [f"{kind} {number}" for number in range(30) for kind in ("sun", "rain")]
HELPS, HARMS = "Rain is sad.", "Sun is sad."


def script(body: dict[str, Any]) -> Reply:
    """Models that know of rain and sun what the instructions say; green doubts rain."""
    prompt = prompt_of(body)
    rain = "rain " in prompt.split("text:")[-1]
    sad = (HELPS in prompt or body["model"] == "green") if rain else HARMS in prompt
    return Reply.says({"label": "Sad" if sad else "Glad"})


def opened(path: Path, start: Path | None = None, **settings: Any) -> LabelFolder:
    """A folder of labelled texts, which begins as a copy of another one."""
    if start is not None:
        shutil.copytree(start, path, dirs_exist_ok=True)
    return LabelFolder(path, script, models=("red", "green", "blue"), concurrency=8, **settings)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labelled")
    with opened(path) as folder:
        folder.table(*TEXTS)
        folder.label()
    return path


@pytest.fixture(scope="module")
def helped(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All texts were asked about again, with better instructions."""
    path = tmp_path_factory.mktemp("helped")
    with opened(path, labelled) as folder:
        instructed(folder, HELPS)
    return path


@pytest.fixture
def folder(labelled: Path, tmp_path: Path) -> Iterator[LabelFolder]:
    with opened(tmp_path, labelled) as folder:
        yield folder


@pytest.fixture
def better(helped: Path, tmp_path: Path) -> Iterator[LabelFolder]:
    with opened(tmp_path, helped, instructions=HELPS) as folder:
        yield folder


def instructed(folder: LabelFolder, text: str, below: float = 1.0) -> None:
    """Change the instructions, and ask again."""
    path = folder.path / "camvo.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "instructions": text}))
    folder.label(below=below)


def judged(folder: LabelFolder, texts: list[str]) -> None:
    """People label texts."""
    with (folder.path / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["camvo_project", "text", "camvo_label"])
        writer.writerows(["in", text, "Sad" if "rain" in text else "Glad"] for text in texts)
    teach_file(folder.path / "people.csv", folder.path / "camvo.yaml")


def compared(folder: LabelFolder) -> TextComparison:
    with folder.ledger.read() as connection:
        [found] = compare_texts_so_far(connection, "in")
    return found


def test_a_text_whose_labels_are_right_more_often_is_better(better: LabelFolder) -> None:
    judged(better, TEXTS)
    found = compared(better)
    assert (found.before, found.after, found.tasks) == (0.5, 1.0, len(TEXTS))
    assert found.verdict == "better"


def test_a_change_of_labels_leaves_the_comparison_of_texts_as_it_was(better: LabelFolder) -> None:
    judged(better, TEXTS)
    before = compared(better)
    with opened_project(better.path / "in.csv", better.environment) as opened:
        relabel(opened, LabelChanges(renames=["Sad=Low"]), better.console, lambda question: True)
    assert compared(better) == before


def test_a_few_tasks_do_not_tell_two_texts_apart(better: LabelFolder) -> None:
    judged(better, TEXTS[:6])
    assert compared(better).verdict == "undecided"


def test_a_worse_text_raises_an_alarm_and_the_one_before_costs_nothing(better: LabelFolder) -> None:
    before = [row["camvo_label"] for row in better.rows()]
    instructed(better, HARMS)
    judged(better, TEXTS)
    assert compared(better).verdict == "worse"
    assert "instructions_worse" in {alert.code for alert in alerts(better)}
    calls = better.server.count()
    instructed(better, HELPS)
    assert [row["camvo_label"] for row in better.rows()] == before
    assert better.server.count() == calls


def alerts(folder: LabelFolder) -> tuple[Alert, ...]:
    with folder.ledger.read() as connection:
        settings = load(folder.path / "camvo.yaml")
        [project] = build_report(connection, settings, now=0.0).projects
    return project.alerts


def test_tasks_that_were_asked_again_for_their_low_scores_judge_no_text(folder: LabelFolder) -> None:
    scores = [float(row["camvo_score"]) for row in folder.rows()]
    instructed(folder, HELPS, below=(min(scores) + max(scores)) / 2)
    judged(folder, TEXTS)
    assert compared(folder).verdict == "selected"
    assert "camvo try compares" in compared(folder).said


def test_a_stray_task_does_not_hide_that_the_others_were_asked_again_for_their_low_scores(
    folder: LabelFolder,
) -> None:
    scores = {row["text"]: float(row["camvo_score"]) for row in folder.rows()}
    low, high = min(scores.values()), max(scores.values())
    instructed(folder, HELPS, below=(low + high) / 2)
    folder.table(next(text for text in TEXTS if scores[text] == high))
    folder.label(below=1.0)
    judged(folder, TEXTS)
    assert (compared(folder).verdict, compared(folder).tasks) == ("selected", len(TEXTS) // 2 + 1)


def test_instructions_that_never_changed_are_not_compared(folder: LabelFolder) -> None:
    judged(folder, TEXTS)
    with folder.ledger.read() as connection:
        assert compare_texts_so_far(connection, "in") == []
