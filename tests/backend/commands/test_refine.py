"""``camvo refine``: proposals are judged on tasks that did not lead to them, within the quote."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from command_line import called
from labelling import PLAIN, LabelFolder, Says
from whole_backend import prompt_of

from backend.commands.instructions.asking import opened as opened_source
from backend.commands.instructions.refine import (
    RefineOptions,
    _print_refinement,
    _refine_on,
    _Refinement,
)
from backend.commands.shared.options import LabelOptions
from backend.commands.teach import teach_file
from backend.errors import BadAnswerError, BudgetExhaustedError, ConfigError
from backend.ledger.money import balance, from_picodollars
from backend.testing import Reply

PRESENT = "Judge the writer."
GOOD, BAD, IDLE = "Irony is sad.", "Everything is sad.", "Be careful."
TEXTS = [
    f"day {number}, oh sure, great" if number % 3 == 0 else f"day {number}, sun" for number in range(120)
]


def truth(text: str) -> str:
    return "Sad" if "oh sure" in text else "Glad"


def change(written: str, *cases: int, replace: str = "") -> dict[str, Any]:
    return {"replace": replace, "write": written, "cases": list(cases), "why": "They miss it."}


class Models:
    """Labellers that know about irony only what the instructions say, and one that also proposes."""

    def __init__(self) -> None:
        self.changes: list[Any] = [
            change(BAD, 2),
            change(f"{PRESENT} {GOOD}", 1, 3, replace=PRESENT),
            change(IDLE),
        ]
        self.shown: list[str] = []
        self.usage = (10, 2)
        self.instead: Reply | None = None
        self.asked = 0

    def __call__(self, body: dict[str, Any]) -> Reply:
        prompt = prompt_of(body)
        if "You improve the labelling instructions" in prompt:
            self.shown.append(prompt)
            self.asked += 1
            return self.instead or Reply.says({"changes": self.changes})
        irony = GOOD in prompt and "oh sure" in prompt
        return Reply.says({"label": "Sad" if irony or BAD in prompt else "Glad"}, usage=self.usage)


@pytest.fixture
def models() -> Models:
    return Models()


def opened(path: Path, models: Models) -> LabelFolder:
    own = {"red": {}, "green": {"output_price": 3.0}}
    return LabelFolder(path, models, models=own, concurrency=8, instructions=PRESENT)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of which people have labelled every task, and models miss all irony."""
    path = tmp_path_factory.mktemp("labelled")
    with opened(path, Models()) as folder:
        folder.write("in.csv", "text\n" + "".join(f'"{text}"\n' for text in TEXTS))
        folder.label()
        teach(folder, TEXTS)
    return path


@pytest.fixture
def folder(tmp_path: Path, labelled: Path, models: Models) -> Iterator[LabelFolder]:
    """A copy of what was labelled, with models of its own."""
    shutil.copytree(labelled, tmp_path, dirs_exist_ok=True)
    with opened(tmp_path, models) as folder:
        yield folder


def teach(folder: LabelFolder, texts: list[str]) -> None:
    with (folder.path / "people.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["camvo_project", "text", "camvo_label"])
        writer.writeheader()
        writer.writerows({"camvo_project": "in", "text": text, "camvo_label": truth(text)} for text in texts)
    teach_file(folder.path / "people.csv", folder.path / "camvo.yaml")


def refined(folder: LabelFolder, by: str | None = None, **options: Any) -> _Refinement:
    chosen = LabelOptions(**PLAIN, **options)  # type: ignore[arg-type]
    wanted = RefineOptions(by, 300, folder.path / "refine")
    with opened_source(folder.path / "in.csv", chosen, folder.environment) as opened:
        return _refine_on(*opened, wanted, chosen, folder.console)


def spent(folder: LabelFolder) -> float:
    with folder.ledger.read() as connection:
        return from_picodollars(balance(connection, "in", "refine").spent)


class Refined(NamedTuple):
    folder: LabelFolder
    models: Models
    found: _Refinement
    calls: int


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, labelled: Path) -> Iterator[Refined]:
    """What was labelled, refined once."""
    path, models = tmp_path_factory.mktemp("refined"), Models()
    shutil.copytree(labelled, path, dirs_exist_ok=True)
    with opened(path, models) as folder:
        before = folder.server.count()
        yield Refined(folder, models, refined(folder), folder.server.count() - before)


