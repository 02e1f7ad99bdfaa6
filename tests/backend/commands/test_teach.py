"""``camvo label --blind`` and ``camvo teach``: a random sample goes out, and people's labels come back."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from labelling import LabelFolder, always
from server_process import PATIENCE, child, wait_until
from sqlalchemy import func, select
from whole_backend import prompt_of

from backend.commands.shared.certificate import print_outcome
from backend.commands.teach import _TeachTally, teach_file
from backend.errors import ConfigError, DatasetError
from backend.ledger import human_annotations
from backend.ledger.blind_tasks import BlindQueues
from backend.ledger.database import tables
from backend.ledger.human_annotations import Annotations
from backend.ledger.learning_data import Reliabilities
from backend.ledger.reports import ProjectSums
from backend.testing import Reply

TEXTS = [f"text {number}" for number in range(20)]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelFolder]:
    """Twenty tasks, all labelled "Glad", five of them blind."""
    with LabelFolder(tmp_path_factory.mktemp("labelled"), always("Glad"), concurrency=8) as folder:
        folder.table(*TEXTS)
        folder.label(blind=5)
        yield folder


@pytest.fixture
def folder(labelled: LabelFolder, tmp_path: Path) -> Iterator[LabelFolder]:
    """A copy of that folder with its ledger."""
    with labelled.copied(tmp_path) as folder:
        yield folder


def teach(folder: LabelFolder, name: str = "blind.csv") -> _TeachTally:
    return teach_file(folder.path / name, folder.path / "camvo.yaml")


def counted(tally: _TeachTally) -> tuple[int, int, int, int]:
    return tally.new, tally.changed, tally.withdrawn, tally.known


def blind_texts(folder: LabelFolder) -> list[str]:
    return [row["text"] for row in folder.rows("blind.csv")]


def number_of_labels(folder: LabelFolder) -> int:
    with folder.ledger.read() as connection:
        return int(connection.scalar(select(func.count()).select_from(tables.human_annotations)) or 0)


def human_labels(folder: LabelFolder) -> dict[str, str]:
    return {row["text"]: row["camvo_human"] for row in folder.rows() if row["camvo_human"]}


def test_the_sample_has_as_many_tasks_as_asked_for_and_shows_no_label(folder: LabelFolder) -> None:
    sample = folder.rows("blind.csv")
    assert len(sample) == 5
    assert {row["camvo_label"] for row in sample} == {""}


def test_the_labels_of_blind_tasks_are_left_out_and_no_others(folder: LabelFolder) -> None:
    unlabelled = {row["text"] for row in folder.rows() if not row["camvo_label"]}
    assert unlabelled == set(blind_texts(folder))


def test_the_sample_is_the_same_for_another_order_of_the_rows(folder: LabelFolder) -> None:
    before = folder.rows("blind.csv")
    (folder.path / "blind.csv").unlink()
    folder.table(*reversed(TEXTS))
    folder.label(blind=5)
    assert folder.rows("blind.csv") == before


def test_the_order_of_the_sample_is_that_in_which_labels_certify(folder: LabelFolder) -> None:
    with folder.ledger.read() as connection:
        [queue] = BlindQueues(connection, "in").all().values()
    sample = folder.rows("blind.csv")
    assert [int(row["camvo_task"][1:], 16) for row in sample] == [task.task for task in queue]


def test_a_file_in_which_people_work_is_not_written_again(folder: LabelFolder) -> None:
    folder.change("blind.csv", **{blind_texts(folder)[0]: "Sad"})
    before = (folder.path / "blind.csv").read_bytes()
    folder.label(blind=5)
    assert (folder.path / "blind.csv").read_bytes() == before


def test_a_label_that_was_shown_is_not_in_a_larger_sample(folder: LabelFolder) -> None:
    (folder.path / "blind.csv").rename(folder.path / "first.csv")
    folder.label(blind=10)
    assert {row["text"] for row in folder.rows("blind.csv")} == {
        row["text"] for row in folder.rows("first.csv")
    }


def test_more_blind_tasks_than_tasks_are_refused(folder: LabelFolder) -> None:
    with pytest.raises(ConfigError, match="more than the 20 tasks"):
        folder.label(blind=21)


def test_all_tasks_can_be_blind(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    with LabelFolder(tmp_path / "all", always("Glad"), concurrency=8) as folder:
        folder.table(*TEXTS)
        folder.label(blind=20)
        assert len(folder.rows("blind.csv")) == 20
        assert {row["camvo_blind"] for row in folder.rows()} == {"true"}


def test_a_text_that_a_spreadsheet_would_compute_is_marked_and_taught_as_it_is(tmp_path: Path) -> None:
    texts = ["=1+1", "@cell", "'-2", "- plain"]
    with LabelFolder(tmp_path, always("Glad"), concurrency=8) as folder:
        folder.table(*texts)
        folder.label(blind=4)
        assert sorted(blind_texts(folder)) == sorted(f"'{text}" for text in texts)
        folder.change("blind.csv", **dict.fromkeys(blind_texts(folder), "Sad"))
        assert counted(teach(folder)) == (4, 0, 0, 0)
        folder.label()
        assert human_labels(folder) == dict.fromkeys(texts, "Sad")


def test_labels_taught_once_are_known_the_second_time(folder: LabelFolder) -> None:
    first, second, *_ = blind_texts(folder)
    folder.change("blind.csv", **{first: "Sad", second: "Glad"})
    assert counted(teach(folder)) == (2, 0, 0, 0)
    assert counted(teach(folder)) == (0, 0, 0, 2)


def test_a_taught_task_shows_both_labels_in_the_next_run_for_free(folder: LabelFolder) -> None:
    first, *_ = blind_texts(folder)
    folder.change("blind.csv", **{first: "sad"})
    teach(folder)
    bought = folder.server.count()
    folder.label()
    [row] = [row for row in folder.rows() if row["text"] == first]
    assert (row["camvo_label"], row["camvo_human"]) == ("Glad", "Sad")
    assert folder.server.count() == bought


def test_a_changed_label_replaces_the_one_before(folder: LabelFolder) -> None:
    first, *_ = blind_texts(folder)
    folder.change("blind.csv", **{first: "Sad"})
    teach(folder)
    folder.change("blind.csv", **{first: "Glad"})
    assert counted(teach(folder)) == (0, 1, 0, 0)
    folder.label()
    assert human_labels(folder) == {first: "Glad"}


def test_an_emptied_cell_withdraws_the_label_and_it_can_come_back(folder: LabelFolder) -> None:
    first, *_ = blind_texts(folder)
    folder.change("blind.csv", **{first: "Sad"})
    teach(folder)
    folder.change("blind.csv", **{first: ""})
    assert counted(teach(folder)) == (0, 0, 1, 0)
    folder.label()
    assert human_labels(folder) == {}
    folder.change("blind.csv", **{first: "Sad"})
    assert counted(teach(folder)) == (1, 0, 0, 0)
    folder.label()
    assert human_labels(folder) == {first: "Sad"}


def test_labels_of_blind_tasks_are_said_to_certify_and_not_to_teach(folder: LabelFolder) -> None:
    folder.change("blind.csv", **dict.fromkeys(blind_texts(folder), "Sad"))
    said = teach(folder).summary()
    assert "labels: 5 new" in said
    assert "5 of the labels are about blind tasks" in said
    assert "learnt" not in said
    with folder.ledger.read() as connection:
        humans = ProjectSums(connection, "in").humans()
    assert (humans.annotations, humans.teaching) == (5, 0)


def test_a_blind_task_left_out_is_named_with_its_line_and_the_labels_it_keeps_from_counting(
    folder: LabelFolder,
) -> None:
    left, *labelled = blind_texts(folder)[1:]
    folder.change("blind.csv", **dict.fromkeys([blind_texts(folder)[0], *labelled], "Sad"))
    [task] = [row["camvo_task"] for row in folder.rows("blind.csv") if row["text"] == left]
    *_, said = teach(folder).summary().splitlines()
    assert said.startswith(f"label: 3 blind labels cannot count before task {task} has one, too (")
    assert said.endswith("blind.csv, line 3)")
    print_outcome(folder.console, folder.environment, "in")
    said = " ".join(str(folder.console.file.getvalue()).split())  # type: ignore[attr-defined]
    assert f"label task {task} first: 3 blind labels behind it in the queue can count only then" in said
    folder.change("blind.csv", **{left: "Sad"})
    assert "cannot count" not in teach(folder).summary()


def test_blind_labels_reach_the_queue_that_certifies(folder: LabelFolder) -> None:
    first, second, *_ = blind_texts(folder)
    folder.change("blind.csv", **{first: "Sad", second: "Glad"})
    teach(folder)
    with folder.ledger.read() as connection:
        [queue] = BlindQueues(connection, "in").all().values()
    assert [task.reward for task in queue.entries[:3]] == [0.0, 1.0, None]


def test_a_word_that_is_no_label_is_refused_with_its_line_and_nothing_is_learnt(folder: LabelFolder) -> None:
    first, second, *_ = blind_texts(folder)
    folder.change("blind.csv", **{first: "Sad", second: "Happy"})
    with pytest.raises(DatasetError) as refused:
        teach(folder)
    assert "line 3" in str(refused.value)
    assert "'Glad', 'Sad'" in str(refused.value)
    with folder.ledger.read() as connection:
        assert Annotations(connection, "in").tasks() == []


def test_all_words_that_are_no_labels_are_named_with_their_rows_and_first_lines(folder: LabelFolder) -> None:
    texts = blind_texts(folder)
    folder.change("blind.csv", **dict(zip(texts, ["Happy", "Sad", "Angry", "Happy", "Happy"], strict=True)))
    with pytest.raises(DatasetError) as refused:
        teach(folder)
    assert "'Happy' in column 'camvo_label' (3 rows, first in line 2)" in str(refused.value)
    assert "'Angry' in column 'camvo_label' (line 4)" in str(refused.value)


def test_of_many_words_that_are_no_labels_five_are_named_and_the_others_counted(folder: LabelFolder) -> None:
    rows = "".join(f"in,{TEXTS[number]},{number} {'x' * 99}\n" for number in range(8))
    folder.write("gold.csv", f"camvo_project,text,camvo_label\n{rows}")
    with pytest.raises(DatasetError) as refused:
        teach(folder, "gold.csv")
    assert str(refused.value).count("in column") == 5
    assert ", 3 other wrong labels" in str(refused.value)
    assert "x" * 40 not in str(refused.value)


def test_two_labels_for_one_task_are_refused(folder: LabelFolder) -> None:
    lines = (folder.path / "blind.csv").read_text("utf-8").splitlines()
    folder.write("twice.csv", "\n".join([lines[0], lines[1] + "Sad", lines[1] + "Glad"]))
    with pytest.raises(DatasetError, match="another label"):
        teach(folder, "twice.csv")


def by_annotators(folder: LabelFolder, *rows: tuple[int, str, str], name: str = "people.csv") -> str:
    """Write rows of a blind task's position, an annotator and a label into a file."""
    tasks = [row["camvo_task"] for row in folder.rows("blind.csv")]
    lines = [f"in,{tasks[place]},{who},{label}" for place, who, label in rows]
    folder.write(name, "\n".join(["camvo_project,camvo_task,camvo_annotator,camvo_label", *lines]))
    return name


