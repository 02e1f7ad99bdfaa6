"""What a run lacks: its exit code, its last lines, ``camvo report``, the status and the money agree."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import called
from labelling import LabelFolder, always
from scripted_litellm import HashedTexts

from backend import runtime
from backend.commands.bulk.labelling import RunTally
from backend.errors import cure_of
from backend.ledger import money
from backend.ledger.rounds import ProjectRounds
from backend.server.status.build import build_report, render_page
from backend.server.status.formats import dollars, percent
from backend.server.status.missing import SEPARATOR, Ending
from backend.server.status.report import ProjectReport, Report
from backend.settings import load
from backend.testing import Reply

TASKS = 12
USAGE = (10, 4)
CALL = (10 * 1.0 + 4 * 2.0) / 1e6
"""Cost in $ of one answered call."""

GOOD = Reply.says({"label": "Glad"}, usage=USAGE)
DEAD = Reply.fails(503)
WRONG_KEY = Reply.fails(401)
PROSE = Reply.says("Well, it depends.", usage=USAGE)
EMPTY = Reply.says("", usage=USAGE)
REFUSAL = Reply.says("", usage=USAGE, refusal="I cannot.")
CUT = Reply.says('{"label": "Gl', usage=USAGE, finish_reason="length")


@pytest.fixture(scope="session")
def closed() -> str:
    """An address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


Folder = Callable[..., LabelFolder]


@pytest.fixture
def folder(tmp_path: Path, closed: str) -> Iterator[Folder]:
    """Makes a folder of a dozen tasks, from each model's only reply; ``None`` refuses the connection."""
    opened: list[LabelFolder] = []

    def make(**replies: Reply | None) -> LabelFolder:
        models = {name: {"api_base": closed} if reply is None else {} for name, reply in replies.items()}
        made = LabelFolder(tmp_path, lambda body: replies[body["model"]], models=models)
        opened.append(made.__enter__())
        made.table(*(f"lovely {number}" for number in range(TASKS)))
        return made

    yield make
    for each in opened:
        each.__exit__(None, None, None)


def report_of(folder: LabelFolder) -> Report:
    assert folder.environment.config is not None
    with folder.ledger.read() as connection:
        return build_report(connection, load(folder.environment.config), now=2.0)


def reported(folder: LabelFolder) -> ProjectReport:
    [project] = report_of(folder).projects
    return project


def spent(folder: LabelFolder) -> float:
    with folder.ledger.read() as connection:
        account = money.balance(connection, "in", money.TOTAL)
    assert account.reserved == 0
    return money.from_picodollars(account.spent)


def alarms(tally: RunTally) -> dict[str, str]:
    """The alarms about models: model → code."""
    found = [alert for alert in tally.missing().alerts if alert.subject]
    return {model: alert.code for alert in found for model in alert.subject.split(SEPARATOR)}


def test_a_run_that_lacks_nothing_ends_with_0_and_says_nothing_of_missing_votes(folder: Folder) -> None:
    tally = folder(amber=GOOD, blue=GOOD).label(no_wait=True)
    assert tally.ending == Ending.DONE
    assert "\n" not in tally.summary()
    assert tally.ending.lines() == []


def test_a_model_without_credit_is_not_said_to_need_another_key_alone(folder: Folder) -> None:
    broke = Reply.fails(429, "You exceeded your current quota", code="insufficient_quota")
    said = folder(amber=GOOD, blue=broke).label(no_wait=True).summary()
    assert "lacks credit" in said
    assert "check the account's credit" in said


KINDS = [
    ("model_unavailable", DEAD, 0.0),
    ("model_key_rejected", WRONG_KEY, 0.0),
    ("model_unavailable", None, 0.0),
    ("model_cut_off", CUT, CALL),
    ("model_bad_answer", PROSE, CALL),
    ("model_bad_answer", EMPTY, CALL),
    ("model_refused", REFUSAL, CALL),
]


