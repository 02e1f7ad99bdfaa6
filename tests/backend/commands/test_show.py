"""``camvo show``: what one task's models are sent, what they answered, and what became of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from label_studio_api import PROJECT, LabelStudioApi
from labelling import PLAIN, LabelFolder
from rich.console import Console

from backend.annotation.inspection import InspectedTask
from backend.commands.label.project import _predict_in_process
from backend.commands.shared.options import LabelOptions
from backend.commands.show import _inspect_file_task, _inspect_project_task, _print_task
from backend.errors import ConfigError
from backend.testing import Reply

TEXTS = ("lovely weather", "gloomy weather")


def opinions(body: dict[str, Any]) -> Reply:
    """Red is glad; green gives an answer that is no label, or none at all about gloomy texts."""
    if body["model"] == "red":
        return Reply.says({"label": "Glad"}, usage=(50, 5))
    if "gloomy" in str(body["messages"]):
        return Reply.fails(400)
    return Reply.says("I would rather not say", usage=(50, 9))


def show(folder: LabelFolder, task: str, **options: Any) -> InspectedTask:
    return _inspect_file_task(
        folder.path / "in.csv",
        task,
        LabelOptions(**(PLAIN | options)),  # type: ignore[arg-type]
        folder.environment,
    )


@pytest.fixture
def labelled(tmp_path: Path) -> Any:
    with LabelFolder(tmp_path, opinions) as folder:
        folder.table(*TEXTS)
        folder.label()
        yield folder


def test_the_messages_shown_are_those_that_were_sent(labelled: LabelFolder) -> None:
    sent = [
        [(message["role"], message["content"]) for message in request.body["messages"]]
        for request in labelled.server.requests
        if "lovely" in str(request.body["messages"])
    ]
    [prompt] = show(labelled, "2").prompts
    assert [(message.role, message.text) for message in prompt.messages] == sent[0] == sent[1]
    assert prompt.models.keys() == {"red", "green"}


def test_each_answer_has_its_vote_price_and_seconds(labelled: LabelFolder) -> None:
    answer = next(each for each in show(labelled, "2").answers if each.model == "red")
    assert json.loads(answer.content or "") == {"label": "Glad"}
    assert (answer.votes, answer.code, answer.sent) == ({"label": "Glad"}, None, "this prompt")
    assert answer.price == pytest.approx((50 * 1.0 + 5 * 2.0) / 1e6)
    assert answer.seconds is not None
    assert answer.seconds > 0


def test_an_answer_that_is_no_vote_is_shown_with_the_code_of_the_reason(labelled: LabelFolder) -> None:
    answer = next(each for each in show(labelled, "2").answers if each.model == "green")
    assert (answer.content, answer.votes, answer.code) == ("I would rather not say", {}, "model_bad_answer")


def test_a_call_that_failed_is_shown_with_its_code(labelled: LabelFolder) -> None:
    answer = next(each for each in show(labelled, "3").answers if each.model == "green")
    assert (answer.content, answer.code, answer.price) == (None, "model_rejected", 0.0)


def test_the_label_is_shown_with_its_score_and_votes(labelled: LabelFolder) -> None:
    [label] = show(labelled, "2").labels
    row = labelled.rows()[0]
    assert (label.label, round(label.score, 4)) == (row["camvo_label"], round(float(row["camvo_score"]), 4))
    assert label.votes == {"red": "Glad", "green": None}


def test_answers_to_an_earlier_prompt_are_told_from_those_to_this_one(labelled: LabelFolder) -> None:
    config = labelled.path / "camvo.yaml"
    config.write_text(config.read_text() + "instructions: Judge the mood of the writer.\n")
    found = show(labelled, "2")
    assert {answer.sent for answer in found.answers} == {"another prompt"}
    assert "Judge the mood of the writer." in found.prompts[0].messages[0].text


def test_an_answer_to_an_earlier_prompt_with_labels_of_that_time_is_not_called_a_bad_one(
    labelled: LabelFolder,
) -> None:
    found = show(labelled, "2", labels=("Good", "Bad"))
    answer = next(each for each in found.answers if each.model == "red")
    assert (answer.sent, answer.votes, answer.code) == ("another prompt", {}, None)
    _print_task(labelled.console, found, "in.csv, line 2")
    assert "red: not read" in labelled.console.file.getvalue()  # type: ignore[attr-defined]


def test_showing_a_task_that_was_not_asked_about_sends_nothing_and_estimates_prices(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, opinions) as folder:
        folder.table(*TEXTS)
        found = show(folder, "2")
        assert (found.answers, found.labels, folder.server.count()) == ([], [], 0)
        assert all(price > 0 for price in found.prompts[0].models.values())


def test_a_row_is_found_by_its_id(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, opinions) as folder:
        folder.write("in.csv", "key,text\nx7,lovely\ny9,gloomy\n")
        assert "gloomy" in show(folder, "y9", id_column="key").prompts[0].messages[-1].text


def test_the_row_with_an_id_is_found_rather_than_the_one_on_the_line_of_that_number(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, opinions) as folder:
        folder.write("in.csv", "key,text\n1,lovely\n3,sunny\n2,gloomy\n")
        assert "gloomy" in show(folder, "2", id_column="key").prompts[0].messages[-1].text


def test_an_unknown_row_is_refused(labelled: LabelFolder) -> None:
    with pytest.raises(ConfigError, match="no row has the id 'z'"):
        show(labelled, "z")


def test_packed_arms_are_shown_their_own_prompt(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, opinions, of_models={"pack": 5}) as folder:
        folder.table(*TEXTS)
        single, packed = show(folder, "2").prompts
        assert (single.together, packed.together) == (False, True)
        assert packed.models.keys() == {"red:5", "green:5"}


def test_a_blind_tasks_answers_are_withheld_until_somebody_has_labelled_it(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, opinions) as folder:
        folder.table(*TEXTS)
        folder.label(blind=2)
        found = show(folder, "2")
        assert (found.answers, found.labels) == ([], [])
        assert "blind" in (found.problem or "")
        assert found.prompts


def test_a_task_of_label_studio_is_shown_by_its_number(tmp_path: Path) -> None:
    with LabelStudioApi() as api, LabelFolder(tmp_path, lambda body: Reply.says({"mood": "Glad"})) as folder:
        number, _ = api.add_tasks(*TEXTS)
        options = LabelOptions(), folder.environment, folder.console
        _predict_in_process(api.client(), PROJECT, *options, out=None)  # type: ignore[arg-type]
        found = _inspect_project_task(
            api.client(),
            PROJECT,
            str(number),
            folder.environment,
        )
        assert [answer.sent for answer in found.answers] == ["this prompt"] * 2
        assert found.labels[0].label == "Glad"
        with pytest.raises(ConfigError, match="has no task '999'"):
            _inspect_project_task(api.client(), PROJECT, "999", folder.environment)


def test_what_is_printed_holds_the_prompt_the_answers_and_no_control_characters(tmp_path: Path) -> None:
    script = lambda body: Reply.says("\x1b[31mGlad\x07")  # noqa: E731 - one script
    with LabelFolder(tmp_path, script) as folder:
        folder.table("lovely [bold]weather[/bold]")
        folder.label()
        console = Console(file=io.StringIO(), width=200)
        _print_task(console, show(folder, "2"), "in.csv, line 2")
        printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "lovely [bold]weather[/bold]" in printed
    assert "red" in printed
    assert "\x1b" not in printed
    assert "\x07" not in printed
