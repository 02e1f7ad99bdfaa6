"""Which tasks hold a wanted share of those with a label, by the blind labels in a ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import migrated
import pytest
from blind_project import BlindProject, random_label, settings
from stored_rounds import PROJECT

from backend.commands.shared.certificate import _outcome_lines
from backend.ledger import Ledger, deletions
from backend.server.status.build import build_report, render_page
from backend.server.status.report import ProjectReport, RecallReport
from backend.settings import PolicySettings
from camvo.policies.parameters import ByLabel

TASKS = 900


def score_of(task: int) -> float:
    """The models' score of Odd: high for most of the odd tasks, and for some others."""
    return 0.9 if task % 10 < 2 else 0.3 if task % 10 < 4 else 0.01


def human(task: int) -> str:
    odd = task % 10 < 2 or task % 50 == 2
    return "Odd" if odd else random_label("others", task, ("Glad", "Sad"))


def plan(scores: Mapping[str, float] | None) -> dict[str, object]:
    likely = {} if scores is None else {"likely": dict(scores)}
    return {"arms": {}, "aggregation": {"name": "labels"}, "labels": ["Glad", "Odd", "Sad"], **likely}


def predicted(ledger: Ledger) -> BlindProject:
    project = BlindProject(ledger, audit=0.7)
    project.predict(["Glad"] * TASKS, lambda task: plan({"Odd": score_of(task)}))
    return project


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlindProject]:
    """A predicted project, which tests copy."""
    with closing(Ledger(migrated.sqlite(tmp_path_factory.mktemp("first") / "ledger.sqlite"))) as ledger:
        yield predicted(ledger)


@pytest.fixture(scope="module")
def labelled(first: BlindProject, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlindProject]:
    """The same, all of whose blind tasks people have labelled."""
    with first.copied(tmp_path_factory.mktemp("labelled") / "ledger.sqlite") as project:
        project.answer(project.queue, human)
        yield project


@pytest.fixture
def project(first: BlindProject, tmp_path: Path) -> Iterator[BlindProject]:
    with first.copied(tmp_path / "ledger.sqlite") as project:
        yield project


@pytest.fixture
def answered(labelled: BlindProject, tmp_path: Path) -> Iterator[BlindProject]:
    with labelled.copied(tmp_path / "ledger.sqlite") as project:
        yield project


@pytest.fixture(params=["sqlite", "postgresql"])
def on_both(request: pytest.FixtureRequest) -> Iterator[BlindProject]:
    """The project in either kind of database, for what databases might do differently."""
    if request.param == "sqlite":
        yield request.getfixturevalue("project")
        return
    make: Callable[[], str] = request.getfixturevalue("migrated_postgres_url")
    with closing(Ledger(make())) as ledger:
        yield predicted(ledger)


def report(
    ledger: Ledger, target: float = 0.9, label: str = "Odd", *, certificates: bool = True
) -> ProjectReport:
    policy = PolicySettings(name="joint", recall=ByLabel({label: target}))
    with ledger.read() as connection:
        built = build_report(connection, settings(policy=policy), now=2.0, certificates=certificates)
    [found] = built.projects
    return found


def recall(ledger: Ledger, target: float = 0.9) -> RecallReport:
    [question] = report(ledger, target).questions
    [sought] = question.recall
    return sought


def test_the_tasks_found_hold_the_share_of_the_label(on_both: BlindProject) -> None:
    on_both.answer(on_both.queue, human)
    sought = recall(on_both.ledger)
    assert sought.found is not None
    assert sought.found.sure.threshold == 0.3
    assert sought.found.tasks == sum(score_of(task) >= 0.3 for task in range(1, TASKS + 1))
    odd = [task for task in range(1, TASKS + 1) if human(task) == "Odd"]
    assert sum(score_of(task) >= 0.3 for task in odd) >= 0.9 * len(odd)
    assert (sought.tasks, sought.beyond, sought.needed) == (TASKS, 0, 0)


def test_a_lower_share_is_among_fewer_tasks(answered: BlindProject) -> None:
    easier = {each.target: each.tasks for each in recall(answered.ledger).easier}
    assert easier[0.8] == sum(score_of(task) >= 0.9 for task in range(1, TASKS + 1))
    assert recall(answered.ledger, 0.75).easier[0].target == 0.7


