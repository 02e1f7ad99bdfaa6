"""``camvo label``: every task once, whatever happens, and a file that says what came out."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from command_line import called
from labelling import LabelFolder, Says, always
from structlog.testing import capture_logs
from whole_backend import prompt_of

from backend import runtime
from backend import settings as settings_module
from backend.annotation.job import Job
from backend.commands.bulk import labelling
from backend.commands.shared.options import LabelOptions
from backend.datasets.sources import open_source
from backend.errors import ConfigError, DatasetError, NoVoteError
from backend.ledger import money
from backend.ledger.projects import FailedTasks
from backend.ledger.rounds import ProjectRounds
from backend.models import pool
from backend.runtime import AnnotationProcess, LoopThread
from backend.server.status.missing import Ending
from backend.testing import Reply
from camvo.votes.labels import OrderedVote

CALL = (10 * 1.0 + 2 * 2.0) / 1e6
"""Cost in $ of one call of the scripted models."""

XML = (
    '<View><Text name="t" value="$text"/><Choices name="mood" toName="t"><Choice value="Glad"/>'
    '<Choice value="Sad"/></Choices><Choices name="topic" toName="t"><Choice value="Home"/>'
    '<Choice value="Work"/></Choices></View>'
)


def moods(body: dict[str, Any]) -> Reply:
    """Both models say "Sad" of texts with that word; red alone says it of those with "mixed"."""
    prompt = prompt_of(body)
    sad = "gloomy" in prompt or ("mixed" in prompt and body["model"] == "red")
    return Reply.says({"label": "Sad" if sad else "Glad"})


def labelled_in_turn(folder: LabelFolder, **options: Any) -> list[int]:
    """Label forty numbered rows, one at a time, and return their numbers in the order of the labels."""
    folder.table(*(f"lovely {row}" for row in range(40)))
    folder.label(**options)
    tasks = [
        int(found[1]) for call in folder.server.requests if (found := re.search(r"lovely (\d+)", str(call)))
    ]
    return list(dict.fromkeys(tasks))


def test_rows_are_labelled_in_a_random_order_that_every_run_has(tmp_path: Path) -> None:
    orders = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        with LabelFolder(tmp_path / name, moods) as folder:
            orders.append(labelled_in_turn(folder))
    assert orders[0] == orders[1] != list(range(40))
    assert sorted(orders[0]) == list(range(40))
    assert max(orders[0][:5]) > 10  # of all rows, not of the first


def test_rows_are_labelled_in_their_order_on_request(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        assert labelled_in_turn(folder, in_order=True) == list(range(40))


@pytest.mark.parametrize("tasks", [1, 9, 10, 11, 95])
def test_a_file_larger_than_memory_is_read_in_random_parts_that_hold_each_task_once(
    tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelling, "_SHUFFLED", 10)
    source = [SimpleNamespace(number=number) for number in range(tasks)]
    rows = cast("Any", SimpleNamespace(tasks=tasks, first_rows=lambda: iter(source)))
    order = [task.number for task in labelling._in_random_order(rows, "in")]
    assert sorted(order) == list(range(tasks))
    assert tasks < 95 or max(order[:10]) > 30


def test_every_row_gets_its_label_beside_its_own_columns(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "number,text\n1,lovely\n2,gloomy\n")
        folder.label()
        kept = [(row["number"], row["text"], row["camvo_label"]) for row in folder.rows()]
        assert kept == [("1", "lovely", "Glad"), ("2", "gloomy", "Sad")]


STARS = {"labels": ("1", "2", "3", "4", "5")}


def rates_four(body: dict[str, Any]) -> Reply:
    return Reply.says({"label": "4" if body["model"] == "red" else "5"})


def test_labels_in_an_order_are_read_as_a_scale(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, rates_four) as folder:
        table = folder.write("in.csv", "text\nlovely\n")
        options = LabelOptions(**STARS, text_column="text", ordered="absolute")
        [question] = options.dataset(open_source(table)).config.questions
        assert question.control.aggregation == OrderedVote(STARS["labels"], "absolute")
        folder.label(**STARS, ordered="absolute")
        assert folder.rows()[0]["camvo_label"] in {"4", "5"}
        assert "look like a scale" not in folder.console.file.getvalue()  # type: ignore[attr-defined]


def test_labels_that_look_like_a_scale_are_named(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, rates_four) as folder:
        folder.write("in.csv", "text\nlovely\n")
        folder.label(**STARS)
        assert "the labels of label look like a scale" in folder.console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": ("Low", "High")}, "a scale has from 3 to 11 labels or numbers, not 2"),
        ({"label_config": XML, "labels": (), "text_column": None}, "is for --labels"),
    ],
)
def test_an_order_is_refused_where_it_can_be_none(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "text\nlovely\n")
        with pytest.raises(ConfigError, match=message) as caught:
            folder.label(**options, ordered="exact")
        assert caught.value.where == "--ordered"


CAPTIONED = (
    '<View><Header value="Is it true that $claim?"/><Text name="t" value="$text"/>'
    '<View style="display:none"><Header value="$gold"/></View>'
    '<Choices name="mood" toName="t"><Choice value="Glad"/><Choice value="Sad"/></Choices></View>'
)


def test_the_columns_of_captions_are_read_and_may_be_missing(tmp_path: Path) -> None:
    prompts: list[str] = []

    def script(body: dict[str, Any]) -> Reply:
        prompts.append(prompt_of(body))
        return Reply.says({"mood": "Glad"})

    options = {"label_config": CAPTIONED, "labels": (), "text_column": None}
    with LabelFolder(tmp_path, script) as folder:
        folder.write("in.csv", "text,claim,gold\nlovely,it rained,SECRET\n")
        folder.label(**options)
        assert folder.rows()[0]["camvo_label"] == "Glad"
        assert all("it rained" in prompt and "SECRET" not in prompt for prompt in prompts)
        prompts.clear()
        folder.write("in.csv", "text\ngloomy\n")
        folder.label(**options)
        assert folder.rows()[0]["camvo_label"] == "Glad"
        assert all("> Is it true that $claim?" in prompt for prompt in prompts)
        assert all(re.search('BEGIN .* "claim"\n\nEND ', prompt) for prompt in prompts)
        assert "no row has 'claim'" in folder.console.file.getvalue()  # type: ignore[attr-defined]


def test_a_row_says_who_voted_what_and_what_it_cost(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("mixed")
        folder.label()
        [row] = folder.rows()
        assert json.loads(row["camvo_votes"]) == {"red": "Sad", "green": "Glad"}
        assert float(row["camvo_cost_usd"]) == pytest.approx(2 * CALL)


def test_the_costs_of_the_rows_add_up_to_what_was_spent(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely", "gloomy", "lovely", "mixed")
        folder.label(name="in.csv")
        spent = sum(float(row["camvo_cost_usd"]) for row in folder.rows())
        with folder.ledger.read() as connection:
            assert spent == pytest.approx(money.balance(connection, "in", money.TOTAL).spent / 1e12)


def test_no_vote_of_a_slow_server_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers one call at a time, so that the queue is much longer than the deadline for a person."""
    monkeypatch.setattr(pool, "OVERTIME", 0.0)
    turn = threading.Lock()

    def slow(body: dict[str, Any]) -> Reply:
        with turn:
            time.sleep(0.02)
        return Reply.says({"label": "Glad"})

    with LabelFolder(tmp_path, slow, concurrency=40, deadline=0.3) as folder:
        folder.table(*(f"lovely {number}" for number in range(40)))
        folder.label()
        votes = [json.loads(row["camvo_votes"]) for row in folder.rows()]
        assert votes == [{"red": "Glad", "green": "Glad"}] * 40
        assert folder.server.count() == 80


