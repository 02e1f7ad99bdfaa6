"""``camvo check --live`` and ``--label-config``, with models that answer, fail or are not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import migrated
import pytest
import yaml
from command_line import called
from server_process import config_for

from backend.ledger import Ledger, reports
from backend.testing import OpenAIServer, Reply


def script(body: dict[str, Any]) -> Reply:
    if body["model"] == "green":
        return Reply.says("I would rather not say.")
    if body["model"] == "plain" and "response_format" in body:
        return Reply.fails(400)
    return Reply.fails(401) if body["model"] == "blue" else Reply.says({"sentiment": "Positive"})


@pytest.fixture(scope="module")
def models() -> Iterator[OpenAIServer]:
    with OpenAIServer(script) as server:
        yield server


@pytest.fixture(scope="module")
def live(models: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> CompletedProcess[str]:
    """A live check of models that vote, ramble, refuse the key, are off, or take no JSON schema."""
    folder = tmp_path_factory.mktemp("live")
    path = config_for(models, folder, policy=None)
    config = yaml.safe_load(path.read_text())
    off = {**config["models"][0], "name": "off", "api_base": "http://127.0.0.1:1/v1"}
    plain = {**config["models"][0], "name": "plain", "model": "openai/plain"}
    path.write_text(yaml.safe_dump(config | {"models": [*config["models"], off, plain]}))
    done = called("check", "--live", "--config", str(path), cwd=folder, COLUMNS="120")
    done.args = str(folder)
    return done


def row(done: CompletedProcess[str], model: str) -> list[str]:
    """The first table's row of a model."""
    line = next(line for line in done.stdout.splitlines() if line.startswith(f"│ {model} "))
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_a_model_that_votes_shows_time_usage_and_price(live: CompletedProcess[str]) -> None:
    name, answer, took, tokens_in, tokens_out, paid = row(live, "red")
    assert (name, answer) == ("red", "Positive")
    assert took.endswith(" s")
    assert int(tokens_in) > 0
    assert int(tokens_out) > 0
    assert paid.startswith("$0.0000")


@pytest.mark.parametrize(
    ("model", "cure"),
    [
        ("green", "“I would rather not say.” (the JSON schema was sent along: name another model"),
        ("blue", "put a valid key into the variable that api_key_env"),
        ("off", "cannot be reached: connection refused (start its server"),
    ],
)
def test_a_model_that_does_not_vote_is_named_with_the_cure(
    live: CompletedProcess[str], model: str, cure: str
) -> None:
    line = next(line for line in live.stdout.splitlines() if line.startswith(f"✗ {model}: "))
    assert cure in line
    assert "HTTP 500" not in line
    assert live.returncode == 1


def test_a_model_whose_server_refuses_json_schemas_votes_and_is_named(live: CompletedProcess[str]) -> None:
    assert row(live, "plain")[1] == "Positive"
    [line] = [line for line in live.stdout.splitlines() if "refuses JSON schemas" in line]
    assert line.startswith("– plain: ")


def test_a_live_check_asks_the_questions_of_the_label_config_and_shows_what_was_understood(
    tmp_path: Path,
) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        properties = body["response_format"]["json_schema"]["schema"]["properties"]
        [stars] = properties.keys() - {"topic"}
        topic = {"topic": "**sports**"}
        return Reply.says(topic | ({stars: "4/5"} if body["model"] == "red" else {}))

    (tmp_path / "config.xml").write_text(
        '<View><Text name="t" value="$a"/><Paragraphs name="p" value="$b"/><Image name="i" value="$c"/>'
        '<Choices name="topic" toName="p"><Choice value="Sports"/><Choice value="News"/></Choices>'
        '<Rating name="wie gut?" toName="t"/><Rating name="looks" toName="i"/></View>'
    )
    with OpenAIServer(answer) as server:
        path = config_for(server, tmp_path, policy=None)
        options = ("--live", "--label-config", str(tmp_path / "config.xml"), "--config", str(path))
        done = called("check", *options, cwd=tmp_path, COLUMNS="120")
    lines = [line.split("│")[2].strip() for line in done.stdout.splitlines() if line.count("│") >= 4]
    assert lines[:2] == ["topic: Sports", "wie gut?: 4"]
    assert '✗ green: its answer names none of the labels: “{"topic": "**sports**"}”' in done.stdout


def test_a_refusal_that_the_provider_bills_is_part_of_what_was_paid(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        refusal = "I cannot help with that." if body["model"] == "red" else None
        return Reply.says({"sentiment": "Positive"}, refusal=refusal, usage=(1_000_000, 0))

    with OpenAIServer(answer) as server:
        path = config_for(server, tmp_path, policy=None)
        config = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(config | {"models": config["models"][:2]}))
        done = called("check", "--live", "--config", str(path), cwd=tmp_path, COLUMNS="120")
    of_red, of_green = (float(row(done, name)[5].removeprefix("$")) for name in ("red", "green"))
    [total] = re.findall(r"^\$([\d.]+) paid for these calls", done.stdout, re.MULTILINE)
    assert of_red == of_green > 0.0
    assert float(total) == pytest.approx(of_red + of_green, rel=0.01)


def test_a_live_check_asks_each_model_once(models: OpenAIServer, live: CompletedProcess[str]) -> None:
    assert [models.count(name) for name in ("red", "green", "blue")] == [1, 1, 1]


def test_the_estimate_uses_what_the_live_call_used(live: CompletedProcess[str]) -> None:
    measured = {
        line.split("│")[1].strip(): line.split("│")[5].strip()
        for line in live.stdout.splitlines()
        if line.count("│") == 6 and "openai/" in line
    }
    assert measured == {
        "red": "1 call",
        "green": "1 call",
        "blue": "the others' answers",
        "off": "the others' answers",
        "plain": "1 call",
    }


def test_nothing_is_booked_by_a_check(live: CompletedProcess[str]) -> None:
    ledger = Ledger(f"sqlite:///{Path(str(live.args)) / 'camvo.sqlite'}")
    with ledger.read() as connection:
        assert reports.paid_tasks(connection) == (0, 0.0)
    ledger.close()


@pytest.mark.parametrize(
    ("config", "code", "line"),
    [
        (
            '<Choices name="a" toName="t"><Choice value="x"/><Choice value="y"/></Choices>',
            0,
            "✓ .*a (Choices)",
        ),
        ('<TextArea name="a" toName="t"/>', 1, "✗ .*no control gets a prediction"),
    ],
)
def test_a_label_config_is_checked_control_by_control(
    tmp_path: Path, config: str, code: int, line: str
) -> None:
    path = tmp_path / "config.xml"
    path.write_text(f'<View><Text name="t" value="$t"/>{config}</View>')
    done = called("check", "--label-config", str(path), cwd=tmp_path, COLUMNS="120")
    sign, words = line.split(" .*")
    assert done.returncode == code
    assert any(each.startswith(sign) and words in each for each in done.stdout.splitlines())


def test_a_label_config_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = called("check", "--label-config", "nowhere.xml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("camvo: --label-config: cannot be read: ")


def test_a_ledger_that_cannot_be_written_to_fails(tmp_path: Path) -> None:
    migrated.sqlite(tmp_path / "ledger.sqlite")
    read_only = f"sqlite:///file:{tmp_path / 'ledger.sqlite'}?mode=ro&uri=true"
    done = called("check", cwd=tmp_path, CAMVO_DATABASE_URL=read_only)
    assert done.returncode == 1
    assert "✗ ledger" in done.stdout
    assert "attempt to write a readonly database" in done.stdout