def test_the_outcome_says_which_tasks_these_are(answered: BlindProject) -> None:
    lines = [line for line in _outcome_lines(report(answered.ledger)) if "mood: Odd" in line]
    assert lines[0].startswith("mood: Odd: at least 90% is among 360 of 900 tasks (40.0%)")
    assert "a score of it of at least 0.3, with 95% confidence" in lines[0]


def test_without_blind_labels_the_outcome_says_what_is_needed(project: BlindProject) -> None:
    [line] = [line for line in _outcome_lines(report(project.ledger)) if "mood: Odd" in line]
    assert "it is not certified which tasks hold 90%: 0 of 0 blind labels say so" in line
    assert "it needs blind labels; camvo review" in line


def test_with_too_few_blind_labels_the_outcome_says_about_how_many_more_are_needed(
    project: BlindProject,
) -> None:
    project.answer(project.queue[:100], human)
    sought = recall(project.ledger)
    assert sought.found is None
    assert 36 <= sought.needed <= 300
    assert "about" in next(line for line in _outcome_lines(report(project.ledger)) if "mood: Odd" in line)


def test_a_label_that_votes_cannot_tell_is_said_to_be_so(sqlite_ledger: Ledger) -> None:
    project = BlindProject(sqlite_ledger, audit=0.7)
    project.predict(["Glad"] * TASKS, plan=plan({"Odd": 0.2}))
    project.answer(project.queue, human)
    lines = [line for line in _outcome_lines(report(sqlite_ledger)) if "mood: Odd" in line]
    assert lines[0].startswith("mood: Odd: at least 90% is among 900 of 900 tasks (100.0%)")
    assert "the votes hardly tell where it is" in lines[1]


def test_rounds_from_before_the_recall_was_set_count_as_not_found(sqlite_ledger: Ledger) -> None:
    project = BlindProject(sqlite_ledger, audit=0.7)
    project.predict(
        ["Glad"] * TASKS, lambda task: plan(None if task <= TASKS // 2 else {"Odd": score_of(task)})
    )
    project.answer(project.queue, human)
    sought = recall(sqlite_ledger, 0.8)
    assert sought.found is not None
    assert (sought.found.sure.threshold, sought.found.tasks) == (0.0, TASKS)


def test_tasks_that_came_after_the_blind_labels_are_not_covered(answered: BlindProject) -> None:
    answered.predict(["Glad"] * 300, plan=plan({"Odd": 0.01}))
    sought = recall(answered.ledger)
    assert (sought.tasks, sought.beyond) == (TASKS, 300)
    assert any("300 other tasks not covered" in line for line in _outcome_lines(report(answered.ledger)))


def test_blind_tasks_that_were_deleted_count_as_missed(on_both: BlindProject) -> None:
    on_both.answer(on_both.queue, human)
    kept = recall(on_both.ledger).found
    gone = [task for task in on_both.queue if human(task) != "Odd"][:80]
    with on_both.ledger.write() as connection:
        deletions.mark_deleted(connection, PROJECT, gone, now=3.0)
        deletions.forget_deleted(connection, PROJECT, gone)
    assert kept is not None
    sought = recall(on_both.ledger)
    assert sought.found is None or sought.found.sure.threshold < kept.sure.threshold


def test_a_label_of_another_question_is_not_sought(project: BlindProject) -> None:
    [question] = report(project.ledger, label="Elsewhere").questions
    assert question.recall == ()


def test_the_server_says_how_many_blind_labels_have_the_label(answered: BlindProject) -> None:
    [question] = report(answered.ledger, certificates=False).questions
    [sought] = question.recall
    assert (sought.blind, sought.labelled) == (
        len(answered.queue),
        sum(human(task) == "Odd" for task in answered.queue),
    )
    assert sought.found is None
    assert sought.enough


def test_the_page_says_what_a_sought_label_still_needs(project: BlindProject) -> None:
    policy = PolicySettings(name="joint", recall=ByLabel({"Odd": 0.9}))
    pages = []
    for answered in (0, 60, len(project.queue)):
        project.answer(project.queue[:answered], human)
        with project.ledger.read() as connection:
            built = build_report(connection, settings(policy=policy), now=2.0)
        pages.append(" ".join(render_page(built, overview=False).split()))
    assert "90% of the tasks with the label Odd are sought." in pages[0]
    assert "blind labels may certify which tasks hold them" in pages[1]
    assert "<code>camvo report</code> says which tasks hold them" in pages[2]