def annotations(folder: LabelFolder) -> list[human_annotations.Annotation]:
    with folder.ledger.read() as connection:
        return Annotations(connection, "in").all()


def test_several_annotators_may_say_different_things_about_one_task(folder: LabelFolder) -> None:
    name = by_annotators(folder, (0, "7", "Sad"), (0, "anna", "Glad"), (1, "7", "Glad"))
    assert counted(teach(folder, name)) == (3, 0, 0, 0)
    assert counted(teach(folder, name)) == (0, 0, 0, 3)
    seven, anna = sorted({annotation.completed_by for annotation in annotations(folder)})  # type: ignore[type-var]
    assert seven == 7
    assert anna is not None
    assert 10**9 <= anna < 10**10


def test_the_names_numbers_are_printed_because_reports_have_numbers_alone(folder: LabelFolder) -> None:
    said = teach(folder, by_annotators(folder, (0, "anna", "Sad"), (1, "7", "Sad"))).summary()
    [anna] = [each.completed_by for each in annotations(folder) if each.completed_by != 7]
    assert said.endswith(f"annotators in reports: anna is {anna}")
    assert "7 is 7" not in said


def test_a_changed_and_a_withdrawn_label_leave_those_of_others(folder: LabelFolder) -> None:
    teach(folder, by_annotators(folder, (0, "7", "Sad"), (0, "8", "Sad"), (0, "9", "Glad")))
    tally = teach(folder, by_annotators(folder, (0, "7", "Glad"), (0, "8", "")))
    assert counted(tally) == (0, 1, 1, 0)
    teaching = {each.completed_by: each.labels for each in annotations(folder) if each.teaches}
    assert teaching == {7: {"label": "Glad"}, 9: {"label": "Glad"}}
    folder.label()
    assert list(human_labels(folder).values()) == ["Glad"]