@pytest.mark.parametrize(
    ("code", "reply", "price"),
    KINDS,
    ids=["503", "wrong key", "refused", "cut off", "prose", "empty", "refusal"],
)
def test_a_model_that_gives_no_vote_is_named_with_its_reason_and_cure_and_the_code_is_not_0(
    folder: Folder, code: str, reply: Reply | None, price: float
) -> None:
    run = folder(amber=GOOD, blue=reply)
    tally = run.label(no_wait=True)
    assert tally.counts.labelled == TASKS
    assert tally.ending == Ending.MODELS_FAILED
    assert alarms(tally) == {"blue": code}
    said = tally.summary()
    assert f"blue gave no vote in {TASKS} of {TASKS} tasks" in said
    assert cure_of(code) in said
    assert f"in {TASKS - 5} of them it was not asked, since it had just failed too often" in said
    assert run.server.count("blue") == (5 if reply else 0)
    assert spent(run) == pytest.approx(TASKS * CALL + run.server.count("blue") * price)


def test_four_dead_models_of_five_are_one_alarm_that_names_all(folder: Folder) -> None:
    dead = ("blue", "cyan", "dun", "ecru")
    run = folder(amber=GOOD, **dict.fromkeys(dead, DEAD))
    tally = run.label(no_wait=True)
    assert tally.ending == Ending.MODELS_FAILED
    [_, alarm] = tally.missing().alerts
    assert alarm.subject == "blue, cyan, dun, ecru"
    each = ", ".join(f"{name} ({TASKS} of {TASKS} tasks)" for name in dead[:-1])
    assert f"no vote came from {each} and ecru ({TASKS} of {TASKS} tasks)" in alarm.message
    assert "28 times they were not asked" in alarm.message
    assert spent(run) == pytest.approx(TASKS * CALL)


def test_models_that_fail_for_other_reasons_have_alarms_of_their_own(folder: Folder) -> None:
    tally = folder(amber=GOOD, blue=DEAD, cyan=WRONG_KEY, dun=DEAD).label(no_wait=True)
    named = [alert.subject for alert in tally.missing().alerts if alert.subject]
    assert named == ["blue, dun", "cyan"]


def test_asking_everyone_costs_the_price_of_every_model_whether_or_not_its_vote_came(
    folder: Folder,
) -> None:
    run = folder(amber=GOOD, blue=DEAD)
    run.label(no_wait=True)
    project = reported(run)
    with run.ledger.read() as connection:
        rounds = ProjectRounds(connection, "in").count_tasks()
    assert rounds == TASKS
    assert project.cost.every_model_usd > 2 * project.cost.rounds_usd
    assert project.saving == "no saving is known, since votes are missing"
    overview = render_page(report_of(run), overview=True)
    assert '<td data-label="Saved" class="number">–</td>' in overview


@pytest.mark.parametrize("reply", [DEAD, None], ids=["fails", "unreachable"])
def test_a_model_that_never_answered_is_priced_by_likely_answers_and_not_by_max_tokens(
    folder: Folder, reply: Reply | None
) -> None:
    run = folder(amber=GOOD, blue=reply)
    run.label(no_wait=True)
    cost = reported(run).cost
    prompt = 400 * 1.0 / 1e6
    answer = 20 * 2.0 / 1e6
    assert TASKS * CALL < cost.every_model_usd < TASKS * (CALL + prompt + answer)
    assert not cost.every_model_at_most
    assert cost.everyone == dollars(cost.every_model_usd)


def test_a_model_that_answered_once_is_priced_by_that_answer(folder: Folder) -> None:
    run = folder(amber=GOOD, blue=DEAD)
    long = Reply.says({"label": "Glad"}, usage=(10, 90))
    first = {"amber": GOOD, "blue": long}
    run.server.script = lambda body: first.pop(body["model"], GOOD if body["model"] == "amber" else DEAD)
    run.label(no_wait=True)
    assert reported(run).cost.every_model_usd > TASKS * (CALL + 90 * 2.0 / 1e6)


def test_the_price_of_answers_that_nothing_bounds_is_said_to_be_at_most(folder: Folder) -> None:
    run = folder(amber=DEAD, blue=GOOD)
    assert run.environment.config is not None
    settings = yaml.safe_load(run.environment.config.read_text())
    settings["models"][0]["structured_output"] = False
    run.environment.config.write_text(yaml.safe_dump(settings))
    run.label(no_wait=True)
    project = reported(run)
    assert project.cost.every_model_at_most
    assert project.cost.everyone.startswith("at most $")


