"""``camvo quote`` and the consent of ``camvo label``: the price before the first cent."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from labelling import PLAIN, LabelFolder
from rich.console import Console

from backend.commands.bulk import quoting as output
from backend.commands.bulk.quoting import _print_quote, _quote_of
from backend.commands.shared.options import LabelOptions
from backend.commands.teach import teach_file
from backend.errors import ConfigError, PriceMissingError
from backend.ledger import money
from backend.models import model as litellm_info
from backend.quotes.quote import Quote
from backend.testing import Reply

WORDS = ("lovely", "gloomy")


def billed(body: dict[str, Any]) -> Reply:
    """A provider that bills by the tokens that it receives; green gives long answers."""
    contents = tuple(message["content"] for message in body["messages"])
    return Reply.says(
        {"label": "Glad"}, usage=(litellm_info.count_tokens(contents), 40 if body["model"] == "green" else 9)
    )


def billed_packs(body: dict[str, Any]) -> Reply:
    """The same with an answer for each task of a prompt about several."""
    contents = tuple(message["content"] for message in body["messages"])
    asked = re.findall(r"^BEGIN (\d{6})$", contents[-1], re.MULTILINE)
    answer = dict.fromkeys(asked, "Glad") if asked else {"label": "Glad"}
    return Reply.says(answer, usage=(litellm_info.count_tokens(contents), 9 * max(len(asked), 1)))


def texts(count: int) -> list[str]:
    return [f"entry {number} is {WORDS[number % 2]} " + "indeed " * (number % 7) for number in range(count)]


def quote(folder: LabelFolder, target: float | None = None, **options: Any) -> Quote:
    return _quote_of(
        folder.path / "in.csv",
        LabelOptions(**PLAIN, **options),  # type: ignore[arg-type]
        folder.environment,
        folder.console,
        target=target,
    )


def lines(said: Quote, width: int = 200) -> list[str]:
    """A quote as it is printed."""
    console = Console(file=io.StringIO(), width=width)
    _print_quote(console, said)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def spent(folder: LabelFolder, scope: str = money.TOTAL) -> float:
    with folder.ledger.read() as connection:
        return money.balance(connection, "in", scope).spent / 1e12


def test_a_quote_spends_nothing(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table(*texts(5))
        quote(folder)
        assert folder.server.count() == 0


def test_a_quote_leaves_no_ledger_where_there_is_none(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table(*texts(5))
        ledger = tmp_path / "new" / "ledger.sqlite"
        ledger.parent.mkdir()
        folder.environment = folder.environment.model_copy(update={"database_url": f"sqlite:///{ledger}"})
        assert quote(folder).to_come == 5
        assert list(ledger.parent.iterdir()) == []
        quote(folder, pilot=2)
        assert ledger.exists()


@pytest.mark.parametrize("run", range(3))
def test_once_answers_are_measured_the_bill_of_asking_everyone_is_the_quoted_one(
    tmp_path: Path, run: int
) -> None:
    with LabelFolder(tmp_path, billed, policy={"name": "majority"}, concurrency=8) as folder:
        folder.table(*texts(6))
        folder.label()
        folder.table(*texts(16 + run))
        quoted, before = quote(folder), spent(folder)
        assert (quoted.to_come, quoted.everyone.low) == (10 + run, quoted.everyone.high)
        folder.label()
        assert spent(folder) - before == pytest.approx(quoted.everyone.high, rel=1e-9)


def test_before_any_answer_the_bill_lies_in_the_quoted_range(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed, policy={"name": "majority"}) as folder:
        folder.table(*texts(4))
        everyone = quote(folder).everyone
        folder.label()
        assert everyone.low <= spent(folder) <= everyone.high


DEPENDENT = """<View><Text name="text" value="$text"/>
<Choices name="label" toName="text"><Choice value="Glad"/><Choice value="Sad"/></Choices>
<Choices name="why" toName="text" visibleWhen="choice-selected" whenTagName="label" whenChoiceValue="{}">
<Choice value="Sun"/><Choice value="Rain"/></Choices></View>"""


def billed_dependent(body: dict[str, Any]) -> Reply:
    contents = tuple(message["content"] for message in body["messages"])
    said = {"why": "Sun"} if 'Question "why"' in contents[0] else {"label": "Glad"}
    return Reply.says(said, usage=(litellm_info.count_tokens(contents), 9))


@pytest.mark.parametrize(("choice", "share"), [("Glad", 1.0), ("Sad", 0.5)])
def test_questions_under_a_condition_are_quoted_as_if_it_held(
    tmp_path: Path, choice: str, share: float
) -> None:
    asked = {"label_config": DEPENDENT.format(choice), "labels": (), "text_column": None}
    with LabelFolder(tmp_path, billed_dependent, policy={"name": "majority"}) as folder:
        folder.table(*texts(6))
        folder.label(**asked)
        folder.table(*texts(16))
        quoted = _quote_of(
            folder.path / "in.csv",
            LabelOptions(**asked),
            folder.environment,
            folder.console,
        )
        before = spent(folder)
        folder.label(**asked)
        bill = spent(folder) - before
        assert bill <= quoted.everyone.high * (1.0 + 1e-9)
        assert bill >= 0.9 * share * quoted.everyone.high


def test_labelled_and_equal_tasks_are_not_quoted_again(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table("lovely", "gloomy")
        folder.label()
        folder.table("lovely", "gloomy", "calm", "calm")
        again = quote(folder)
        assert (again.tasks, again.to_come) == (3, 1)


def test_a_pilot_asks_everyone_about_random_tasks_which_are_then_part_of_the_job(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed, policy=None, concurrency=8) as folder:
        folder.table(*texts(48))
        narrowed = quote(folder, pilot=40)
        assert folder.server.count() == 2 * 40
        assert (narrowed.to_come, narrowed.evidence.rounds) == (8, 40)
        assert narrowed.bill.likely is not None
        assert any("the student is not counted" in line for line in lines(narrowed))
        quote(folder, pilot=40)
        assert folder.server.count() == 2 * 40


def test_two_models_of_which_a_removed_one_has_taught_have_the_documented_share(tmp_path: Path) -> None:
    three = LabelFolder(
        tmp_path / "three", billed, policy=None, concurrency=8, models=("red", "green", "blue")
    )
    (tmp_path / "three").mkdir()
    with three as folder:
        folder.table(*texts(48))
        assert quote(folder, pilot=40).evidence.rounds == 40
        with folder.copied(tmp_path / "two") as two:
            assert quote(two).models.keys() == {"red", "green"}
            assert quote(two).evidence.rounds == 0


def test_without_a_pilot_the_share_is_what_is_documented(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed, policy=None) as folder:
        folder.table(*texts(50))
        said = quote(folder)
        assert said.evidence.rounds == 0
        assert any("documented" in line for line in lines(said))
        assert not any("student" in line for line in lines(said)), "the range has room for the student"


@pytest.mark.parametrize(
    ("settings", "votes"),
    [
        ({"policy": None}, True),
        ({"policy": None, "student": False}, False),
        ({"policy": {"name": "joint", "agreement": 0.99}}, False),
    ],
)
def test_a_quote_says_whether_a_student_votes(settings: dict[str, Any], votes: bool, tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed, **settings) as folder:
        folder.table(*texts(40))
        assert quote(folder).to_json()["student"] is votes


def test_without_a_student_no_quote_speaks_of_one(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed, policy=None, student=False, concurrency=8) as folder:
        folder.table(*texts(48))
        assert not any("student" in line for line in lines(quote(folder, pilot=40)))


def test_a_range_that_is_documented_begins_below_the_price_of_everyone(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed, policy=None, models=("red", "green", "blue")) as folder:
        folder.table(*texts(60))
        said = quote(folder)
        # The policy joint may stop after one model, whatever k_min says to others.
        assert said.bill.low < said.everyone.low
        assert said.bill.high < said.everyone.high


def test_packing_saves_nineteen_of_twenty_instructions_and_nothing_of_the_texts(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table(*texts(3))
        said = quote(folder)
        [alone, packed] = said.levers
        assert (alone.pack, packed.pack) == (None, 20)
        assert packed.everyone < alone.everyone == pytest.approx(said.everyone.middle)


def test_the_names_of_models_fit_beside_all_columns_on_a_usual_terminal(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed_packs, of_models={"pack": 20}) as folder:
        folder.table(*texts(45))
        said = quote(folder, pilot=40)
        printed = lines(said, width=80)
    for model in ("red", "green"):
        [row] = [line for line in printed if line.startswith(f"{model} ")]
        assert len(row.split()) >= 6


@pytest.mark.parametrize("settings", [{}, {"pack": 5}, {"batch": True}])
def test_the_lever_that_is_set_is_on_and_costs_what_the_quote_says(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    with LabelFolder(tmp_path, billed, of_models={"batch_discount": 0.5, **settings}) as folder:
        folder.table(*texts(12))
        said = quote(folder)
        ways = {(lever.batch, lever.pack): lever for lever in said.levers}
        size = settings.get("pack", 20)
        assert set(ways) == {(batch, pack) for batch in (False, True) for pack in (None, size)}
        [on] = [way for way, lever in ways.items() if lever.on]
        assert on == ("batch" in settings, settings.get("pack"))
        assert ways[on].everyone == pytest.approx(said.everyone.middle)
        assert ways[True, None].everyone == pytest.approx(0.5 * ways[False, None].everyone)
        assert sum("(as it is set)" in line for line in lines(said)) == 1


@pytest.mark.parametrize(
    "of_models",
    [{"input_price": 0.0, "output_price": 0.0}, {"input_price": None, "output_price": None}],
    ids=["free", "at a known model's price"],
)
def test_of_batches_nothing_is_said_where_all_models_are_servers_of_one_s_own(
    tmp_path: Path, of_models: dict[str, Any]
) -> None:
    models = {"red": {"model": "openai/gpt-4o"}, "green": {"model": "openai/gpt-4o-mini"}}
    with LabelFolder(tmp_path, billed, models=models, of_models=of_models) as folder:
        folder.table(*texts(12))
        assert not any("batch" in line for line in lines(quote(folder)))


def test_levers_that_are_set_at_some_models_only_are_none_of_the_lines(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed, models={"red": {"pack": 5}, "green": {}}) as folder:
        folder.table(*texts(12))
        said = quote(folder)
        assert not any(lever.on for lever in said.levers)
        assert [model.pack for model in said.models.values()] == [5, 1]
        assert any("at some models only" in line for line in lines(said))


def packing(path: Path, script: Callable[[dict[str, Any]], Reply], pack: int = 4) -> LabelFolder:
    """A folder whose models answer about several tasks at once."""
    policy, models = {"name": "majority"}, {"pack": pack}
    return LabelFolder(path, script, of_models=models, policy=policy, concurrency=32)


def test_the_bill_of_packs_is_the_quoted_one_once_they_are_measured(tmp_path: Path) -> None:
    with packing(tmp_path, billed_packs) as folder:
        folder.table(*texts(8))
        folder.label()
        folder.table(*texts(32))
        quoted, before = quote(folder), spent(folder)
        assert (quoted.to_come, quoted.models["red"].pack) == (24, 4)
        folder.label()
        assert spent(folder) - before == pytest.approx(quoted.everyone.middle, rel=0.1)


@pytest.mark.parametrize("pack", [4, 12])
def test_the_tokens_of_packs_are_those_of_their_whole_prompts(
    tmp_path: Path, pack: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a prompt, and what parts its tasks, count too."""
    monkeypatch.setattr("backend.annotation.asking.COIN", 1e-9)
    with packing(tmp_path, billed_packs, pack) as folder:
        folder.table(*texts(12))
        quoted = quote(folder).models["red"].input_tokens
        folder.label()
        bodies = [request.body for request in folder.server.requests if request.model == "red"]
    asked = sum(
        litellm_info.count_tokens(tuple(message["content"] for message in body["messages"]))
        for body in bodies
    )
    assert quoted == pytest.approx(asked, rel=0.02)


