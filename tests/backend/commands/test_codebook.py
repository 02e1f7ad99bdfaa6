"""``camvo codebook``: definitions, confirmed examples and confusions; nothing is asked or paid for."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import called
from label_studio_api import PROJECT, LabelStudioApi
from labelling import PLAIN, LabelFolder
from whole_backend import prompt_of

from backend.commands.instructions.asking import opened as opened_source
from backend.commands.instructions.codebook import (
    Codebook,
    CodebookOptions,
    _write_codebook,
    _write_into_project,
    collect,
)
from backend.commands.label.project import _predict_in_process
from backend.commands.shared.options import LabelOptions
from backend.commands.teach import teach_file
from backend.errors import ConfigError
from backend.questions.objects import FOR_PEOPLE_ONLY
from backend.testing import Reply

TEXTS = [f"day {number} *rain*" if number < 8 else f"day {number} sun" for number in range(16)]
SAD = "Sad"


def glad_green(body: dict[str, Any]) -> Reply:
    """Red knows that rain is sad; green never does."""
    rain = "*rain*" in prompt_of(body) and body["model"] == "red"
    return Reply.says({"label": SAD if rain else "Glad"})


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LabelFolder]:
    """Sixteen tasks, of which people have labelled six; two of these are blind."""
    with LabelFolder(tmp_path, glad_green, concurrency=8) as folder:
        folder.table(*TEXTS)
        folder.label(blind=2)
        blind = {row["text"] for row in folder.rows("blind.csv")}
        folder.change("blind.csv", **dict.fromkeys(blind, SAD))
        with (tmp_path / "people.csv").open("w", newline="") as file:
            columns = ["camvo_project", "text", "camvo_label"]
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            rain = [text for text in TEXTS if "rain" in text and text not in blind]
            writer.writerows({"camvo_project": "in", "text": text, "camvo_label": SAD} for text in rain[:4])
        for name in ("people.csv", "blind.csv"):
            teach_file(tmp_path / name, tmp_path / "camvo.yaml")
        yield folder


def said(folder: LabelFolder) -> str:
    """What the console shows."""
    return str(folder.console.file.getvalue())  # type: ignore[attr-defined]


def book_of(folder: LabelFolder, **wanted: Any) -> tuple[Codebook, str]:
    options, chosen = CodebookOptions(folder.path / "codebook.md", **wanted), LabelOptions(**PLAIN)  # type: ignore[arg-type]
    with opened_source(folder.path / "in.csv", chosen, folder.environment, asking=False) as opened:
        book = collect(*opened, options)
    _write_codebook(book, options, folder.console)
    return book, options.out.read_text()


def test_a_label_has_examples_that_people_confirmed_and_what_is_given_instead(folder: LabelFolder) -> None:
    before = folder.server.count()
    book, page = book_of(folder)
    sad = book.questions["label"].labels[SAD]
    assert sad.confirmed == 6
    assert {example.human for example in sad.examples} == {SAD}
    [(instead, confusion)] = sad.frequent
    assert (instead, confusion.people_tasks) == ("Glad", 6)
    assert confusion.against_people["green"] == 6
    assert "rain" in page
    assert folder.server.count() == before


def test_models_that_differ_from_people_are_told_apart_from_those_that_differ_from_the_vote(
    folder: LabelFolder,
) -> None:
    labels = book_of(folder)[0].questions["label"].labels
    confusions = [each for label in labels.values() for each in label.confusions.values()]
    rain = sum("rain" in text for text in TEXTS)
    blind_rain = sum("rain" in row["text"] for row in folder.rows("blind.csv"))
    assert sum(each.vote_tasks for each in confusions) == rain - blind_rain - 4
    assert sum(each.people_tasks for each in confusions) == 6


def test_blind_tasks_are_counted_and_quoted_only_if_that_is_wanted(folder: LabelFolder) -> None:
    blind = {row["text"] for row in folder.rows("blind.csv")}

    def quoted(book: Codebook) -> set[str]:
        entries = book.questions["label"].labels.values()
        return {text for entry in entries for example in entry.examples for text in example.texts.values()}

    without, with_blind = book_of(folder, examples=99)[0], book_of(folder, examples=99, quote_blind=True)[0]
    assert without.unquoted == 2
    assert not quoted(without) & blind
    assert blind <= quoted(with_blind)


def test_markdown_shows_a_text_as_it_is(folder: LabelFolder) -> None:
    assert r"\*rain\*" in book_of(folder)[1]


def test_the_same_ledger_gives_the_same_bytes(folder: LabelFolder) -> None:
    assert book_of(folder)[1] == book_of(folder)[1]


def test_a_label_without_a_hint_is_named(folder: LabelFolder) -> None:
    assert "No definition yet" in book_of(folder)[1]
    assert "no hint says what Glad, Sad mean" in said(folder)


def test_a_file_without_any_label_has_no_codebook(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, glad_green) as folder:
        folder.table(*TEXTS)
        with pytest.raises(ConfigError, match="no label of people and no vote") as refused:
            book_of(folder)
        assert refused.value.where == "project in"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--into-project",), "is for projects"),
        (("--yes",), "needs --into-project"),
        (("--examples", "-1"), ""),
    ],
)
def test_the_command_refuses_options_that_mean_nothing(
    tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    (tmp_path / "in.csv").write_text("text\na\n")
    plain = ("in.csv", "--labels", "Glad,Sad", "--text-column", "text")
    ended = called("codebook", *plain, *options, cwd=tmp_path)
    assert ended.returncode == 2
    assert problem in ended.stderr


def moods(body: dict[str, Any]) -> Reply:
    rain = "rain" in prompt_of(body) and body["model"] == "red"
    return Reply.says({"mood": SAD if rain else "Glad"})


WRITTEN = "Judge the writer.\n\nNot the reader."


class Project:
    """A project of Label Studio whose tasks are labelled."""

    def __init__(self, api: LabelStudioApi, folder: LabelFolder) -> None:
        self.api, self.folder = api, folder
        api.project["expert_instruction"] = WRITTEN
        api.add_tasks("rain <b>", "sun")
        self.label()

    def label(self) -> None:
        options, folder = LabelOptions(), self.folder
        _predict_in_process(self.api.client(), PROJECT, options, folder.environment, folder.console)

    def write(self, *, yes: bool = True) -> None:
        client, options = self.api.client(), LabelOptions()
        source = client, PROJECT
        with opened_source(source, options, self.folder.environment, asking=False) as opened:
            book = collect(*opened, CodebookOptions(self.folder.path / "codebook.md"))
        _write_into_project(client, PROJECT, book, self.folder.console, yes=yes)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with LabelStudioApi() as api, LabelFolder(tmp_path, moods) as folder:
        yield Project(api, folder)


def test_a_codebook_in_the_project_is_for_people_and_asks_nobody_again(project: Project) -> None:
    project.write()
    text = project.api.project["expert_instruction"]
    assert text.startswith(f"{WRITTEN}\n<p>{FOR_PEOPLE_ONLY}</p>")
    assert "<h4>Glad</h4>" in text
    before = project.folder.server.count()
    project.label()
    assert project.folder.server.count() == before


def test_a_codebook_is_shown_and_not_written_without_yes(project: Project) -> None:
    with pytest.raises(ConfigError, match="nothing was changed"):
        project.write(yes=False)
    assert project.api.project["expert_instruction"] == WRITTEN
    assert "+<h4>Glad</h4>" in said(project.folder)


def test_a_second_codebook_replaces_the_first_and_shows_what_it_replaces(project: Project) -> None:
    project.write()
    first = project.api.project["expert_instruction"]
    project.api.project["expert_instruction"] = first.replace("Codebook", "Codebook of May")
    project.write()
    assert project.api.project["expert_instruction"] == first
    assert "-<h2>Codebook of May</h2>" in said(project.folder)


def test_the_instructions_are_put_back_if_label_studio_changes_what_models_read(project: Project) -> None:
    def garbled(method: str, path: str) -> None:
        if method == "PATCH" and not project.api.answers:
            body = {**project.api.project, "expert_instruction": "something else"}
            project.api.answers[method, path] = (200, body)

    project.api.before = garbled
    with pytest.raises(ConfigError, match="were put back"):
        project.write()
    bodies = [body for method, _, body in project.api.requests if method == "PATCH"]
    assert bodies[-1] == {"expert_instruction": WRITTEN}
