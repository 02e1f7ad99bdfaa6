"""``camvo label --project``: predictions for Label Studio without a server."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from batch_provider import BatchServer
from label_studio_api import PROJECT, LabelStudioApi
from labelling import LabelFolder
from whole_backend import prompt_of

from backend.commands.bulk import batch_run
from backend.commands.bulk.predicting import Tally
from backend.commands.bulk.quoting import quote_project
from backend.commands.label.project import predict_in_process
from backend.commands.shared.options import LabelOptions
from backend.ledger import money, projects
from backend.quotes.quote import Quote
from backend.testing import Reply


def glad_unless_broken(body: dict[str, object]) -> Reply:
    return Reply.fails(400) if "broken" in prompt_of(body) else Reply.says({"mood": "Glad"})


def run(api: LabelStudioApi, folder: LabelFolder, out: Path | None = None, **options: object) -> Tally:
    return predict_in_process(*needed(api, folder, options), out=out)


def quote(api: LabelStudioApi, folder: LabelFolder, **options: object) -> Quote:
    return quote_project(*needed(api, folder, options))


def needed(api: LabelStudioApi, folder: LabelFolder, options: dict[str, Any]) -> tuple[Any, ...]:
    """What a run and a quote of the project need."""
    return api.client(), PROJECT, LabelOptions(**options), folder.environment, folder.console


def test_every_task_gets_a_prediction_in_label_studio_and_a_second_run_buys_nothing(tmp_path: Path) -> None:
    with LabelStudioApi() as api, LabelFolder(tmp_path, glad_unless_broken) as folder:
        numbers = api.add_tasks("a", "b", "c")
        assert run(api, folder).created == 3
        assert [task for task, *_ in api.predictions()] == numbers
        bought = folder.server.count()
        assert run(api, folder).unchanged == 3
        assert folder.server.count() == bought


def test_the_ledger_holds_the_project_under_the_servers_key(tmp_path: Path) -> None:
    with LabelStudioApi() as api, LabelFolder(tmp_path, glad_unless_broken) as folder:
        api.add_tasks("a")
        run(api, folder)
        with folder.ledger.read() as connection:
            assert projects.get(connection, api.project_key) is not None


def test_retry_failed_asks_about_the_failed_tasks_of_the_project_alone(tmp_path: Path) -> None:
    with LabelStudioApi() as api, LabelFolder(tmp_path, glad_unless_broken) as folder:
        broken, *_ = api.add_tasks("broken", "b")
        assert run(api, folder).failed == {"model_rejected": 1}
        folder.server.script = lambda body: Reply.says({"mood": "Sad"})
        api.add_tasks("new")
        assert run(api, folder, retry_failed=True).created == 1
        assert broken in {task for task, *_ in api.predictions()}
        assert len(api.predictions()) == 2


def test_a_budget_leaves_tasks_without_a_prediction(tmp_path: Path) -> None:
    with LabelStudioApi() as api, LabelFolder(tmp_path, glad_unless_broken) as folder:
        api.add_tasks("a")
        assert run(api, folder, budget=0.0).failed == {"budget_exhausted": 1}
        assert folder.server.count() == 0


def test_out_writes_the_labels_to_a_file_too(tmp_path: Path) -> None:
    with LabelStudioApi() as api, LabelFolder(tmp_path, glad_unless_broken) as folder:
        numbers = api.add_tasks("a", "broken", "a")
        run(api, folder, tmp_path / "out.csv")
        rows = folder.rows()
        assert [row["camvo_id"] for row in rows] == [str(number) for number in numbers]
        assert [row["camvo_label"] for row in rows] == ["Glad", "", "Glad"]
        assert [row["camvo_error"] for row in rows] == ["", "model_rejected", ""]
        assert [row["text"] for row in rows] == ["a", "broken", "a"]
        with folder.ledger.read() as connection:
            bill = money.balance(connection, api.project_key, money.TOTAL).spent / 1e12
        assert sum(float(row["camvo_cost_usd"]) for row in rows) == pytest.approx(bill)
        assert len(api.predictions()) == 2


def test_the_same_command_writes_the_same_file_and_buys_nothing(tmp_path: Path) -> None:
    with LabelStudioApi() as api, LabelFolder(tmp_path, glad_unless_broken) as folder:
        api.add_tasks("a", "b")
        run(api, folder, tmp_path / "out.csv")
        before, bought = (tmp_path / "out.csv").read_bytes(), folder.server.count()
        run(api, folder, tmp_path / "out.csv")
        assert (tmp_path / "out.csv").read_bytes() == before
        assert folder.server.count() == bought


def test_a_column_that_appears_during_the_run_is_left_out(tmp_path: Path) -> None:
    with LabelStudioApi() as api, LabelFolder(tmp_path, glad_unless_broken) as folder:
        [number] = api.add_tasks("a")

        def change(method: str, path: str) -> None:
            if method == "POST":
                api.tasks[number]["data"]["new"] = "later"

        api.before = change
        run(api, folder, tmp_path / "out.csv")
        assert "new" not in folder.rows()[0]


def test_a_pilot_asks_everyone_about_random_tasks_of_the_project(tmp_path: Path) -> None:
    with (
        LabelStudioApi() as api,
        LabelFolder(tmp_path, glad_unless_broken, policy=None, concurrency=8) as folder,
    ):
        api.add_tasks(*(f"text {number}" for number in range(48)))
        said = quote(api, folder, pilot=40)
        assert folder.server.count() == 2 * 40
        assert (said.to_come, said.evidence.rounds) == (8, 40)
        assert api.predictions() == []
        assert run(api, folder, pilot=40).created == 48
        assert folder.server.count() <= 2 * 48


def test_tasks_of_a_page_are_planned_one_after_another_so_that_they_learn(tmp_path: Path) -> None:
    released = threading.Event()

    def script(body: dict[str, object]) -> Reply:
        if folder.server.count() >= 6:
            released.set()
        return Reply.says({"mood": "Glad"}).held_until(released)

    with LabelStudioApi() as api, LabelFolder(tmp_path, script, concurrency=3) as folder:
        api.add_tasks(*(f"text {number}" for number in range(9)))
        assert run(api, folder).created == 9
        assert folder.server.most_at_once == 6  # three tasks with two models each


def folder_with_batches(path: Path, **of_models: object) -> LabelFolder:
    server = BatchServer(lambda body: Reply.answers(body, lambda text: {"mood": "Glad"}))
    of_models = {"batch_discount": 0.5, "pack": 3, **of_models}
    return LabelFolder(path, server.script, server=server, of_models=of_models)


@pytest.mark.parametrize(("of_models", "options"), [({"batch": True}, {}), ({}, {"batch": True})])
def test_the_quote_of_a_project_is_at_the_price_of_batches(
    tmp_path: Path, of_models: dict[str, object], options: dict[str, object]
) -> None:
    with LabelStudioApi() as api, folder_with_batches(tmp_path, **of_models) as folder:
        api.add_tasks(*(f"text {at}" for at in range(6)))
        [on] = [lever for lever in quote(api, folder, **options).levers if lever.on]
        assert (on.batch, on.pack) == (True, 3)


def test_batches_are_sent_waited_for_and_stored_as_predictions(tmp_path: Path) -> None:
    with LabelStudioApi() as api, folder_with_batches(tmp_path) as folder:
        numbers = api.add_tasks(*(f"text {at}" for at in range(6)))
        with patch.object(batch_run, "_FIRST_PAUSE", 0.02):
            tally = run(api, folder, batch=True, wait=True)
        assert (tally.created, tally.left, tally.unchanged) == (6, 0, 0)
        assert sorted(task for task, *_ in api.predictions()) == sorted(numbers)
        assert not folder.server.at_once
        assert {len(batch.lines) for batch in folder.server.batches.values()} == {2}


def test_without_waiting_tasks_wait_for_their_batches_until_the_command_is_run_again(tmp_path: Path) -> None:
    with LabelStudioApi() as api, folder_with_batches(tmp_path) as folder:
        api.add_tasks(*(f"text {at}" for at in range(3)))
        folder.server.ends = lambda batch: False
        tally = run(api, folder, batch=True)
        assert (tally.waiting, tally.left, tally.created) == (3, 3, 0)
        folder.server.ends = lambda batch: True
        assert run(api, folder, batch=True).created == 3
        assert set(folder.server.bought.values()) == {1}


def test_models_read_the_projects_instructions(tmp_path: Path) -> None:
    with LabelStudioApi() as api, LabelFolder(tmp_path, glad_unless_broken) as folder:
        api.project["expert_instruction"] = "<p>Judge the writer.</p>"
        api.add_tasks("a")
        run(api, folder)
        assert all("> Judge the writer." in prompt_of(request.body) for request in folder.server.requests)
