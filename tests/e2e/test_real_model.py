"""``camvo check`` and ``camvo label`` with a real language model behind llama.cpp's server.

The model is near chance, so no test looks at how many labels are right. All look at what became of its
answers: votes, failures with a code, tokens, dollars and confidences are those of the raw answers.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import migrated
import pytest
import yaml
from command_line import called
from llama_server import LlamaServer, Wire, overheard
from server_process import child, wait_until
from sqlalchemy import Row, Select, func, select
from warm_start import WarmProcess

from backend.ledger import Ledger
from backend.ledger.database import tables

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

MODELS: dict[str, dict[str, object]] = {
    "cold": {"temperature": 0, "input_price": 1.0, "output_price": 2.0},
    "warm": {"temperature": 1.0, "seed": 7, "input_price": 3.0, "output_price": 5.0},
}
PRICES = {"cold": (1.0, 2.0), "warm": (3.0, 5.0)}
TEXTS = [
    "It broke after a week and nobody in Berlin answers.",
    "Lovely colours and a soft fabric.",
    "Anna Meier said the box was empty.",
    "I would buy it again, and my sister in Lisbon did.",
    "Too loud for a bedroom.",
]
SENTIMENT = ("--labels", "Positive,Negative", "--text-column", "text")

RATING = '<Rating name="stars" toName="t" maxRating="5"/>'
SPANS = '<Labels name="names" toName="t"><Label value="Person"/><Label value="Place"/></Labels>'
MOOD = '<Choices name="mood" toName="t"><Choice value="Glad"/><Choice value="Sad"/></Choices>'
TOPICS = MOOD.replace('"mood"', '"topics" choice="multiple"')


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaServer]:
    with LlamaServer() as server:
        yield server


@pytest.fixture
def wire(llama: LlamaServer) -> Iterator[Wire]:
    with overheard(llama) as wire:
        yield wire


class Project:
    """A folder with a ledger and a ``camvo.yaml`` that asks the real model under two names."""

    def __init__(self, folder: Path, url: str, **of_models: object) -> None:
        self.folder, self.database = folder, migrated.sqlite(folder / "ledger.sqlite")
        common = {"api_base": url, "timeout": 120, **of_models}
        entries = [{"name": name, "model": f"openai/{name}", **common, **own} for name, own in MODELS.items()]
        config = {"models": entries, "policy": {"name": "majority"}}
        (folder / "camvo.yaml").write_text(yaml.safe_dump(config))

    def write(self, texts: Sequence[str]) -> None:
        with (self.folder / "in.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["text"], *([text] for text in texts)])

    def camvo(self, *arguments: str) -> CompletedProcess[str]:
        return called(
            *arguments,
            "--config",
            "camvo.yaml",
            cwd=self.folder,
            CAMVO_DATABASE_URL=self.database,
            COLUMNS="150",
        )

    def label(self, *question: str) -> CompletedProcess[str]:
        """Label ``in.csv``; every row must come out, and no trace of a fault of CaMVo's own."""
        done = self.camvo("label", "in.csv", *question, "--out", "out.csv", "--yes")
        assert "Traceback" not in done.stdout + done.stderr
        assert "internal" not in done.stdout + done.stderr
        return done

    @property
    def rows(self) -> list[dict[str, str]]:
        with (self.folder / "out.csv").open(encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file))

    def ask(self, query: Select[Any]) -> Sequence[Row[Any]]:
        ledger = Ledger(self.database)
        try:
            with ledger.read() as connection:
                return connection.execute(query).all()
        finally:
            ledger.close()

    @property
    def calls(self) -> Sequence[Row[Any]]:
        return self.ask(select(tables.calls))

    @property
    def answers(self) -> Sequence[Row[Any]]:
        return self.ask(select(tables.answers))


def sold(wire: Wire) -> Counter[tuple[str, int, int]]:
    """Model, input and output tokens of each completion, by llama.cpp's count."""
    usages = [
        (request["model"], answer["usage"]) for request, status, answer in wire.exchanges if status == 200
    ]
    return Counter((model, usage["prompt_tokens"], usage["completion_tokens"]) for model, usage in usages)