def test_report_with_and_without_the_configuration_and_the_status_have_the_alarms_of_the_run(
    folder: Folder,
) -> None:
    run = folder(amber=GOOD, blue=DEAD, cyan=PROSE, dun=None, ecru=WRONG_KEY)
    of_run = {(alert.subject, alert.code) for alert in run.label(no_wait=True).missing().alerts}
    of_status = {(alert.subject, alert.code) for alert in reported(run).alerts}
    assert of_run <= of_status
    for given in ([], ["--config", "camvo.yaml"]):
        report = called(
            "report", "--json", *given, cwd=run.path, CAMVO_DATABASE_URL=run.environment.database_url
        )
        [project] = json.loads(report.stdout)["projects"]
        assert of_run <= {(alert["subject"], alert["code"]) for alert in project["alerts"]}


def test_a_vote_that_may_still_come_ends_with_3(folder: Folder) -> None:
    run = folder(amber=GOOD, blue=GOOD)
    replies = iter([DEAD])
    run.server.script = lambda body: next(replies, GOOD) if body["model"] == "blue" else GOOD
    tally = run.label(no_wait=True)
    assert tally.ending == Ending.INCOMPLETE
    assert (
        "1 task is incomplete: it was decided without votes that may still come (blue 1)" in tally.summary()
    )
    assert "because the server failed or could not be reached" in tally.summary()


def test_a_task_without_a_label_ends_with_1_under_the_code_of_the_failure(folder: Folder) -> None:
    run = folder(amber=DEAD, blue=WRONG_KEY, cyan=DEAD)
    tally = run.label(no_wait=True)
    assert tally.ending == Ending.TASKS_LEFT
    assert {row["camvo_error"] for row in run.rows()} == {"model_unavailable"}
    assert alarms(tally) == {
        "amber": "model_unavailable",
        "blue": "model_key_rejected",
        "cyan": "model_unavailable",
    }
    assert f"{TASKS} tasks lack a label" in tally.summary()
    assert spent(run) == 0.0


def test_an_answer_that_was_cut_off_is_bought_once_in_all_runs(folder: Folder) -> None:
    run = folder(amber=CUT)
    for _ in range(3):
        run.label(no_wait=True)
    assert run.server.count() == TASKS
    assert spent(run) == pytest.approx(TASKS * CALL)
    assert {row["camvo_error"] for row in run.rows()} == {"model_cut_off"}


@pytest.mark.parametrize("saved", [-1e-16, -0.0004, 0.0])
def test_a_saving_that_rounds_to_nothing_has_no_sign(saved: float) -> None:
    assert percent(saved) == "0.0%"


def test_a_model_that_was_mended_is_not_reported_by_the_next_run(folder: Folder) -> None:
    run = folder(amber=GOOD, blue=PROSE)
    run.label(no_wait=True)
    run.server.script = always("Glad")
    run.table(*(f"new {number}" for number in range(TASKS)))
    tally = run.label(no_wait=True)
    assert (tally.ending, alarms(tally)) == (Ending.DONE, {})


def test_the_command_ends_with_the_code_and_its_reason_as_the_last_line(
    folder: Folder,
) -> None:
    run = folder(amber=GOOD, blue=PROSE)
    label = ["label", "in.csv", "--labels", "Glad,Sad", "--text-column", "text", "--out", "out.csv", "--yes"]
    ended = _label_by_command(run, label)
    assert ended.returncode == Ending.MODELS_FAILED
    last = ended.stdout.splitlines()[-1]
    assert last == "exit code 4: models were rejected, or gave no votes or hardly any"
    in_parts = _label_by_command(run, [*label[:-3], "--out", "parts", "--engine", "asyncio", "--yes"])
    assert in_parts.returncode == Ending.DONE


def _label_by_command(run: LabelFolder, arguments: list[str]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "Embedder", lambda name: HashedTexts())
        return _called_to_label(run, arguments)


def _called_to_label(run: LabelFolder, arguments: list[str]) -> Any:
    return called(
        *arguments,
        "--config",
        "camvo.yaml",
        cwd=run.path,
        CAMVO_DATABASE_URL=run.environment.database_url,
        OPENAI_API_KEY="none",
    )