def test_a_file_of_each_annotator_needs_no_column(folder: LabelFolder) -> None:
    first, *_ = blind_texts(folder)
    for who, label in (("anna", "Sad"), ("ben", "Sad"), ("anna", "Glad")):
        folder.change("blind.csv", **{first: label})
        teach_file(folder.path / "blind.csv", folder.path / "camvo.yaml", who)
    assert sorted(each.labels["label"] for each in annotations(folder)) == ["Glad", "Sad"]


TWO = (
    '<View><Text name="t" value="$text"/><Choices name="mood" toName="t"><Choice value="Glad"/>'
    '<Choice value="Sad"/></Choices><Choices name="about" toName="t" choice="multiple">'
    '<Choice value="Home"/><Choice value="Work"/></Choices></View>'
)
"""Two questions, one of them about several labels."""


def _glad_at_home(body: dict[str, Any]) -> Reply:
    return Reply.says({"mood": "Glad", "about": ["Home"]})


def test_a_blank_cell_of_several_labels_is_no_answer_beside_other_answers(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, _glad_at_home) as folder:
        folder.table("lovely", "gloomy", "calm")
        folder.label(labels=(), text_column=None, label_config=TWO)
        folder.write(
            "people.csv",
            "camvo_project,text,camvo_label_mood,camvo_label_about\n"
            'in,lovely,Glad,\nin,gloomy,Sad,[]\nin,calm,Glad,"Home, Work"\n',
        )
        teach(folder, "people.csv")
        with folder.ledger.read() as connection:
            stored = connection.scalars(select(tables.human_annotations.c.labels)).all()
        assert sorted(labels.get("about", "") for labels in stored) == ["", '["Home","Work"]', "[]"]
        assert counted(teach(folder, "people.csv")) == (0, 0, 0, 3)


