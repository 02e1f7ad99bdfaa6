"""``camvo try``: two texts side by side, paid for once, and refused before anything is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from batch_provider import BatchServer
from command_line import called
from label_studio_api import PROJECT, LabelStudioApi
from labelling import PLAIN, LabelFolder
from whole_backend import prompt_of

from backend.commands.bulk import batch_run
from backend.commands.instructions.asking import opened as opened_source
from backend.commands.instructions.trial import TrialOptions, _try_on
from backend.commands.shared.options import LabelOptions
from backend.commands.teach import teach_file
from backend.errors import ConfigError
from backend.testing import Reply

TEXTS = [f"text {number}" for number in range(20)]


def told(body: dict[str, Any]) -> Reply:
    """Models that know from the instructions alone that every text is sad."""
    contents = " ".join(message["content"] for message in body["messages"])
    return Reply.says({"label": "Sad" if "All are sad" in contents else "Glad"})


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LabelFolder]:
    """Twenty tasks that the models call glad, and ten of which people call sad."""
    with LabelFolder(tmp_path, told, concurrency=8) as folder:
        folder.table(*TEXTS)
        folder.label(blind=10)
        folder.change("blind.csv", **dict.fromkeys(TEXTS, "Sad"))
        teach_file(tmp_path / "blind.csv", tmp_path / "camvo.yaml")
        folder.write("new.txt", "All are sad.\n")
        yield folder


def tried(folder: LabelFolder, new: str = "new.txt", sample: int = 10, **options: Any) -> Any:
    trial = TrialOptions(folder.path / new, None, sample, folder.path / "try.html")
    chosen = LabelOptions(**PLAIN, **options)  # type: ignore[arg-type]
    with opened_source(folder.path / "in.csv", chosen, folder.environment) as (jobs, tasks):
        return _try_on(jobs, tasks, trial, chosen, folder.console)


def test_a_better_text_is_found_by_the_labels_of_people(folder: LabelFolder) -> None:
    found = tried(folder)
    [question] = found.questions
    assert (found.tasks, found.labelled) == (10, 8)
    assert (question.vote.before, question.vote.after) == (0.0, 1.0)
    assert question.vote.low > 0.0
    assert question.changed == {("Glad", "Sad"): 10}
    assert set(question.models) == {"red", "green"}


@pytest.mark.parametrize("name", ["new.md", "new.txt"])
def test_a_plain_text_is_tried_as_it_stands(folder: LabelFolder, name: str) -> None:
    folder.write(name, "- <person: All are sad\n- Price < 5\n")
    assert tried(folder, new=name).questions[0].vote.after == 1.0


def test_the_present_answers_and_those_tried_before_are_not_bought_again(folder: LabelFolder) -> None:
    before = folder.server.count()
    tried(folder)
    assert folder.server.count() - before == 2 * 10
    assert tried(folder).paid == 0.0
    assert folder.server.count() - before == 2 * 10


def test_the_quote_counts_the_attempts_that_are_left_where_no_answer_gave_a_vote(folder: LabelFolder) -> None:
    folder.server.script = lambda body: Reply.says("No idea") if body["model"] == "red" else told(body)
    tried(folder)  # the answers of red to the new text are none
    for left in (10, 10, 0):
        before = folder.server.count()
        tried(folder)
        bought = re.findall(
            r"new text: 20 answers about 10 tasks, (\d+) to buy", folder.console.file.getvalue()
        )  # type: ignore[attr-defined]
        assert (int(bought[-1]), folder.server.count() - before) == (left, left)


def test_what_was_tried_counts_when_the_text_is_adopted(folder: LabelFolder) -> None:
    tried(folder, sample=20)
    before = folder.server.count()
    config = folder.path / "camvo.yaml"
    config.write_text(config.read_text() + "instructions: All are sad.\n")
    folder.label(out="adopted.csv", below=1.0)
    assert folder.server.count() == before
    assert {row["camvo_label"] for row in folder.rows("adopted.csv")} == {"Sad"}


def test_the_price_of_a_text_is_the_full_one_although_its_answers_came_in_batches(tmp_path: Path) -> None:
    server = BatchServer(lambda body: Reply.answers(body, lambda text: {"label": "Glad"}, usage=(1000, 100)))
    with LabelFolder(tmp_path, server.script, server=server, of_models={"batch_discount": 0.5}) as folder:
        folder.table(*TEXTS)
        with patch.object(batch_run, "_FIRST_PAUSE", 0.02):
            folder.label(batch=True, wait=True)
        folder.write("new.txt", "All are sad.\n")
        found = tried(folder)
        assert server.at_once.total() == 2 * 10  # the answers to the present text came in batches
        assert found.before_usd == found.after_usd == pytest.approx(2 * (1000 * 1.0 + 100 * 2.0) / 1e6)


def test_a_model_that_answered_one_text_only_is_in_neither_price(folder: LabelFolder) -> None:
    folder.server.script = lambda body: Reply.fails(503) if body["model"] == "red" else told(body)
    found = tried(folder)
    assert found.before_usd == found.after_usd > 0.0
    assert tried(folder, budget=0.0, sample=20).after_usd == found.after_usd


def test_the_page_shows_text_people_and_every_answer(folder: LabelFolder) -> None:
    tried(folder)
    page = (folder.path / "try.html").read_text()
    for words in ("text 1", "red: Glad", "green: Sad", "the new text is better"):
        assert words in page


def test_a_model_that_is_down_is_not_judged(folder: LabelFolder) -> None:
    folder.server.script = lambda body: Reply.fails(503) if body["model"] == "red" else told(body)
    found = tried(folder)
    assert set(found.questions[0].models) == {"green"}
    assert found.questions[0].vote.after == 1.0


def test_every_model_is_asked_about_every_task_although_one_gave_no_vote_many_times(
    folder: LabelFolder,
) -> None:
    before = folder.server.count("red")
    folder.server.script = lambda body: Reply.says("Hm.") if body["model"] == "red" else told(body)
    found = tried(folder, sample=20)
    assert folder.server.count("red") == before + 20
    assert found.missing == {"model_bad_answer": 20}


def test_votes_of_a_model_that_rests_because_it_is_down_are_counted_as_missing(folder: LabelFolder) -> None:
    folder.server.script = lambda body: Reply.fails(503) if body["model"] == "red" else told(body)
    assert tried(folder, sample=20).missing == {"model_unavailable": 20}


def test_the_comparison_is_json(folder: LabelFolder) -> None:
    found = json.loads(json.dumps(tried(folder, budget=0.0).to_json()))
    assert found["missing"] == {"budget_exhausted": 20}
    found = json.loads(json.dumps(tried(folder).to_json()))
    [question] = found["questions"]
    assert question["changed"] == [{"before": "Glad", "after": "Sad", "tasks": 10}]
    assert question["votes_changed"] == {"red": 10, "green": 10}


def test_the_command_refuses_in_one_line_what_says_nothing_to_try(folder: LabelFolder) -> None:
    ended = called("try", "in.csv", "--labels", "Glad,Sad", "--text-column", "text", cwd=folder.path)
    assert ended.returncode == 2
    assert "say what to try" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_trial_keeps_to_its_budget_and_says_which_votes_are_missing(folder: LabelFolder) -> None:
    before = folder.server.count()
    found = tried(folder, budget=0.0)
    assert folder.server.count() == before
    assert found.missing == {"budget_exhausted": 20}
    assert found.questions[0].vote is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("  \n", "has no text"),
        ("many words " * 200_000, "tokens"),
        (None, "cannot be read"),
    ],
)
def test_a_text_that_cannot_be_tried_is_refused_before_anything_is_asked(
    folder: LabelFolder, content: str | None, problem: str
) -> None:
    if content is not None:
        folder.write("bad.txt", content)
    before = folder.server.count()
    with pytest.raises(ConfigError, match=problem):
        tried(folder, "bad.txt")
    assert folder.server.count() == before


def test_the_present_text_itself_is_refused(folder: LabelFolder) -> None:
    config = folder.path / "camvo.yaml"
    config.write_text(config.read_text() + "instructions: All are sad.\n")
    with pytest.raises(ConfigError, match="nothing to compare"):
        tried(folder)


def moods(body: dict[str, object]) -> Reply:
    return Reply.says({"mood": "Sad" if "rain" in prompt_of(body) else "Glad"})


def on_project(api: LabelStudioApi, folder: LabelFolder, trial: TrialOptions) -> Any:
    options = LabelOptions(yes=True)
    with opened_source((api.client(), PROJECT), options, folder.environment) as (jobs, tasks):
        return _try_on(jobs, tasks, trial, options, folder.console)


def test_a_project_of_label_studio_is_tried_and_stays_as_it_is(tmp_path: Path) -> None:
    with LabelStudioApi() as api, LabelFolder(tmp_path, moods) as folder:
        api.add_tasks("rain", "sun")
        trial = TrialOptions(folder.write("new.txt", "Be exact."), None, 50, tmp_path / "try.html")
        found = on_project(api, folder, trial)
        assert (found.tasks, found.labelled) == (2, 0)
        assert api.writes == []
        assert api.predictions() == []


def test_a_label_config_of_another_question_is_refused(tmp_path: Path) -> None:
    with LabelStudioApi() as api, LabelFolder(tmp_path, moods) as folder:
        api.add_tasks("rain")
        other = folder.write("new.xml", api.project["label_config"].replace('"mood"', '"weather"'))
        with pytest.raises(ConfigError, match="other questions"):
            on_project(api, folder, TrialOptions(None, other, 50, tmp_path / "try.html"))
        assert folder.server.count() == 0