def test_the_text_that_helps_wins_and_the_one_that_harms_is_dropped_early(done: Refined) -> None:
    folder, found = done.folder, done.found
    assert [each.verdict for each in found.changes] == ["dropped", "best", "dropped"]
    good = found.changes[1]
    assert (good.found.before, good.found.after) == (pytest.approx(2 / 3, abs=0.2), 1.0)
    assert found.tasks <= 80
    assert (folder.path / "refine" / "2.txt").read_text() == f"{PRESENT} {GOOD}\n"
    assert "the new text is better" in (folder.path / "refine" / "2.html").read_text()


def test_no_task_that_was_shown_to_the_proposing_model_judges(done: Refined) -> None:
    folder, found = done.folder, done.found
    [prompt] = done.models.shown
    shown = {text for text in TEXTS if f"\n{text}\n" in prompt}
    page = (folder.path / "refine" / "1.html").read_text()
    judged = {text for text in TEXTS if f"<br>{text}<" in page}
    assert len(shown) == found.cases > 3
    assert judged
    assert not shown & judged


def test_each_change_names_the_tasks_that_led_to_it(done: Refined) -> None:
    ids, found = {row["camvo_id"] for row in done.folder.rows()}, done.found
    assert [len(each.led) for each in found.changes] == [1, 2, 0]
    assert {task for each in found.changes for task in each.led} <= ids


def test_the_dearest_model_proposes_unless_another_is_named(folder: LabelFolder, done: Refined) -> None:
    assert done.found.by == "green"
    assert refined(folder, by="red").by == "red"


def test_it_pays_what_it_quotes_at_most_and_nothing_twice(done: Refined) -> None:
    folder, found = done.folder, done.found
    assert found.paid == pytest.approx(spent(folder))
    assert done.calls <= 1 + 4 * 2 * len(TEXTS)
    bought = folder.server.count()
    assert refined(folder).paid == 0.0
    assert folder.server.count() == bought


def test_a_report_shows_what_the_proposing_model_cost_and_not_that_it_never_voted(done: Refined) -> None:
    url = done.folder.environment.database_url
    said = called("report", "--config", "camvo.yaml", cwd=done.folder.path, CAMVO_DATABASE_URL=url).stdout
    [line] = [line for line in said.splitlines() if "/writer" in line]
    assert re.match(r"green/writer \(camvo +1 .* \$", line)


def test_ctrl_c_waits_for_the_proposal_which_the_next_run_does_not_buy_again(
    folder: LabelFolder, models: Models
) -> None:
    terminal = Says("stopping when")

    def interrupted(body: dict[str, Any]) -> Reply:
        os.kill(os.getpid(), signal.SIGINT)
        return models(body).held_until(terminal.said)

    folder.console.file, folder.server.script = terminal, interrupted
    with pytest.raises(KeyboardInterrupt):
        refined(folder)
    assert "What was bought is kept, and the same command continues" in terminal.getvalue()
    folder.server.script = models
    refined(folder)
    assert models.asked == 1


def test_what_is_bought_already_is_not_quoted_again(folder: LabelFolder, models: Models) -> None:
    models.changes = [change(IDLE)]  # no task tells it from the present text, so all of them judge
    refined(folder)
    refined(folder)
    quotes = [line for line in folder.console.file.getvalue().splitlines() if "a proposal by" in line]  # type: ignore[attr-defined]
    assert ["at most $0," in quote for quote in quotes] == [False, True]


def test_a_task_that_the_money_did_not_suffice_for_is_named_so(folder: LabelFolder, models: Models) -> None:
    models.usage = (10, 200)
    assert set(refined(folder, budget=0.05).left_out) == {BudgetExhaustedError.code}


def test_it_ends_where_its_money_ends(folder: LabelFolder, models: Models) -> None:
    models.usage = (10, 200)
    found = refined(folder, budget=0.05)
    assert found.out_of_money
    assert spent(folder) <= 0.05
    assert {each.verdict for each in found.changes} <= {"undecided", "dropped"}