@pytest.fixture
def all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coin asks about every packed task singly, too."""
    monkeypatch.setattr("backend.annotation.asking.COIN", 1.0)


@pytest.mark.usefixtures("all_compared")
def test_a_quote_of_packs_counts_what_the_coin_asks_singly(tmp_path: Path) -> None:
    with packing(tmp_path, billed_packs) as folder:
        folder.table(*texts(8))
        folder.label()
        folder.table(*texts(32))
        quoted, before = quote(folder), spent(folder)
        folder.label()
        assert spent(folder) - before == pytest.approx(quoted.bill.middle, rel=0.05)


def disagreeing(body: dict[str, Any]) -> Reply:
    """Models that say something else about several tasks than about one."""
    asked = re.findall(r"^BEGIN (\d{6})$", body["messages"][-1]["content"], re.MULTILINE)
    return Reply.says(dict.fromkeys(asked, "Glad") if asked else {"label": "Sad"})


@pytest.mark.usefixtures("all_compared")
def test_an_arm_that_is_asked_no_more_is_quoted_as_its_model_alone(tmp_path: Path) -> None:
    with packing(tmp_path, disagreeing) as folder:
        folder.table(*texts(16))
        folder.label()
        folder.table(*texts(24))
        assert quote(folder).models["red"].pack == 1


def test_the_hours_are_those_of_the_slowest_limit(tmp_path: Path) -> None:
    models = {"slow": {"rpm": 1}, "quick": {"rpm": 100}}
    with LabelFolder(tmp_path, billed, policy={"name": "majority"}, models=models) as folder:
        folder.table(*texts(3))
        said = quote(folder)
        assert said.hours is not None
        assert said.hours.high == pytest.approx(3 / 60)


@pytest.mark.parametrize(("of_models", "shown"), [({"rpm": 60}, {"hours"}), ({"pack": 4}, {"in a prompt"})])
def test_the_table_has_no_column_that_says_nothing(
    tmp_path: Path, of_models: dict[str, Any], shown: set[str]
) -> None:
    with LabelFolder(tmp_path, billed, policy=None, of_models=of_models) as folder:
        folder.table(*texts(3))
        [head] = [line for line in lines(quote(folder)) if line.startswith("model ")]
        assert {name for name in ("hours", "in a prompt", "asked about") if name in head} == shown
        assert "input tokens" in head


def test_a_model_without_a_price_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed, models={"new": {"input_price": None, "output_price": None}}) as folder:
        folder.table(*texts(1))
        with pytest.raises(PriceMissingError):
            quote(folder)


def test_json_has_the_same_numbers(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table(*texts(2))
        said = quote(folder)
        stored = json.loads(json.dumps(said.to_json()))
        assert stored["everyone_usd"]["high"] == said.everyone.high
        assert set(stored["models"]) == {"red", "green"}


def dear(folder: LabelFolder) -> None:
    """Make the next runs cost more than a dollar."""
    config = folder.path / "camvo.yaml"
    config.write_text(config.read_text().replace("output_price: 2.0", "output_price: 20000.0"))


def test_without_a_terminal_more_than_a_dollar_needs_consent_and_nothing_is_spent(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table(*texts(2))
        dear(folder)
        with pytest.raises(ConfigError, match="nothing was spent") as refused:
            folder.label()
        assert "--budget 50" in str(refused.value)
        assert folder.server.count() == 0


@pytest.mark.parametrize("consent", [{"yes": True}, {"budget": 100.0}])
def test_yes_and_a_budget_are_consent(tmp_path: Path, consent: dict[str, Any]) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table("lovely")
        dear(folder)
        assert folder.label(**consent).counts.labelled == 1


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_somebody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.console._force_terminal = True
        monkeypatch.setattr(output.sys.stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(typer, "confirm", lambda words: answer)
        folder.table("lovely")
        dear(folder)
        if answer:
            assert folder.label().counts.labelled == 1
            return
        with pytest.raises(typer.Exit):
            folder.label()
        assert folder.server.count() == 0


def test_the_job_has_an_account_that_a_resumed_run_goes_on_counting(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table(*texts(3))
        folder.label(sample=1)
        first = spent(folder, money.JOB)
        assert first == spent(folder) > 0.0
        folder.label(budget=first)
        assert spent(folder, money.JOB) == first
        folder.label(budget=10.0)
        assert spent(folder, money.JOB) > 2 * first


def test_a_sample_labels_so_many_tasks_and_writes_those_alone(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table(*texts(9))
        assert folder.label(sample=4).counts.labelled == 4
        assert len(folder.rows()) == 4
        folder.label()
        assert folder.server.count() == 2 * 9


def reviewed(folder: LabelFolder, tasks: int, blind: int) -> None:
    """Label some tasks, keep some of them blind, and have people say "Glad" about all of these."""
    folder.table(*texts(tasks))
    folder.label(blind=blind)
    folder.change("blind.csv", **{row["text"]: "Glad" for row in folder.rows("blind.csv")})
    teach_file(folder.path / "blind.csv", folder.path / "camvo.yaml")


def test_a_target_names_the_cheapest_mix_of_models_and_people(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed, policy=None, concurrency=8, humans={"price": 0.5}) as folder:
        reviewed(folder, 80, 60)
        folder.table(*texts(180))
        said = quote(folder, target=0.9)
        assert said.target is not None
        assert said.target.mix is not None
        mix = said.target.mix
        assert (mix.labels, mix.labels_sure) == (0, 0)  # the models were right 60 times of 60
        assert mix.usd == mix.models_usd <= said.everyone.high
        assert mix.people_alone_usd == pytest.approx(0.5 * 162)
        assert any(line.startswith("90% right: $") for line in lines(said))
        assert Quote.of_json(json.loads(json.dumps(said.to_json()))).to_json() == said.to_json()


def test_without_labels_the_quote_says_what_is_missing_for_a_target(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed, policy=None, concurrency=8, humans={"price": 0.5}) as folder:
        folder.table(*texts(48))
        [line] = [line for line in lines(quote(folder, target=0.97)) if line.startswith("97% right")]
        assert "0 of at least 36 tasks have asked everyone" in line
        [line] = [
            line for line in lines(quote(folder, target=0.97, pilot=40)) if line.startswith("97% right")
        ]
        assert "0 of at least 30 tasks have a label of people" in line


def test_a_target_needs_the_price_of_a_label(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table(*texts(3))
        with pytest.raises(ConfigError, match="price of a person's label"):
            quote(folder, target=0.97)


@pytest.mark.parametrize(
    ("tasks", "policy", "asked_before", "advised"),
    [
        (201, {"name": "joint"}, False, True),
        (200, {"name": "joint"}, False, False),  # the pilot would ask every model about all of them
        (201, {"name": "camvo", "k_min": 1}, False, True),  # it measures how long answers are
        (203, {"name": "camvo", "k_min": 1}, True, False),
    ],
)
def test_a_pilot_is_advised_where_it_would_narrow_the_quote(
    tmp_path: Path, tasks: int, policy: dict[str, Any], asked_before: bool, advised: bool
) -> None:
    with LabelFolder(tmp_path, billed, models=("red", "green", "blue"), policy=policy) as folder:
        folder.table(*texts(tasks))
        if asked_before:
            folder.label(sample=2, yes=True)
        _print_quote(folder.console, quote(folder))
        assert ("--pilot 200 narrows it" in folder.console.file.getvalue()) == advised  # type: ignore[attr-defined]


def test_a_text_longer_than_a_model_reads_is_named_with_its_line_and_price_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table("lovely", "gloomy " * 130_000, "gloomy")
        said = quote(folder)
    [warning] = [line for line in lines(said, width=400) if line.startswith("!")]
    assert warning.startswith("! 1 task longer than the 128,000 tokens that red reads (the first: line 3): ")
    assert said.too_long is not None
    assert said.too_long.usd == pytest.approx(said.everyone.low, rel=0.01)
    assert Quote.of_json(said.to_json()).too_long == said.too_long


def test_no_text_that_fits_is_called_too_long(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, billed) as folder:
        folder.table("gloomy " * 20_000)
        assert quote(folder).too_long is None