def price(wire: Wire) -> float:
    """What llama.cpp's tokens cost, in $."""
    return sum(
        (tokens_in * PRICES[model][0] + tokens_out * PRICES[model][1]) / 1e6 * number
        for (model, tokens_in, tokens_out), number in sold(wire).items()
    )


def assert_books_are_the_servers(project: Project, wire: Wire) -> None:
    """The ledger's calls, their money and the table's sum are llama.cpp's tokens at their price."""
    calls = project.calls
    assert {call.state for call in calls} == {"settled"}
    booked = Counter((call.model.partition(":")[0], call.input_tokens, call.output_tokens) for call in calls)
    assert {usage: number for usage, number in booked.items() if usage[1:] != (0, 0)} == sold(wire)
    assert sum(call.cost for call in calls) / 1e12 == pytest.approx(price(wire), rel=1e-9)
    assert sum(float(row["camvo_cost_usd"]) for row in project.rows) == pytest.approx(price(wire), rel=1e-6)


def contents(wire: Wire) -> Counter[tuple[str, str]]:
    """Model and text of each completion."""
    return Counter(
        (request["model"], answer["choices"][0]["message"]["content"])
        for request, status, answer in wire.exchanges
        if status == 200
    )


def label_in(answer: Mapping[str, Any]) -> str:
    """The label in a raw answer."""
    return str(json.loads(answer["choices"][0]["message"]["content"])["label"])


def own_confidence(answer: Mapping[str, Any], label: str) -> float | None:
    """The label's share of the two, read from the raw answer: the first token of either tells them apart.

    A label of which no token was reported counts as the rarest token that was.
    """
    for token in answer["choices"][0]["logprobs"]["content"]:
        if token["token"].strip() == label:
            others = {other["token"]: math.exp(other["logprob"]) for other in token["top_logprobs"]}
            chances = {
                each: sum(chance for text, chance in others.items() if text and each.startswith(text))
                for each in ("Positive", "Negative")
            }
            rarest = min(others.values())
            return (
                chances[label] / sum(chance or rarest for chance in chances.values())
                if label in others
                else None
            )
    raise AssertionError("no token is the label")


def test_a_live_check_shows_the_answer_and_the_tokens_of_the_real_model(tmp_path: Path, wire: Wire) -> None:
    done = Project(tmp_path, wire.url).camvo("check", "--live")
    assert done.returncode == 0, done.stdout + done.stderr
    usage = {request["model"]: answer["usage"] for request, _, answer in wire.exchanges}
    assert usage.keys() == MODELS.keys()
    for name, tokens in usage.items():
        [row] = [line for line in done.stdout.splitlines() if line.startswith(f"│ {name} ") and "s │" in line]
        cells = [cell.strip() for cell in row.strip("│").split("│")]
        assert cells[1] in {"Positive", "Negative"}
        assert cells[3:5] == [str(tokens["prompt_tokens"]), str(tokens["completion_tokens"])]


def test_votes_money_and_confidences_are_those_of_the_raw_answers(tmp_path: Path, wire: Wire) -> None:
    project = Project(tmp_path, wire.url, logprobs=True)
    project.write(TEXTS)
    assert project.label(*SENTIMENT).returncode == 0
    assert [row["text"] for row in project.rows] == TEXTS
    voted = [(model, vote) for row in project.rows for model, vote in json.loads(row["camvo_votes"]).items()]
    said = [(request["model"], label_in(answer)) for request, _, answer in wire.exchanges]
    assert sorted(voted) == sorted(said)
    assert_books_are_the_servers(project, wire)
    stored = {
        model: sorted(a.confidences["label"] for a in project.answers if a.model == model and a.confidences)
        for model in MODELS
    }
    own = {
        model: sorted(
            share
            for answer in wire.completions(model)
            if (share := own_confidence(answer, label_in(answer))) is not None
        )
        for model in MODELS
    }
    assert any(own.values())
    assert stored == {model: pytest.approx(values, rel=1e-9) for model, values in own.items()}


