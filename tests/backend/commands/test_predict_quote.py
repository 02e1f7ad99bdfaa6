"""The quote of ``camvo predict``: counted by the server, and agreed to before anything is spent."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import typer
from label_studio_api import KEY, PROJECT, LabelStudioApi
from label_studio_requests import SENTIMENT, Project, predict, task
from rich.console import Console
from served_app import served
from whole_backend import CALL, Backend, says, votes

from backend.commands.bulk import quoting as output
from backend.commands.bulk.predict_command import _quote_of_run, predict_project
from backend.commands.bulk.predicting import PredictionRun
from backend.commands.bulk.quoting import RandomSample, _print_quote
from backend.commands.shared.backend_client import BackendClient
from backend.commands.shared.options import LabelOptions
from backend.errors import BackendError, BodyTooLargeError, ConfigError
from backend.ledger import money
from backend.ledger.rounds import ProjectRounds
from backend.quotes.quote import Quote, Range
from backend.server.status.formats import dollars
from backend.testing import Reply
from camvo.student import STUDENT

GLAD = votes(red="Glad", green="Glad", blue="Sad")
DEAR = {"output_price": 20_000.0}


@pytest.fixture
def api(api: LabelStudioApi, monkeypatch: pytest.MonkeyPatch) -> LabelStudioApi:
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", KEY)
    return api


def run(api: LabelStudioApi, client: BackendClient, **given: Any) -> int:
    return predict_project(PROJECT, LabelOptions(**{"at_once": 2, **given}), api.url, client.url)


def quoted(api: LabelStudioApi, client: BackendClient, **changes: Any) -> Quote:
    options = {
        "project": PROJECT,
        "key": api.project_key,
        "label_config": SENTIMENT,
        "model_version": "camvo",
        **changes,
    }
    asked = PredictionRun(client=api.client(), predictor=client, batch=2, **options)
    return _quote_of_run(client, asked, len(api.tasks), Console(file=io.StringIO()))


def test_a_quote_calls_a_project_by_its_number() -> None:
    console, free = Console(file=io.StringIO(), width=200), Range(0.0, 0.0)
    evidence: Any = None  # nothing is said of tasks that are to come, because none is
    _print_quote(console, Quote("7.1772357415", "joint", 3, 0, 0, {}, free, free, None, evidence, (), 0.0))
    assert console.file.getvalue().startswith("project 7: 3 tasks")  # type: ignore[attr-defined]


def test_predict_advises_no_option_that_it_lacks(
    api: LabelStudioApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "camvo.yaml").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BackendError):
        predict_project(PROJECT, LabelOptions(), api.url, "http://127.0.0.1:1")
    assert "--config" not in capsys.readouterr().err


def spent(backend: Backend, api: LabelStudioApi, scope: str = money.TOTAL) -> float:
    with backend.ledger.read() as connection:
        return money.balance(connection, api.project_key, scope).spent / 1e12


def predicted_by(backend: Backend, api: LabelStudioApi, number: int) -> int:
    """How many models have voted on a task."""
    with backend.ledger.read() as connection:
        [round_] = ProjectRounds(connection, api.project_key).of_task(number)
        return len(round_.votes.keys() - {STUDENT})


def test_the_server_quotes_all_pages_and_asks_no_model(tmp_path: Path, api: LabelStudioApi) -> None:
    api.add_tasks(*"abcde")
    with Backend(tmp_path, GLAD, policy={"name": "majority"}) as backend, served(backend.app) as client:
        said = quoted(api, client)
        assert (said.project, said.tasks, said.to_come) == (api.project_key, 5, 5)
        assert said.everyone.low < said.everyone.high
        assert backend.server.count() == 0


def test_a_project_without_open_tasks_is_quoted_too(tmp_path: Path, api: LabelStudioApi) -> None:
    with Backend(tmp_path, GLAD) as backend, served(backend.app) as client:
        said = quoted(api, client)
        assert (said.tasks, said.to_come, said.bill.high) == (0, 0, 0.0)


CHANGES = {
    "a label is gone": ('<Choice value="Sad"/>', ""),
    "a label is new": ('<Choice value="Sad"/>', '<Choice value="Sad"/><Choice value="Wild"/>'),
    "the labels have another order": (
        '<Choice value="Glad"/><Choice value="Sad"/>',
        '<Choice value="Sad"/><Choice value="Glad"/>',
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_quote_prices_no_task_that_keeps_its_label_after_a_change_of_labels(
    tmp_path: Path, api: LabelStudioApi, change: str
) -> None:
    api.add_tasks("a", "b")
    with Backend(tmp_path, GLAD, policy={"name": "majority"}) as backend, served(backend.app) as client:
        assert run(api, client) == 0
        changed = api.project["label_config"].replace(*CHANGES[change])
        assert changed != api.project["label_config"]
        api.project["label_config"] = changed
        api.add_tasks("c")
        said, calls = quoted(api, client, label_config=changed, refresh=True), backend.server.count()
        assert said.to_come == 1
        run(api, client, refresh=True)
        assert backend.server.count() - calls == 3


def test_once_answers_are_measured_the_bill_is_the_quoted_one(tmp_path: Path, api: LabelStudioApi) -> None:
    api.add_tasks("a", "b")
    with Backend(tmp_path, GLAD, policy={"name": "majority"}) as backend, served(backend.app) as client:
        assert run(api, client) == 0
        api.add_tasks("c", "d", "e")
        said, before = quoted(api, client), spent(backend, api)
        assert said.to_come == 3
        assert run(api, client) == 0
        assert spent(backend, api) - before == pytest.approx(9 * CALL)
        assert said.everyone.high == pytest.approx(9 * CALL, rel=0.05)


def test_new_instructions_ask_about_no_blind_task_again_unless_somebody_says_so(
    tmp_path: Path, api: LabelStudioApi
) -> None:
    api.add_tasks("a", "b")
    settings = {"policy": {"name": "majority"}, "audit": 1.0 - 1e-9}
    with Backend(tmp_path, GLAD, **settings) as backend, served(backend.app) as client:
        assert run(api, client) == 0
        calls = backend.server.count()
        api.project["expert_instruction"] = "Be brave."
        assert run(api, client) == 0
        assert (backend.server.count(), api.predictions()) == (calls, [])
        assert run(api, client, refresh=True, below=1e-6) == 0
        assert backend.server.count() == calls
        assert run(api, client, refresh=True, below=1.0) == 0
        assert backend.server.count() == 2 * calls


def test_the_quote_leaves_out_blind_tasks_that_keep_their_labels(tmp_path: Path, api: LabelStudioApi) -> None:
    api.add_tasks("a", "b")
    settings = {"policy": {"name": "majority"}, "audit": 1.0 - 1e-9}
    with Backend(tmp_path, GLAD, **settings) as backend, served(backend.app) as client:
        assert run(api, client) == 0
        client.instructions, client.below = "Be brave.", 0.0
        assert quoted(api, client).to_come == 0
        client.below = 1.0
        assert quoted(api, client).to_come == 2


def test_a_page_that_is_too_large_is_counted_in_parts(
    tmp_path: Path, api: LabelStudioApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.add_tasks(*"abcd")
    with Backend(tmp_path, GLAD) as backend, served(backend.app) as client:
        count = client.count

        def strict(key: str, config: str, tasks: Any) -> Any:
            if len(tasks) > 1:
                raise BodyTooLargeError("too many")
            return count(key, config, tasks)

        monkeypatch.setattr(client, "count", strict)
        assert quoted(api, client).to_come == 4


def test_below_a_dollar_nobody_is_asked_and_the_jobs_account_pays(
    tmp_path: Path, api: LabelStudioApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.add_tasks("a", "b")
    with Backend(tmp_path, GLAD, policy={"name": "majority"}) as backend, served(backend.app) as client:
        assert run(api, client) == 0
        assert spent(backend, api, money.JOB) == spent(backend, api) == pytest.approx(6 * CALL)
    said = capsys.readouterr().out
    assert said.index("asking everyone: ") < said.index("predictions stored")


def test_without_a_terminal_more_than_a_dollar_needs_consent_and_nothing_is_spent(
    tmp_path: Path, api: LabelStudioApi
) -> None:
    api.add_tasks("a", "b")
    with Backend(tmp_path, GLAD, entries=DEAR) as backend, served(backend.app) as client:
        with pytest.raises(ConfigError, match="nothing was spent"):
            run(api, client)
        assert (backend.server.count(), api.predictions()) == (0, [])


@pytest.mark.parametrize("given", [{"yes": True}, {"budget": 100.0}])
def test_yes_and_a_budget_are_consent(tmp_path: Path, api: LabelStudioApi, given: dict[str, Any]) -> None:
    api.add_tasks("a")
    with Backend(tmp_path, GLAD, entries=DEAR) as backend, served(backend.app) as client:
        assert run(api, client, **given) == 0
        assert len(api.predictions()) == 1


def test_on_a_terminal_a_refusal_ends_the_run_and_nothing_is_spent(
    tmp_path: Path, api: LabelStudioApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.add_tasks("a")
    monkeypatch.setattr(output.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setattr(typer, "confirm", lambda words: False)
    with Backend(tmp_path, GLAD, entries=DEAR) as backend, served(backend.app) as client:
        with pytest.raises(typer.Exit):
            run(api, client)
        assert backend.server.count() == 0


def test_a_resumed_run_goes_on_counting_its_budget(tmp_path: Path, api: LabelStudioApi) -> None:
    api.add_tasks("a", "b")
    with Backend(tmp_path, GLAD, policy={"name": "majority"}) as backend, served(backend.app) as client:
        run(api, client, budget=1.0)
        first = spent(backend, api, money.JOB)
        api.add_tasks("c")
        assert run(api, client, budget=first) == 1
        assert spent(backend, api, money.JOB) == first > 0.0
        assert run(api, client, budget=1.0, retry_failed=True) == 0
        assert spent(backend, api, money.JOB) > first


def test_missing_votes_that_come_later_are_part_of_what_was_spent(
    tmp_path: Path, api: LabelStudioApi, capsys: pytest.CaptureFixture[str]
) -> None:
    down = {"red"}

    def script(body: dict[str, Any]) -> Reply:
        return Reply.fails(503) if body["model"] in down else says(mood="Glad")

    api.add_tasks("a", "b")
    with Backend(tmp_path, script, policy={"name": "majority"}) as backend, served(backend.app) as client:
        run(api, client, no_wait=True)
        before = spent(backend, api)
        down.clear()
        capsys.readouterr()
        assert run(api, client, retry_failed=True) == 0
        came = spent(backend, api) - before
    assert came == pytest.approx(2 * CALL)
    said = capsys.readouterr().out
    assert "Completed: 2 missing votes" in said
    assert f"{dollars(came)} spent in " in said


def test_tasks_that_somebody_opens_are_not_charged_to_the_job(tmp_path: Path, api: LabelStudioApi) -> None:
    with Backend(tmp_path, GLAD) as backend:
        backend.predict(task(1))
        project = Project().key
        with backend.ledger.read() as connection:
            assert money.balance(connection, project, money.JOB).spent == 0
            assert money.balance(connection, project, money.TOTAL).spent > 0


def test_a_quote_survives_its_way_as_json(tmp_path: Path, api: LabelStudioApi) -> None:
    api.add_tasks("a")
    with Backend(tmp_path, GLAD, entries={"rpm": 60}) as backend, served(backend.app) as client:
        said = quoted(api, client)
        assert said.hours is not None
        assert Quote.of_json(said.to_json()).to_json() == said.to_json()


@pytest.mark.parametrize("job", [{"usd": -1}, {"usd": "much"}, 7])
def test_terms_that_cannot_be_read_are_refused_and_nothing_is_spent(tmp_path: Path, job: object) -> None:
    with Backend(tmp_path, GLAD) as backend:
        body = predict([task(1)])
        assert backend.post("/predict", {**body, "params": {"job": job}}).status_code == 400
        assert backend.server.count() == 0


def test_sums_that_no_count_has_answered_are_refused(tmp_path: Path) -> None:
    with Backend(tmp_path, GLAD) as backend:
        body = {"project": "1", "label_config": SENTIMENT, "tasks": [], "counted": {"tasks": 1}}
        refused = backend.post("/quote", body)
        assert (refused.status_code, refused.get_json()["where"]) == (400, "body.counted")


def test_a_pilot_has_the_server_ask_everyone_about_random_tasks_and_narrows_the_quote(
    tmp_path: Path, api: LabelStudioApi, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = api.add_tasks(*(f"text {number}" for number in range(48)))
    with Backend(tmp_path, GLAD, policy=None) as backend, served(backend.app) as client:
        before = quoted(api, client)
        assert run(api, client, pilot=40, at_once=20) == 0
        assert len(api.predictions()) == 48
        drawn = sorted(numbers, key=lambda number: RandomSample.draw_of(api.project_key, number))[:40]
        of_pilot = [predicted_by(backend, api, number) for number in drawn]
        assert of_pilot == 40 * [3]
        assert spent(backend, api, money.JOB) == spent(backend, api) > 0.0
    said = capsys.readouterr().out
    first, second = (line for line in said.splitlines() if line.startswith("this policy"))
    assert "documented" in first
    assert "by 40 rounds of this project" in second
    assert before.evidence.rounds == 0


def test_a_pilot_is_not_bought_twice(tmp_path: Path, api: LabelStudioApi) -> None:
    numbers = api.add_tasks(*"abcdef")
    with Backend(tmp_path, GLAD, policy=None) as backend, served(backend.app) as client:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(output, "_aim_of", refused)
            for _ in range(2):
                with pytest.raises(typer.Exit):
                    run(api, client, pilot=4, yes=True)
        assert backend.server.count() == 3 * 4
        drawn = sorted(numbers, key=lambda number: RandomSample.draw_of(api.project_key, number))[:4]
        assert sorted(task for task, *_ in api.predictions()) == sorted(drawn)


def test_a_pilot_of_more_than_a_dollar_needs_consent(tmp_path: Path, api: LabelStudioApi) -> None:
    api.add_tasks("a", "b")
    with Backend(tmp_path, GLAD, entries=DEAR) as backend, served(backend.app) as client:
        with pytest.raises(ConfigError, match="nothing was spent"):
            run(api, client, pilot=2)
        assert backend.server.count() == 0


def refused(*given: object) -> None:
    raise typer.Exit(1)