def test_a_blind_task_with_one_answer_of_two_shows_that_question_alone(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, _glad_at_home) as folder:
        folder.table("lovely", "gloomy", "calm")
        options: dict[str, Any] = {"labels": (), "text_column": None, "label_config": TWO, "blind": 1}
        folder.label(**options)
        [row] = folder.rows("blind.csv")
        folder.write(
            "people.csv",
            "camvo_project,camvo_task,text,camvo_label_mood,camvo_label_about\n"
            f"in,{row['camvo_task']},{row['text']},Sad,\n",
        )
        teach(folder, "people.csv")
        folder.label(**options)
        [found] = [each for each in folder.rows() if each["camvo_blind"] == "true"]
        assert (found["camvo_label_mood"], found["camvo_human_mood"]) == ("Glad", "Sad")
        assert found["camvo_label_about"] == found["camvo_votes_about"] == ""


def test_a_blank_cell_names_no_annotator_so_the_option_does(folder: LabelFolder) -> None:
    name = by_annotators(folder, (0, " ", "Sad"), (1, "7", "Sad"))
    tally = teach_file(folder.path / name, folder.path / "camvo.yaml", "anna")
    assert tally.annotators.keys() == {"anna", "7"}


def test_one_annotator_with_two_labels_for_a_task_is_refused(folder: LabelFolder) -> None:
    with pytest.raises(DatasetError, match="another label"):
        teach(folder, by_annotators(folder, (0, "anna", "Sad"), (0, "anna", "Glad")))