def test_a_quote_that_nobody_agrees_to_asks_nobody(
    folder: LabelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.commands.bulk.quoting._WITHOUT_ASKING", 0.0)
    before = folder.server.count()
    with pytest.raises(ConfigError, match="nothing was spent"):
        refined(folder)
    assert folder.server.count() == before


def test_changes_that_cannot_be_made_are_left_out_with_the_reason(
    folder: LabelFolder, models: Models
) -> None:
    models.changes = [
        change("x", replace="a passage that is not there"),
        change(""),
        change("w" * 1001),
        "none",
        {"replace": 1, "write": None, "cases": "all", "why": []},
        change("", replace=PRESENT),
    ]
    found = refined(folder)
    assert list(found.changes) == []
    assert found.tasks == 0
    assert found.not_made == {
        "it replaces a passage that the instructions do not have": 1,
        "it changes nothing": 1,
        "it writes more than 1,000 characters": 1,
        "it is not in the form that was asked for": 2,
        "it leaves no instructions": 1,
    }


def test_the_output_says_why_a_change_was_left_out(folder: LabelFolder, models: Models) -> None:
    models.changes = [change("w" * 1001)]
    _print_refinement(folder.console, refined(folder), folder.path / "in.csv", None)
    said = folder.console.file.getvalue()  # type: ignore[attr-defined]
    assert "1 change left out: it writes more than 1,000 characters" in said


def test_more_changes_than_are_judged_at_once_are_named(folder: LabelFolder, models: Models) -> None:
    models.changes = [change(f"{number}.") for number in (1, 1, 2, 3, 4)]
    found = refined(folder)
    assert len(found.changes) == 3
    assert found.not_made == {
        "it leads to the same text as another": 1,
        "it is one too many: 3 are judged at once": 1,
    }


def test_a_model_that_proposes_no_change_is_no_failure(folder: LabelFolder, models: Models) -> None:
    models.changes = []
    assert (list(refined(folder).changes), models.asked) == ([], 1)


def test_an_answer_that_is_no_proposal_is_named_and_kept_for_the_user(
    folder: LabelFolder, models: Models
) -> None:
    models.instead = Reply.says("I would write a rule about irony.", usage=(1000, 500))
    with pytest.raises(BadAnswerError, match=r"no list of changes.*paid") as refused:
        refined(folder)
    assert refused.value.where == "green"
    assert "--by" in str(refused.value.fix)
    assert (folder.path / "refine" / "answer.txt").read_text() == "I would write a rule about irony."


def test_after_an_answer_that_is_no_proposal_the_next_run_asks_again_and_a_fourth_does_not(
    folder: LabelFolder, models: Models
) -> None:
    models.instead = Reply.says("Irony.")
    for _ in range(3):
        with pytest.raises(BadAnswerError, match="no list of changes"):
            refined(folder)
    with pytest.raises(BadAnswerError, match="none of its 3 answers") as refused:
        refined(folder)
    assert models.asked == 3
    assert "--by" in str(refused.value.fix)


def test_a_proposal_after_an_unreadable_answer_is_quoted_bought_and_judged(
    folder: LabelFolder, models: Models
) -> None:
    models.instead = Reply.says("Irony.")
    with pytest.raises(BadAnswerError):
        refined(folder)
    models.instead = None
    found = refined(folder)
    assert "best" in {each.verdict for each in found.changes}
    quotes = [line for line in folder.console.file.getvalue().splitlines() if "a proposal by" in line]  # type: ignore[attr-defined]
    assert len(quotes) == 2
    assert not any("at most $0;" in line for line in quotes)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply.says(None, refusal="I cannot."), "the model refused"),
        (Reply.says(""), "it is empty or unreadable"),
        (Reply.says('{"changes": [{"replace": "', finish_reason="length"), "cut off after 3,000 tokens"),
    ],
)
def test_a_refusal_and_an_answer_cut_off_are_named(
    folder: LabelFolder, models: Models, reply: Reply, said: str
) -> None:
    models.instead = reply
    with pytest.raises(BadAnswerError, match=said):
        refined(folder)


def test_a_refinement_is_json(done: Refined) -> None:
    found = json.loads(json.dumps(asdict(done.found)))
    assert found["changes"][1]["written"] == f"{PRESENT} {GOOD}"


def test_too_few_labelled_tasks_are_refused_before_anything_is_asked(tmp_path: Path, models: Models) -> None:
    with LabelFolder(tmp_path, models, concurrency=8) as folder:
        folder.write("in.csv", "text\n" + "".join(f'"{text}"\n' for text in TEXTS[:24]))
        folder.label()
        teach(folder, TEXTS[:12])
        before = folder.server.count()
        with pytest.raises(ConfigError, match="too few to judge") as refused:
            refined(folder)
        assert (refused.value.where, folder.server.count()) == ("project in", before)


def test_models_that_contradict_nobody_leave_nothing_to_refine(tmp_path: Path, models: Models) -> None:
    with LabelFolder(tmp_path, models, concurrency=8, instructions=GOOD) as folder:
        folder.write("in.csv", "text\n" + "".join(f'"{text}"\n' for text in TEXTS[:60]))
        folder.label()
        teach(folder, TEXTS[:60])
        with pytest.raises(ConfigError, match="contradict neither") as refused:
            refined(folder)
        assert refused.value.where == "project in"
