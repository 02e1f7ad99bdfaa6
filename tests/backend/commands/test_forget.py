"""``camvo ledger forget`` beside a running backend: its output, and what the backend does next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import called
from label_studio_requests import Annotation, annotated, setup, task
from label_studio_requests import Project as StudioProject
from whole_backend import Backend, votes

from backend.ledger.human_annotations import Annotations
from backend.ledger.learning_data import LearningRounds

SPLIT = votes(red="Glad", green="Glad", blue="Sad")
GLAD = {"red": (3, 3.0), "green": (3, 3.0), "blue": (3, 0.0)}
"""What the votes on three tasks teach."""


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    """Three tasks with two votes for "Glad" of three; annotator 7 says "Sad" twice, annotator 8 once."""
    with Backend(tmp_path, SPLIT) as backend:
        backend.post("/setup", setup(StudioProject()))
        backend.predict(*(task(number) for number in (1, 2, 3)))
        for number, user in ((1, 7), (2, 7), (3, 8)):
            backend.hook(annotated(Annotation(number, number, "Sad", user=user, ground_truth=number == 2)))
        yield backend


def forget(folder: Path, *arguments: str) -> Any:
    environment = {"CAMVO_DATABASE_URL": f"sqlite:///{folder / 'ledger.sqlite'}", "COLUMNS": "80"}
    return called(
        "ledger", "forget", *arguments, "--config", str(folder / "camvo.yaml"), cwd=folder, **environment
    )


def humans(backend: Backend) -> list[str | None]:
    return [backend.rounds(number)[0].human for number in (1, 2, 3)]


def test_the_running_backend_plans_without_the_labels_and_with_them_again(
    backend: Backend, tmp_path: Path
) -> None:
    done = forget(tmp_path, "--annotator", "7", "--yes")
    assert done.stdout == (
        "2 annotations to withdraw (1 of them ground truth), on 2 tasks with 2 rounds, in 1 project\n"
        "The labels are withdrawn. 2 rounds teach something else now.\n"
    )
    backend.predict(task(4))
    agreement = {arm: row["agreement"] for arm, row in backend.rounds(4)[0].plan["arms"].items()}
    assert agreement == {
        "red": pytest.approx(2 / 3),
        "green": pytest.approx(2 / 3),
        "blue": pytest.approx(1 / 3),
    }
    assert forget(tmp_path, "--annotator", "7", "--undo", "--yes").stdout == (
        "2 annotations to bring back (1 of them ground truth), on 2 tasks with 2 rounds, in 1 project\n"
        "The labels are back. 2 rounds teach something else now.\n"
    )
    backend.predict(task(5))
    agreement = {arm: row["agreement"] for arm, row in backend.rounds(5)[0].plan["arms"].items()}
    assert agreement == {"red": 0.25, "green": 0.25, "blue": 0.75}  # task 4 has taught, too


def test_one_task_or_a_whole_project_can_be_forgotten(backend: Backend, tmp_path: Path) -> None:
    assert forget(tmp_path, "--project", "7", "--task", "3", "--yes").returncode == 0
    assert humans(backend) == ["Sad", "Sad", None]
    assert forget(tmp_path, "--project", StudioProject().key, "--yes").returncode == 0
    assert humans(backend) == [None, None, None]
    assert backend.learnt() == GLAD
    assert forget(tmp_path, "--project", "7", "--undo", "--yes").returncode == 0
    assert humans(backend) == ["Sad", "Sad", "Sad"]


def test_a_dry_run_changes_nothing(backend: Backend, tmp_path: Path) -> None:
    events = len(backend.events())
    done = forget(tmp_path, "--annotator", "7", "--dry-run")
    assert done.stdout.startswith("2 annotations to withdraw")
    assert done.stdout.endswith("Nothing was changed.\n")
    assert (humans(backend), len(backend.events())) == (["Sad", "Sad", "Sad"], events)


def test_without_a_terminal_it_must_be_told_to_go_on(backend: Backend, tmp_path: Path) -> None:
    done = forget(tmp_path, "--annotator", "7")
    assert (done.returncode, done.stderr) == (
        2,
        "camvo: forget: there is no terminal to ask (add --yes or --dry-run)\n",
    )
    assert humans(backend) == ["Sad", "Sad", "Sad"]


def test_with_nothing_to_withdraw_it_says_so_and_does_not_ask(backend: Backend, tmp_path: Path) -> None:
    done = forget(tmp_path, "--annotator", "99")
    assert (done.returncode, done.stderr) == (0, "")
    assert "There is nothing to withdraw." in done.stdout
    with backend.ledger.read() as connection:
        assert Annotations(connection, StudioProject().key).withdrawals() == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "nothing says whose labels"),
        (("--task", "3"), "a task belongs to a project"),
        (("--project", "999"), "the ledger has no project '999'"),
        (("--annotator", "7", "--undo", "--from-now-on"), "--undo always covers later labels"),
    ],
)
def test_options_that_do_not_fit_together_are_one_line(
    backend: Backend, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    done = forget(tmp_path, *arguments, "--yes")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_labels_since_a_day_or_from_now_on(backend: Backend, tmp_path: Path) -> None:
    assert forget(tmp_path, "--annotator", "7", "--since", "2099-01-01", "--yes").returncode == 0
    assert humans(backend) == ["Sad", "Sad", "Sad"]
    assert (
        forget(tmp_path, "--annotator", "7", "--since", "2026-01-01", "--from-now-on", "--yes").returncode
        == 0
    )
    backend.hook(annotated(Annotation(9, 1, "Sad", user=7, updated="2099-05-01T00:00:00Z")))
    assert humans(backend) == [None, None, "Sad"]


def test_the_report_counts_withdrawn_labels_and_the_review_lists_their_tasks(
    backend: Backend, tmp_path: Path
) -> None:
    forget(tmp_path, "--annotator", "7", "--yes")
    [project] = backend.client.get("/status", headers={"Accept": "application/json"}).get_json()["projects"]
    counted = {name: project["humans"][name] for name in ("annotations", "teaching", "tasks", "withdrawn")}
    assert counted == {"annotations": 3, "teaching": 1, "tasks": 1, "withdrawn": 2}
    assert project["humans"]["ground_truths"] == 0
    page = backend.client.get("/status", headers={"Accept": "text/html"}).text
    assert "3 annotations, 1 of which teach, 2 withdrawn" in page
    database = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    done = called("review", "--project", "7", cwd=tmp_path, CAMVO_DATABASE_URL=database)
    assert "2 tasks have a prediction and no annotation." in done.stdout


def test_withdrawn_labels_are_no_examples(tmp_path: Path) -> None:
    def examples() -> list[int]:
        [round_] = backend.rounds(1)
        with backend.ledger.read() as connection:
            labelled = LearningRounds(connection, round_.key.project, "mood", round_.key.epoch).examples()
        return [example.task for example in labelled]

    with Backend(tmp_path, SPLIT, few_shot=2) as backend:
        backend.post("/setup", setup(StudioProject()))
        backend.predict(task(1))
        said = annotated(Annotation(1, 1, "Sad", user=7))
        backend.hook({**said, "task": task(1)})
        assert examples() == [1]
        forget(tmp_path, "--annotator", "7", "--yes")
        assert examples() == []
        forget(tmp_path, "--annotator", "7", "--undo", "--yes")
        assert examples() == [1]