def test_a_number_that_nobody_can_have_is_refused_with_its_line(folder: LabelFolder) -> None:
    with pytest.raises(DatasetError, match="not the number of an annotator") as refused:
        teach(folder, by_annotators(folder, (0, "7", "Sad"), (1, "-7", "Sad")))
    assert "line 3" in str(refused.value)


def test_labels_are_weighed_by_how_often_each_annotator_is_right(folder: LabelFolder) -> None:
    """Two agree on four tasks against a third; on the last, one of them stands against the third alone."""
    agreed = [(place, who, "Glad") for place in range(4) for who in ("1", "2")]
    wrong = [(place, "3", "Sad") for place in range(4)]
    tied = [(4, "1", "Glad"), (4, "3", "Sad")]
    teach(folder, by_annotators(folder, *agreed, *wrong, *tied))
    with folder.ledger.read() as connection:
        [fit] = Reliabilities(connection, "in").latest("label")
    assert fit.applied
    assert fit.accuracies["1"] > fit.accuracies["3"]
    folder.label()
    assert human_labels(folder)[blind_texts(folder)[4]] == "Glad"


def test_no_log_line_is_printed_among_what_a_command_says(
    folder: LabelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    structlog.reset_defaults()  # as a command finds it: lines of any level on standard output
    said = {"1": "Glad", "2": "Glad", "3": "Sad"}
    teach(folder, by_annotators(folder, *((place, who, said[who]) for place in range(4) for who in said)))
    assert capsys.readouterr().out == ""


def test_a_file_without_the_texts_is_refused_and_their_column_is_named(folder: LabelFolder) -> None:
    folder.write("people.csv", "camvo_project,review,camvo_label\nin,text 1,Sad\nin,text 2,Glad\n")
    with pytest.raises(DatasetError, match="has no column 'text'") as refused:
        teach(folder, "people.csv")
    assert "line 2" in str(refused.value)


def test_a_file_of_another_ledger_is_refused(folder: LabelFolder) -> None:
    folder.write("other.csv", "camvo_project,camvo_task,camvo_label\nelsewhere,t0000000000000000,Sad\n")
    with pytest.raises(DatasetError, match="names no project of this ledger"):
        teach(folder, "other.csv")


def test_a_folder_without_a_ledger_stays_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAMVO_DATABASE_URL", f"sqlite:///{tmp_path / 'elsewhere.sqlite'}")
    (tmp_path / "blind.csv").write_text("text\nLovely.\n")
    with pytest.raises(ConfigError, match="there is no ledger"):
        teach_file(tmp_path / "blind.csv", None)
    assert not (tmp_path / "elsewhere.sqlite").exists()


def test_labels_of_texts_without_a_number_find_their_tasks(folder: LabelFolder) -> None:
    folder.write("gold.csv", f"camvo_project,text,camvo_label\nin,{TEXTS[0]},Sad\n")
    assert counted(teach(folder, "gold.csv")) == (1, 0, 0, 0)
    folder.label()
    assert human_labels(folder) == {TEXTS[0]: "Sad"}


def test_a_text_in_another_unicode_form_finds_its_task(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, always("Glad")) as folder:
        folder.table("caf\u00e9", "the\u0301")
        folder.label()
        folder.write("gold.csv", "camvo_project,text,camvo_label\nin,cafe\u0301,Sad\nin,th\u00e9,Sad\n")
        tally = teach(folder, "gold.csv")
        assert (tally.new, tally.ahead) == (2, 0)
        folder.label()
        assert set(human_labels(folder).values()) == {"Sad"}
        assert len(human_labels(folder)) == 2


def test_labels_of_texts_that_were_not_labelled_are_counted(folder: LabelFolder) -> None:
    folder.write("gold.csv", f"camvo_project,text,camvo_label\nin,{TEXTS[0]},Sad\nin,elsewhere,Sad\n")
    tally = teach(folder, "gold.csv")
    assert (tally.new, tally.ahead) == (2, 1)
    assert "1 of the labels is about tasks" in tally.summary()


SPELT = ["Ｓａｄ", "Sad\u00a0", "\u200bSad", "S\u00adad", " sad "]
"""Other forms of one label, as spreadsheets and phones write them."""


@pytest.mark.parametrize("label", SPELT, ids=ascii)
def test_another_unicode_form_of_a_label_is_that_label(folder: LabelFolder, label: str) -> None:
    folder.change("blind.csv", **dict.fromkeys(blind_texts(folder), label))
    assert teach(folder).new == 5
    folder.label()
    assert set(human_labels(folder).values()) == {"Sad"}


def test_an_index_without_a_name_and_empty_columns_at_the_end_change_nothing(folder: LabelFolder) -> None:
    header, *lines = (folder.path / "blind.csv").read_text("utf-8-sig").splitlines()
    table = [f",{header},,", *(f"{number},{line}Sad,," for number, line in enumerate(lines)), ",,,"]
    folder.write("exported.csv", "\n".join(table))
    assert teach(folder, "exported.csv").new == len(lines)
    folder.label()
    assert set(human_labels(folder).values()) == {"Sad"}


def _mood(body: dict[str, Any]) -> Reply:
    return Reply.says({"label": "Sad" if "gloomy" in prompt_of(body) else "Glad"})


def test_blind_labels_say_which_tasks_hold_a_label_that_must_be_found(tmp_path: Path) -> None:
    policy = {"name": "joint", "recall": {"Sad": 0.8}}
    with LabelFolder(tmp_path, _mood, concurrency=16, policy=policy) as folder:
        folder.table(*[f"{'gloomy' if number % 3 == 0 else 'sunny'} {number}" for number in range(150)])
        folder.label(blind=75)
        sample = folder.rows("blind.csv")
        for row in sample:
            row["camvo_label"] = "Sad" if "gloomy" in row["text"] else "Glad"
        with (tmp_path / "blind.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(sample[0]))
            writer.writeheader()
            writer.writerows(sample)
        teach(folder)
        folder.label()
        print_outcome(folder.console, folder.environment, "in")
        said = str(folder.console.file.getvalue())  # type: ignore[attr-defined]
        found = re.search(r"Sad: at least 80% is among (\d+) of 150 tasks .* at least ([\d.e-]+),", said)
        assert found is not None
        assert int(found[1]) < 150
        threshold = float(found[2]) * 0.999  # three digits are printed
        scores = {
            row["text"]: json.loads(row["camvo_likely"])["Sad"]
            for row in folder.rows()
            if row["camvo_likely"]
        }
        of_sad = [score for text, score in scores.items() if "gloomy" in text]
        assert sum(score >= threshold for score in of_sad) >= 0.8 * len(of_sad)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_stopped_says_which_labels_are_stored_and_the_same_one_does_the_rest(
    folder: LabelFolder, number: signal.Signals
) -> None:
    rows = [f"in,another text {row},Glad" for row in range(240)]
    file = folder.write("people.csv", "\n".join(["camvo_project,text,camvo_label", *rows]))
    process = subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-m", "backend", "teach", str(file), "--config", str(folder.path / "camvo.yaml")],
        cwd=folder.path,
        env=child(CAMVO_DATABASE_URL=folder.environment.database_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: number_of_labels(folder), "label in the ledger")
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    stored = number_of_labels(folder)
    assert process.returncode == 130
    assert 0 < stored < len(rows)
    assert said == (
        f"Stopped. The labels in {stored} of 240 rows are stored. Run the same command again: it does the"
        " rest.\ncamvo: interrupted (run the same command again)\n"
    )
    assert counted(teach(folder, "people.csv")) == (len(rows) - stored, 0, 0, stored)