def test_a_text_beyond_the_context_is_a_failure_that_costs_nothing_and_is_asked_once(
    tmp_path: Path, wire: Wire
) -> None:
    project = Project(tmp_path, wire.url)
    project.write([*TEXTS[:2], "word " * 3000])
    project.label(*SENTIMENT)
    *short, long = project.rows
    assert all(row["camvo_label"] and not row["camvo_error"] for row in short)
    assert (long["camvo_label"], bool(long["camvo_error"])) == ("", True)
    failed = [call for call in project.calls if call.error_code is not None]
    assert {call.model: (call.error_code, call.cost) for call in failed} == dict.fromkeys(
        MODELS, ("model_context_too_long", 0)
    )
    assert wire.statuses.count(400) == len(MODELS)
    assert_books_are_the_servers(project, wire)


def test_prompts_with_several_tasks_are_paid_and_every_row_gets_its_votes(tmp_path: Path, wire: Wire) -> None:
    project = Project(tmp_path, wire.url, pack=5, max_tokens=40)
    project.write(TEXTS)
    assert project.label(*SENTIMENT).returncode == 0
    assert len(project.rows) == len(TEXTS)
    assert any(call.tasks > 1 for call in project.calls)
    assert_books_are_the_servers(project, wire)
    for row in project.rows:
        votes = json.loads(row["camvo_votes"])
        assert {arm.partition(":")[0] for arm in votes} == MODELS.keys()
        assert set(votes.values()) <= {"Positive", "Negative", None}


@pytest.mark.parametrize(
    "controls", [RATING, SPANS, MOOD + RATING + TOPICS], ids=["rating", "spans", "three questions"]
)
def test_every_answer_of_any_form_is_a_vote_or_a_failure_with_a_code(
    tmp_path: Path, wire: Wire, controls: str
) -> None:
    project = Project(tmp_path, wire.url, max_tokens=120)
    project.write(TEXTS[:3])
    (tmp_path / "config.xml").write_text(f'<View><Text name="t" value="$text"/>{controls}</View>')
    project.label("--label-config", "config.xml")
    assert [row["text"] for row in project.rows] == TEXTS[:3]
    for row in project.rows:
        labels = [value for column, value in row.items() if column.startswith("camvo_label")]
        assert any(labels) or row["camvo_error"]
    assert Counter((answer.model, answer.content) for answer in project.answers) == contents(wire)
    assert_books_are_the_servers(project, wire)


def test_a_server_that_still_loads_its_model_is_waited_for(tmp_path: Path) -> None:
    llama = LlamaServer()
    try:
        llama.start(ready=False)
        llama.stop()
        with overheard(llama, before=llama.go_on) as wire:
            project = Project(tmp_path, wire.url)
            project.write(TEXTS[:2])
            project.label(*SENTIMENT)
            project.label(*SENTIMENT, "--retry-failed")
            assert wire.statuses[0] == 503
            assert all(row["camvo_label"] for row in project.rows)
            assert_books_are_the_servers(project, wire)
    finally:
        llama.kill()


def test_a_server_that_is_killed_in_the_middle_and_started_again_costs_no_row(tmp_path: Path) -> None:
    texts = [f"{text} It is number {number}." for number in range(2) for text in TEXTS]
    with LlamaServer() as llama:
        project = Project(tmp_path, llama.url)
        project.write(texts)
        log = tmp_path / "log"
        log.touch()
        command = ["label", "in.csv", *SENTIMENT, "--out", "out.csv", "--config", "camvo.yaml"]
        run = WarmProcess(command, tmp_path, child(CAMVO_DATABASE_URL=project.database), log, log)
        answers = select(func.count()).select_from(tables.answers)
        wait_until(lambda: project.ask(answers)[0][0] >= 5, "first answers", 120.0)
        llama.kill()
        failed = select(func.count()).where(tables.calls.c.error_code.is_not(None))
        wait_until(lambda: project.ask(failed)[0][0] > 0 or run.poll() is not None, "failed call")
        llama.start()
        assert run.wait(240) in {0, 1}, log.read_text()
        assert "Traceback" not in log.read_text()
        project.label(*SENTIMENT, "--retry-failed")
    assert [row["text"] for row in project.rows] == texts
    assert all(row["camvo_label"] for row in project.rows)
    bought = Counter((call.task, call.model) for call in project.calls if call.error_code is None)
    assert set(bought.values()) == {1}
    assert {call.error_code for call in project.calls} <= {None, "model_unavailable", "model_timeout"}
