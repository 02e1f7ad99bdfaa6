"""What the status page says of a labelled file, which no Label Studio knows."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from labelling import LabelFolder, always
from rich.console import Console
from sqlalchemy import delete

from backend.commands.report import print_report
from backend.commands.shared.certificate import _outcome_lines
from backend.commands.teach import teach_file
from backend.ledger import projects
from backend.ledger.database import tables
from backend.server.status.build import build_report, render_page
from backend.server.status.formats import dollars
from backend.server.status.report import ProjectReport
from backend.settings import load
from backend.testing import Reply


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LabelFolder]:
    with LabelFolder(tmp_path, always("Glad")) as folder:
        yield folder


def reported(folder: LabelFolder, project: str = "in") -> ProjectReport:
    loaded = load(folder.environment.config)
    with folder.ledger.read() as connection:
        [found] = build_report(connection, loaded, now=2.0, project=project).projects
    return found


def test_failed_tasks_and_an_empty_budget_name_the_command_that_labels_the_file(folder: LabelFolder) -> None:
    folder.table("lovely", "awful")
    folder.label(budget=0.0)
    project = reported(folder)
    again = "then run camvo label … --name in"
    assert {reason.code for reason in project.failed} == {"budget_exhausted"}
    assert all(reason.fix.endswith(again) for reason in project.failed), "tasks behind it were not even tried"
    [refused] = [alert for alert in project.alerts if alert.code == "budget_exhausted"]
    assert again in refused.fix
    said = json.dumps([[alert.fix for alert in project.alerts], [reason.fix for reason in project.failed]])
    assert "camvo predict" not in said
    assert "camvo connect" not in said


def test_a_count_of_tasks_that_is_out_of_date_is_raised_by_the_tasks_without_a_label(
    folder: LabelFolder,
) -> None:
    folder.server.script = lambda body: Reply.fails(400) if "broken" in str(body) else Reply.says("Glad")
    folder.table("lovely", "broken")
    folder.label()
    with folder.ledger.write() as connection:
        projects.remember(connection, "in", task_number=1, now=1.0)
    assert (reported(folder).progress.predicted, reported(folder).progress.tasks) == (1, 2)


def test_labels_nobody_could_vote_on_are_asked_for_again_with_another_attempt(folder: LabelFolder) -> None:
    folder.server.script = lambda body: Reply.says("What a day!")
    folder.table("lovely")
    for _ in range(4):  # the fourth finds all attempts used up
        folder.label()
    assert "--retry-failed makes one more attempt" in reported(folder).failed[0].fix


def test_scores_that_are_off_and_missing_people_are_cured_by_blind_labels_and_teaching(
    folder: LabelFolder,
) -> None:
    folder.table(*(f"text {number}" for number in range(30)))
    folder.label(blind=20)
    assert "in blind.csv, and give them to camvo teach" in fix_of(folder, "no_human_answer")


def test_people_are_asked_under_another_name_where_every_label_was_shown(folder: LabelFolder) -> None:
    folder.table("lovely")
    folder.label()
    assert "--name in-blind --blind 300 writes a sample for people" in fix_of(folder, "no_human_answer")


def fix_of(folder: LabelFolder, code: str) -> str:
    return next(alert for alert in reported(folder).alerts if alert.code == code).fix


def test_the_report_of_a_file_names_tasks_as_its_blind_file_does_and_asked_models_alone(
    folder: LabelFolder,
) -> None:
    folder.table(*(f"text {number}" for number in range(30)))
    folder.label(blind=20)
    [row, *_] = folder.rows("blind.csv")
    folder.change("blind.csv", **{row["text"]: "Sad"})
    teach_file(folder.path / "blind.csv", folder.path / "camvo.yaml")
    without_models = folder.environment.model_copy(update={"config": None})
    console = Console(file=io.StringIO(), width=200)
    print_report(console, without_models, project="in", as_json=False)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert row["camvo_task"] in said
    assert not re.search(r"\d{15}", said), "a number in the ledger, which nobody can look up"
    assert "red" in said
    assert "keywords" not in said


def test_answers_of_an_earlier_job_are_counted_apart_from_what_the_choice_of_models_saved(
    folder: LabelFolder,
) -> None:
    folder.table("lovely", "awful")
    folder.label()
    assert reported(folder).cost.reused == 0
    folder.table("lovely", "awful", name="again.csv")
    folder.label("again.csv")
    again = reported(folder, "again")
    assert (again.cost.rounds_usd, again.cost.reused) == (0.0, 4)
    assert again.cost.reused_usd == pytest.approx(again.cost.every_model_usd)
    said = f"4 answers reused, {dollars(again.cost.reused_usd)} not paid again"
    line = next(_outcome_lines(again))
    assert line.startswith(f"$0 for the votes ({said}); asking everyone would have cost ")
    assert line.endswith(": 0.0% saved by the choice of models")


def test_what_comparisons_cost_beyond_asking_everyone_is_no_saving(folder: LabelFolder) -> None:
    folder.table("lovely", "awful")
    folder.label()
    found = reported(folder)
    found = replace(found, cost=replace(found.cost, saved=-0.02))
    assert next(_outcome_lines(found)).endswith(": 2.0% more was paid")


def test_answers_of_a_run_that_was_stopped_before_it_decided_their_task_count_as_paid(
    folder: LabelFolder,
) -> None:
    folder.table("lovely", "awful")
    folder.label()
    with folder.ledger.write() as connection:  # as if the process had been killed here
        connection.execute(delete(tables.rounds))
    folder.label()
    cost = reported(folder).cost
    assert cost.reused == 0
    assert cost.rounds_usd == pytest.approx(cost.budget.spent_usd)


@pytest.mark.parametrize("configured", [True, False])
@pytest.mark.parametrize(("model", "nominal"), [("keywords", True), ("red", False)])
def test_the_prices_of_embedded_voters_are_called_nominal(
    tmp_path: Path, model: str, nominal: bool, configured: bool
) -> None:
    with LabelFolder(tmp_path, always("Glad"), models=(model,)) as folder:
        folder.table("lovely")
        folder.label()
        loaded = load(None if nominal else folder.environment.config)
        with folder.ledger.read() as connection:
            [project] = build_report(connection, loaded, now=2.0, configured=configured).projects
    assert ("(nominal: embedded voters are free)" in next(_outcome_lines(project))) is nominal


def test_the_page_of_a_file_says_nothing_of_label_studio(folder: LabelFolder) -> None:
    folder.table("lovely")
    folder.label()
    with folder.ledger.read() as connection:
        report = build_report(connection, load(folder.environment.config), now=2.0)
    page = render_page(report, overview=False)
    assert "camvo label with --blind 300 keeps a sample blind" in page
    for words in ("In Label Studio", "Last webhook", "Set audit"):
        assert words not in page


def test_what_was_counted_for_calls_that_timed_out_is_named(tmp_path: Path) -> None:
    never = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        return Reply.says("Glad").held_until(never) if body["model"] == "red" else Reply.says("Glad")

    with LabelFolder(tmp_path, script, models={"red": {"timeout": 0.2}, "green": {}}) as folder:
        folder.table("lovely")
        folder.label(no_wait=True)
        project = reported(folder)
        never.set()
    cost = project.cost
    assert cost.timeouts_usd == pytest.approx(cost.budget.spent_usd - cost.rounds_usd)
    assert cost.timeouts_usd > 0.0
    said = f"{dollars(cost.timeouts_usd)} for calls that timed out or broke off, which providers may bill"
    assert said in [*_outcome_lines(project)]


def test_an_estimate_of_new_instructions_says_that_it_leaves_out_labels_of_earlier_ones(
    folder: LabelFolder,
) -> None:
    def said() -> tuple[str, str]:
        console = Console(file=io.StringIO(), width=200)
        print_report(console, folder.environment, project="in", as_json=False)
        with folder.ledger.read() as connection:
            report = build_report(connection, load(folder.environment.config), now=2.0)
        return console.file.getvalue(), render_page(report, overview=False)  # type: ignore[attr-defined]

    folder.table("lovely", "awful")
    folder.label()
    assert "labelled tasks only" not in "".join(said())
    path = folder.path / "camvo.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "instructions": "Be brave."}))
    folder.table("lovely", "awful", "calm")
    folder.label()
    printed, page = said()
    assert "; about 1 of 3 labelled tasks only" in printed
    assert "This is about 1 of 3 labelled tasks only." in page