def test_rows_of_equal_text_are_asked_about_once_and_all_labelled(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "number,text\n1,lovely\n2,lovely\n3,lovely\n")
        assert folder.label().counts.tasks == 1
        assert folder.server.count() == 2
        assert [row["camvo_label"] for row in folder.rows()] == ["Glad"] * 3


def test_the_same_command_buys_nothing_and_writes_the_same_again(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely", "gloomy", "mixed")
        folder.label()
        first, bought = (tmp_path / "out.csv").read_bytes(), folder.server.count()
        assert folder.label().counts.labelled_before == 3
        assert folder.server.count() == bought
        assert (tmp_path / "out.csv").read_bytes() == first


def test_another_order_of_the_rows_changes_nothing(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely", "gloomy", "mixed")
        folder.label()
        before, bought = folder.rows(), folder.server.count()
        folder.table("mixed", "lovely", "gloomy")
        folder.label()
        assert folder.server.count() == bought
        assert sorted(folder.rows(), key=str) == sorted(before, key=str)


def test_an_interrupted_run_comes_to_the_same_labels_scores_and_costs(tmp_path: Path) -> None:
    """Without calibration and the model of votes, which are fitted beside the tasks, when the clock says."""
    texts = [f"{word} {number}" for number in range(8) for word in ("lovely", "gloomy", "mixed")]
    outputs = []
    for name, stops in (("straight", ()), ("interrupted", (5, 11))):
        (tmp_path / name).mkdir()
        with LabelFolder(tmp_path / name, moods, policy={"name": "majority"}, calibrate=False) as folder:
            folder.table(*texts)
            for stop in stops:
                with pytest.raises(KeyboardInterrupt), _interrupt_after(stop):
                    folder.label()
            folder.label()
            outputs.append(
                [row | {"camvo_score": round(float(row["camvo_score"]), 9)} for row in folder.rows()]
            )
            sold = Counter((request.model, prompt_of(request.body)) for request in folder.server.requests)
            assert set(sold.values()) == {1}
    assert outputs[0] == outputs[1]


def test_an_interrupted_run_counts_the_tasks_that_end_while_it_stops(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods, concurrency=8) as folder:
        folder.table(*(f"lovely {number}" for number in range(24)))
        with pytest.raises(KeyboardInterrupt), _interrupt_after(5):
            folder.label()
        with folder.ledger.read() as connection:
            labelled = ProjectRounds(connection, "in").count_tasks()
        assert f"{labelled} of 24 tasks labelled now" in said(folder)
        assert labelled > 5


def test_an_interrupted_run_says_which_tasks_were_interrupted_and_blames_no_model(tmp_path: Path) -> None:
    models: dict[str, dict[str, object]] = {name: {"max_concurrency": 1} for name in ("red", "green")}
    with LabelFolder(tmp_path, moods, models=models, concurrency=8) as folder:
        folder.table(*(f"lovely {number}" for number in range(24)))
        terminal = _hold_answers_until(folder, "stopping when")
        with pytest.raises(KeyboardInterrupt), _interrupt_after(2):
            folder.label()
    said = terminal.getvalue()
    assert re.search(r"! \d tasks were interrupted: .* \[stopping\]\n  → run the same command\n", said)
    assert "no vote" not in said


def test_a_run_that_is_interrupted_twice_says_what_the_dropped_answers_may_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(labelling.Labelling, "wait", interrupted)
    with LabelFolder(tmp_path, moods, concurrency=8) as folder:
        folder.table(*(f"lovely {number}" for number in range(24)))
        terminal = _hold_answers_until(folder, "calls under way")
        with pytest.raises(KeyboardInterrupt), _interrupt_after(2):
            folder.label()
    assert re.search(r"\ncalls under way may cost up to \$0\.0\d*[1-9]\d*: ", terminal.getvalue())


def _hold_answers_until(folder: LabelFolder, words: str) -> Says:
    """A terminal; each model's answers after the first four are held until these words are printed on it."""
    terminal = Says(words)
    folder.console.file = terminal
    folder.server.script = lambda body: (
        moods(body).held_until(terminal.said) if folder.server.count(body["model"]) > 4 else moods(body)
    )
    return terminal


def _interrupt_after(tasks: int) -> Any:
    """Interrupt the run when so many tasks of it have ended, as Ctrl-C does."""
    run = labelling.Labelling.run

    def interrupted(self: Any, jobs: Any) -> Any:
        for number, job in enumerate(run(self, jobs), start=1):
            yield job
            if number == tasks:
                raise KeyboardInterrupt

    patch = pytest.MonkeyPatch.context()
    return _Patched(patch, interrupted)


class _Patched:
    def __init__(self, context: Any, function: Callable[..., Any]) -> None:
        self._context, self._function = context, function

    def __enter__(self) -> None:
        self._context.__enter__().setattr(labelling.Labelling, "run", self._function)

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(*error)


def test_a_task_that_fails_does_not_end_the_run_and_its_row_says_why(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, _fails_on("broken")) as folder:
        folder.table("broken", "lovely")
        assert folder.label().counts.failed == {"model_rejected": 1}
        assert [(row["camvo_label"], row["camvo_error"]) for row in folder.rows()] == [
            ("", "model_rejected"),
            ("Glad", ""),
        ]


def test_retry_failed_asks_about_the_failed_tasks_alone(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, _fails_on("broken")) as folder:
        folder.table("broken", "lovely")
        folder.label()
        folder.table("broken", "lovely", "new")
        folder.server.script, before = always("Sad"), folder.server.count()
        folder.label(retry_failed=True)
        assert folder.server.count() == before + 2
        assert [row["camvo_label"] for row in folder.rows()] == ["Sad", "Glad", ""]


def test_a_model_that_leaves_some_texts_open_keeps_its_stored_votes_in_another_project(
    tmp_path: Path,
) -> None:
    """There it is asked about those texts alone: a row of answers without a vote, which says nothing new."""

    def script(body: dict[str, Any]) -> Reply:
        is_open = body["model"] == "green" and "dull" in prompt_of(body)
        return Reply.says("I cannot say.") if is_open else moods(body)

    with LabelFolder(tmp_path, script) as folder:
        votes = []
        for file in ("in.csv", "again.csv"):  # whose name is the project's
            folder.table(*(f"{('lovely', 'fine', 'dull')[row % 3]} {row}" for row in range(36)), name=file)
            folder.label(file, in_order=True)
            votes.append([json.loads(row["camvo_votes"]) for row in folder.rows()])
        assert votes[0] == votes[1]


def test_a_second_file_of_the_project_leaves_the_failures_of_the_first(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, _fails_on("broken")) as folder:
        folder.table("broken", "lovely")
        folder.label()
        (folder.path / "more").mkdir()
        folder.table("new", name="more/in.csv")
        folder.label("more/in.csv")
        with folder.ledger.read() as connection:
            assert FailedTasks(connection, "in").count() == {"model_rejected": 1}


def test_a_failure_outlives_no_label_although_the_run_that_gave_it_was_killed(tmp_path: Path) -> None:
    """It is forgotten after the label is stored, and a process may be killed in between."""
    with LabelFolder(tmp_path, _fails_on("broken")) as folder:
        folder.table("broken", "lovely")
        folder.label()
        folder.server.script = always("Sad")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FailedTasks, "forget", lambda self, tasks: None)
            folder.label()
        bought = folder.server.count()
        folder.label()
        assert folder.server.count() == bought
        with folder.ledger.read() as connection:
            assert FailedTasks(connection, "in").count() == {}


def test_changed_rows_of_a_renamed_file_leave_no_failure(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, _fails_on("broken")) as folder:
        before = folder.table("broken", "lovely")
        folder.label()
        before.unlink()
        folder.table("mended", "lovely", name="in.tsv")
        folder.label("in.tsv")
        with folder.ledger.read() as connection:
            assert FailedTasks(connection, "in").count() == {}


def _fails_on(word: str) -> Callable[[dict[str, Any]], Reply]:
    return lambda body: Reply.fails(400) if word in prompt_of(body) else Reply.says({"label": "Glad"})


def test_a_blank_text_costs_nothing_and_fails_alone(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "number,text\n1,\n2,lovely\n")
        folder.label()
        assert [row["camvo_error"] for row in folder.rows()] == ["text_empty", ""]


def test_a_blank_text_that_was_filled_in_is_missing_no_more(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "number,text\n1,\n2,lovely\n")
        assert folder.label().ending is Ending.TASKS_LEFT
        folder.write("in.csv", "number,text\n1,lovely as well\n2,lovely\n")
        assert folder.label().ending is Ending.DONE


def test_models_that_never_vote_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.commands.bulk.labelling._HOPELESS", 3)
    with LabelFolder(tmp_path, lambda body: Reply.fails(401)) as folder:
        folder.table(*(f"text {number}" for number in range(30)))
        tally = folder.label()
        assert tally.counts.hopeless
        assert tally.left >= 25


def test_while_no_model_votes_a_run_begins_no_more_tasks_than_end_it() -> None:
    begun: list[Job] = []

    class NobodyVotes:
        async def annotate(self, job: Job) -> None:
            begun.append(job)
            raise NoVoteError("no model voted")

    thread = LoopThread()
    thread.start()
    process = cast("AnnotationProcess", SimpleNamespace(thread=thread, annotator=NobodyVotes()))
    run = labelling.Labelling(process, at_once=labelling._HOPELESS + 14)
    job = cast("Job", SimpleNamespace(project="in", task=1))
    ended = [*run.run([job] * 1000)]
    thread.stop()
    assert run.counts.hopeless
    assert len(begun) == len(ended) == labelling._HOPELESS + 14


def dear(body: dict[str, Any]) -> Reply:
    """An answer of 900 input and 200 output tokens, $0.0013."""
    return Reply.says({"label": "Glad"}, usage=(900, 200))


def test_a_budget_ends_the_run_before_it_is_exceeded(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, dear, concurrency=8) as folder:
        folder.table(*(f"text {number}" for number in range(12)))
        tally = folder.label(budget=0.02)
        assert tally.counts.out_of_money
        assert 0 < tally.counts.labelled < 12
        assert tally.spending.in_all() <= 0.02


def test_a_run_after_the_budget_was_raised_goes_on_and_counts_what_was_spent(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, dear) as folder:
        folder.table(*(f"text {number}" for number in range(12)))
        first = folder.label(budget=0.02)
        second = folder.label(budget=1.0)
        assert second.counts.labelled_before == first.counts.labelled
        # The round that the first budget ended was decided by the one vote that was paid.
        assert 2 * 12 - 1 <= folder.server.count() <= 2 * 12
        assert second.spending.in_all() == pytest.approx(folder.server.count() * 0.0013)


def test_for_a_spreadsheet_no_cell_is_a_formula(tmp_path: Path) -> None:
    texts = [f"{begin}cmd|' /C calc'!A1" for begin in "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"]
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.jsonl", "\n".join(json.dumps({"text": text, "=1+1": "a"}) for text in texts))
        folder.label("in.jsonl")
        folder.label("in.jsonl", "marked.csv", spreadsheet=True)
        plain, marked = folder.rows(), folder.rows("marked.csv")
    assert [(row["text"], row["=1+1"]) for row in plain] == [(text, "a") for text in texts]
    assert [(row["text"], row["'=1+1"]) for row in marked] == [(f"'{text}", "a") for text in texts]
    assert [row["camvo_label"] for row in marked] == ["Glad"] * len(texts)


def test_only_csv_is_for_a_spreadsheet(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely")
        with pytest.raises(DatasetError, match="--spreadsheet: is for CSV"):
            folder.label(out="out.jsonl", spreadsheet=True)
        assert folder.server.count() == 0


def test_several_controls_have_a_column_of_labels_each(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, lambda body: Reply.says({"mood": "Glad", "topic": "Work"})) as folder:
        folder.table("lovely")
        folder.label(label_config=XML, labels=(), text_column=None)
        [row] = folder.rows()
        assert (row["camvo_label_mood"], row["camvo_label_topic"]) == ("Glad", "Work")


def test_a_question_without_a_vote_leaves_its_column_empty_and_is_named(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, lambda body: Reply.says({"mood": "Glad", "topic": "Sport"})) as folder:
        folder.table("lovely")
        tally = folder.label(label_config=XML, labels=(), text_column=None)
        [row] = folder.rows()
        assert (row["camvo_label_mood"], row["camvo_label_topic"]) == ("Glad", "")
        assert (row["camvo_error"], tally.counts.failed.total()) == ("model_bad_answer", 1)
        assert "0 of 1 task labelled now and 0 before, 1 more for some of their questions" in tally.summary()
        folder.server.script = lambda body: Reply.says({"topic": "Work"})
        folder.label(label_config=XML, labels=(), text_column=None, retry_failed=True)
        [row] = folder.rows()
        assert (row["camvo_label_topic"], row["camvo_error"]) == ("Work", "")


def test_tasks_with_a_label_for_one_question_do_not_end_a_run_as_hopeless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.commands.bulk.labelling._HOPELESS", 2)
    with LabelFolder(tmp_path, lambda body: Reply.says({"mood": "Glad", "topic": "Sport"})) as folder:
        folder.table(*(f"text {number}" for number in range(4)))
        tally = folder.label(label_config=XML, labels=(), text_column=None)
        assert (tally.counts.failed.total(), tally.counts.hopeless) == (4, False)


def test_label_studios_format_holds_predictions(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("gloomy")
        folder.label(out="out.json")
        [task] = json.loads((tmp_path / "out.json").read_text())
        assert task["data"] == {"text": "gloomy"}
        [prediction] = task["predictions"]
        assert prediction["result"][0]["value"] == {"choices": ["Sad"]}
        assert prediction["model_version"] == "camvo"


def test_a_column_whose_name_no_label_config_can_hold_is_labelled_all_the_same(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "what they said\ngloomy\n")
        folder.label(text_column="what they said")
        assert folder.rows()[0]["camvo_label"] == "Sad"


def test_ids_are_those_of_the_id_column(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "key,text\na,lovely\nb,lovely\n")
        folder.label(id_column="key")
        assert [row["camvo_id"] for row in folder.rows()] == ["a", "b"]


def test_two_rows_of_one_id_are_refused_with_both_lines_before_anything_is_spent(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "key,text\na,lovely\nb,fine\na,gloomy\n")
        with pytest.raises(DatasetError, match="line 4 has the same id as line 2"):
            folder.label(id_column="key")
        assert folder.server.count() == 0


def test_a_missing_column_is_refused_with_the_line_and_the_columns(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "review\nlovely\n")
        with pytest.raises(DatasetError) as refused:
            folder.label()
        assert "line 2" in str(refused.value)
        assert "'review'" in str(refused.value)


@pytest.mark.parametrize(
    "options", [{"labels": ()}, {"labels": ("Glad",)}, {"text_column": None}, {"label_config": XML}]
)
def test_a_question_that_is_not_given_exactly_once_is_refused(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely")
        with pytest.raises(ConfigError):
            folder.label(**options)


def test_the_file_of_an_earlier_run_stays_when_a_run_is_refused(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("out.csv", "precious")
        folder.write("in.csv", "text\n")
        with pytest.raises(DatasetError, match="no rows"):
            folder.label()
        assert (tmp_path / "out.csv").read_text() == "precious"


def test_the_tasks_own_file_is_never_overwritten(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely")
        with pytest.raises(DatasetError, match="file of the tasks"):
            folder.label(out="in.csv")


def test_many_tasks_are_asked_about_at_once_but_no_more_than_concurrency(tmp_path: Path) -> None:
    released = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        if folder.server.count() >= 6:
            released.set()
        return Reply.says({"label": "Glad"}).held_until(released)

    with LabelFolder(tmp_path, script, concurrency=3) as folder:
        folder.table(*(f"text {number}" for number in range(9)))
        folder.label()
        assert folder.server.most_at_once == 6  # three tasks with two models each


def said(folder: LabelFolder) -> str:
    return str(folder.console.file.getvalue())  # type: ignore[attr-defined]


def test_the_first_run_says_that_nothing_can_be_certified_without_a_blind_sample(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely", "gloomy")
        folder.label()
        folder.label()
        assert said(folder).count("no task is kept blind") == 1


def test_a_blind_sample_of_a_labelled_file_is_not_written_and_another_name_has_one_for_nothing(
    tmp_path: Path,
) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely", "gloomy", "calm")
        folder.label()
        bought = folder.server.count()
        folder.label(blind=2)
        assert not (tmp_path / "blind.csv").exists()
        assert "--name in-blind" in said(folder)
        folder.table("lovely", "gloomy", "calm", name="in-blind.csv")  # whose name is the project's
        folder.label("in-blind.csv", blind=2)
        assert len(folder.rows("blind.csv")) == 2
        assert folder.server.count() == bought


def test_a_blind_sample_that_is_smaller_than_asked_for_says_why(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "number,text\n1,lovely\n2,\n3,gloomy\n")
        folder.label(blind=3)
        assert len(folder.rows("blind.csv")) == 2
        assert "2 blind tasks (1 more cannot be asked about, or have a label already) written" in said(folder)


def test_a_folder_in_place_of_the_output_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely", "gloomy")
        (tmp_path / "out.csv").mkdir()
        with pytest.raises(DatasetError, match="is a folder"):
            folder.label()
        assert folder.server.count() == 0


def test_the_file_that_people_label_is_no_output(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely", "gloomy")
        with pytest.raises(DatasetError, match="is the file that people label"):
            folder.label(out="blind.csv", blind=1)
        assert folder.server.count() == 0


@pytest.mark.parametrize("name", ["in.csv", "out.csv", "blind.csv"])
def test_a_certificate_takes_the_place_of_no_file_of_the_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "in.csv").write_text("text\nlovely\n")
    options = ("--labels", "Glad,Sad", "--text-column", "text", "--out", "out.csv", "--yes")
    ended = called("label", "in.csv", *options, "--certificate", name, cwd=tmp_path)
    assert ended.returncode == 2
    assert "--certificate: is a file of the run" in ended.stderr
    assert (tmp_path / "in.csv").read_text() == "text\nlovely\n"


def test_brackets_in_a_file_s_name_are_printed(tmp_path: Path) -> None:
    folder_of_blind = tmp_path / "[old]"
    folder_of_blind.mkdir()
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely", "gloomy", "mixed")
        folder.label(blind=1, blind_file=folder_of_blind / "blind.csv")
        assert f"written to {folder_of_blind}/blind.csv: label them" in said(folder)


def test_a_pilot_names_the_code_of_the_tasks_that_it_cannot_ask_about(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "number,text\n1,lovely\n2,\n3,gloomy\n")
        folder.label(pilot=3)
        pilot = said(folder).partition("pilot: ")[2]
        assert "the text is blank [text_empty]\n" in pilot.partition("asking everyone")[0]


def test_a_blind_sample_of_blank_texts_is_not_said_to_be_labelled(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "number,text\n1,\n2, \n")
        folder.label(blind=2)
        assert "no blind task can be drawn: none of the sample can be asked about" in said(folder)
        assert "has a label already" not in said(folder)


RECALL = {"name": "joint", "recall": {"Glad": 0.9}}


def test_a_recall_without_blind_tasks_is_refused_before_a_model_is_asked(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods, policy=RECALL) as folder:
        folder.table("lovely", "gloomy", "calm")
        with pytest.raises(ConfigError, match="needs blind labels") as caught:
            folder.label()
        assert caught.value.where == "policy.recall"
        assert folder.server.count() == 0


def test_a_label_with_a_recall_has_its_score_beside_the_votes(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods, policy=RECALL) as folder:
        folder.table("lovely", "gloomy", "calm")
        folder.label(blind=1)
        scores = [json.loads(row["camvo_likely"])["Glad"] for row in folder.rows() if row["camvo_likely"]]
        assert scores
        assert all(0.0 <= score <= 1.0 for score in scores)
        folder.label()  # its blind tasks are known by now


def test_files_whose_names_have_letters_that_no_key_can_have_are_projects_of_their_own() -> None:
    reviews, mails, accents = (
        LabelOptions().project(Path(name)) for name in ("评论.csv", "邮件.csv", "été.csv")
    )
    assert reviews != mails
    assert {reviews[:5], mails[:5]} == {"file-"}
    assert accents == "ete"


def test_the_project_of_a_long_name_has_a_key_that_the_ledger_takes() -> None:
    keys = {LabelOptions().project(Path("x" * 150 + end)) for end in ("1.csv", "2.csv")}
    assert len(keys) == 2
    assert {LabelOptions(name=key).project(Path("in.csv")) for key in keys} == keys


def test_work_that_is_dropped_with_its_process_still_writes_its_end(tmp_path: Path) -> None:
    begun, written = threading.Event(), threading.Event()
    with LabelFolder(tmp_path, always("Glad")) as folder:
        process = AnnotationProcess(settings_module.load(folder.environment.config), folder.environment)

        async def work() -> None:
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                await process.writer.run(lambda connection: written.set())

        process.start()
        process.thread.submit(work())
        assert begun.wait(30.0)
        process.close()
    assert written.is_set()


def test_a_process_that_ends_does_not_log_that_its_upkeep_cannot_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_PAUSE", 0.0)  # so upkeep writes all the time
    with LabelFolder(tmp_path, always("Glad")) as folder, capture_logs() as logs:
        process = AnnotationProcess(settings_module.load(folder.environment.config), folder.environment)
        process.start()
        close = process.writer.close

        def close_and_wait() -> None:
            close()
            for _ in range(20):
                assert process.thread.turns(30.0)

        monkeypatch.setattr(process.writer, "close", close_and_wait)
        process.close()
    assert [line["event"] for line in logs if line["log_level"] == "error"] == []
