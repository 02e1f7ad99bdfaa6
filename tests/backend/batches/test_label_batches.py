"""``camvo label --batch``: the same labels at half the price, whatever happens on the way."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from batch_provider import BatchServer
from labelling import LabelFolder
from rich.console import Console
from sqlalchemy import delete, select
from whole_backend import prompt_of

from backend import upkeep
from backend.annotation import annotator, batch_desk
from backend.annotation.batch_desk import Desk, DeskReport
from backend.commands.bulk import batch_run
from backend.commands.bulk import labelling as bulk_labelling
from backend.commands.bulk.batch_run import list_jobs
from backend.commands.shared import output
from backend.errors import BatchesUnsupportedError, PriceMissingError
from backend.ledger import answers, deletions, money
from backend.ledger.batches import Jobs, Lines, WaitingTasks
from backend.ledger.database import tables
from backend.ledger.reports import ProjectSums
from backend.models.batches.provider import Limits
from backend.models.model import litellm
from backend.questions.naming import answer_key
from backend.testing import Reply

CALL = (10 * 1.0 + 2 * 2.0) / 1e6
"""Cost in $ of one call of the scripted models, asked at once."""


def moods(body: dict[str, Any]) -> Reply:
    """Both models say "Sad" of texts with "gloomy"; red alone says it of those with "mixed"."""
    prompt = prompt_of(body)
    sad = "gloomy" in prompt or ("mixed" in prompt and body["model"] == "red")
    return Reply.says({"label": "Sad" if sad else "Glad"})


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with patch.object(batch_desk, "_LEASE", 0.1), patch.object(batch_run, "_FIRST_PAUSE", 0.02):
        yield BatchServer(moods)


def folder_of(path: Path, server: BatchServer, **settings: Any) -> LabelFolder:
    path.mkdir(exist_ok=True)
    return LabelFolder(path, moods, server=server, of_models={"batch_discount": 0.5}, **settings)


def label(folder: LabelFolder, **options: Any) -> Any:
    return folder.label(**{"batch": True, "wait": True, **options})


def spent(folder: LabelFolder) -> float:
    with folder.ledger.read() as connection:
        account = money.balance(connection, "in", money.TOTAL)
        assert account.reserved == 0
        return account.spent / 1e12


def test_every_row_is_labelled_at_half_the_price(tmp_path: Path, server: BatchServer) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy", "mixed")
        assert not label(folder).left
        assert [row["camvo_label"] for row in folder.rows()] == ["Glad", "Sad", "Glad"]
        assert spent(folder) == pytest.approx(6 * CALL / 2)
        assert not server.at_once
        assert sum(float(row["camvo_cost_usd"]) for row in folder.rows()) == pytest.approx(spent(folder))
        assert not server.files  # the provider keeps nothing


def test_tokens_that_the_provider_read_from_its_cache_are_counted_in_batches_too(
    tmp_path: Path, server: BatchServer
) -> None:
    def with_cached(content: bytes) -> bytes:
        return content.replace(b'"usage": {', b'"usage": {"prompt_tokens_details": {"cached_tokens": 4}, ')

    server.garbles = with_cached
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy", "mixed")
        assert not label(folder).left
        with folder.ledger.read() as connection:
            used = money.usage_by_model(connection, {"red": 100}, max_factor=50)
    assert used["red"].cached_tokens == 3 * 4


def test_each_file_of_results_is_downloaded_once(tmp_path: Path, server: BatchServer) -> None:
    downloaded: list[str] = []

    def note(method: str, path: str) -> int:
        if path.endswith("/content"):
            downloaded.append(path)
        return 0

    server.refused = note
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy", "mixed")
        label(folder)
    assert len(downloaded) == len(set(downloaded)) == len(server.batches)


def test_a_question_without_a_vote_leaves_the_other_its_label(tmp_path: Path, server: BatchServer) -> None:
    config = (
        '<View><Text name="t" value="$text"/><Choices name="mood" toName="t"><Choice value="Glad"/>'
        '<Choice value="Sad"/></Choices><Choices name="topic" toName="t"><Choice value="Home"/>'
        '<Choice value="Work"/></Choices></View>'
    )
    server.script = lambda body: Reply.says({"mood": "Glad", "topic": "Sport"})
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely")
        label(folder, label_config=config, labels=(), text_column=None)
        [row] = folder.rows()
        assert (row["camvo_label_mood"], row["camvo_label_topic"]) == ("Glad", "")
        assert row["camvo_error"] == "model_bad_answer"


def test_questions_under_a_condition_are_bought_in_a_second_batch_where_it_holds(
    tmp_path: Path, server: BatchServer
) -> None:
    def script(body: dict[str, Any]) -> Reply:
        prompt = prompt_of(body)
        answers = {"mood": "Sad" if "gloomy" in prompt else "Glad", "why": "Rain"}
        return Reply.says({name: said for name, said in answers.items() if f'Question "{name}"' in prompt})

    config = (
        '<View><Text name="t" value="$text"/><Choices name="mood" toName="t"><Choice value="Glad"/>'
        '<Choice value="Sad"/></Choices><View visibleWhen="choice-selected" whenTagName="mood"'
        ' whenChoiceValue="Sad"><Choices name="why" toName="t"><Choice value="Rain"/><Choice value="Cold"/>'
        "</Choices></View></View>"
    )
    server.script = script
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy", "gloomy again")
        options = {"label_config": config, "labels": (), "text_column": None}
        assert not label(folder, **options).left
        shown = [(row["camvo_label_mood"], row["camvo_label_why"]) for row in folder.rows()]
        assert shown == [("Glad", ""), ("Sad", "Rain"), ("Sad", "Rain")]
        assert [row["camvo_error"] for row in folder.rows()] == ["", "", ""]
        bought = server.bought.total()
        assert bought == 2 * 3 + 2 * 2  # two models: three texts, then the two gloomy ones
        assert spent(folder) == pytest.approx(bought * CALL / 2)
        assert not label(folder, **options).left
        assert server.bought.total() == bought


def test_the_progress_of_batches_promises_no_price_of_the_tasks_that_wait(
    tmp_path: Path, server: BatchServer
) -> None:
    with folder_of(tmp_path / "a", server) as folder, patch.object(output, "_EVERY", 0.0):
        folder.table("lovely", "gloomy", "mixed")
        label(folder)
        shown = folder.console.file.getvalue()  # type: ignore[attr-defined]
        assert "counting votes, planning batches: 3 of 3" in shown
        assert "$0.00 spent" in shown
        assert "to come\n" not in shown.partition("planning batches")[2]


def test_without_waiting_the_same_command_goes_on_when_it_is_run_again(
    tmp_path: Path, server: BatchServer
) -> None:
    server.ends = lambda batch: False
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy")
        assert label(folder, wait=False).left == 2
        assert "run the same command again" in folder.console.file.getvalue()  # type: ignore[attr-defined]
        assert label(folder, wait=False).left == 2
        assert len(server.batches) == 2  # one for each model, sent once
        server.ends = lambda batch: True
        assert not label(folder, wait=False).left
        assert set(server.bought.values()) == {1}


def test_while_no_batch_is_back_the_labels_of_earlier_runs_are_counted(
    tmp_path: Path, server: BatchServer
) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely")
        label(folder)
        server.ends = lambda batch: False
        folder.table("lovely", "gloomy")
        label(folder, wait=False)
        counts = label(folder, wait=False).counts
        assert (counts.labelled, counts.labelled_before, counts.waiting, counts.left) == (0, 1, 1, 1)


def test_after_an_interruption_it_says_what_is_out_and_the_same_command_goes_on(
    tmp_path: Path, server: BatchServer
) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy")

        def interrupted(batch: Any) -> bool:
            os.kill(os.getpid(), signal.SIGINT)
            server.ends = lambda batch: False
            return False

        server.ends = interrupted
        with pytest.raises(KeyboardInterrupt):
            label(folder)
        shown = folder.console.file.getvalue()  # type: ignore[attr-defined]
        assert "2 batches are out" in shown.splitlines()[-1]
        assert "run the same command again" in shown.splitlines()[-1]
        server.ends = lambda batch: True
        assert not label(folder).left
        assert set(server.bought.values()) == {1}


def test_plans_are_stored_before_anything_is_sent(tmp_path: Path, server: BatchServer) -> None:
    seen = []
    with folder_of(tmp_path / "a", server, policy={"name": "joint", "agreement": 0.99}) as folder:

        def look(method: str, path: str) -> int:
            if (method, path) == ("POST", "/v1/batches"):
                with folder.ledger.read() as connection:
                    numbers = [line.task for line in Lines(connection).wanted("in", "red", 10)] or [
                        line.task
                        for job in Jobs(connection).find()
                        for line in Lines(connection).out_with(job.id, 10)
                    ]
                    seen.extend(WaitingTasks(connection).find("in", number) for number in numbers)
            return 0

        server.refused = look
        folder.table("lovely", "gloomy")
        label(folder)
    assert seen
    assert all(
        task is not None and task.exploration == "everyone" and task.plan["label"]["stages"]["order"]
        for task in seen
    )


def test_expired_lines_alone_are_sent_again(tmp_path: Path, server: BatchServer) -> None:
    late = {"gloomy"}
    server.lapses = lambda body: any(word in prompt_of(body) for word in late)
    with folder_of(tmp_path / "a", server, retries=2) as folder:
        folder.table("lovely", "gloomy")
        server.ends = lambda batch: late.clear() or True if len(server.batches) > 2 else True
        assert not label(folder).left
        sent = [[prompt_of(body) for body in batch.lines.values()] for batch in server.batches.values()]
        assert sorted(map(len, sent)) == [1, 1, 2, 2]
        assert all("gloomy" in prompt for batch in sent if len(batch) == 1 for prompt in batch)
        assert spent(folder) == pytest.approx(4 * CALL / 2)


def test_a_line_that_fails_for_good_leaves_the_label_to_the_other_models(
    tmp_path: Path, server: BatchServer
) -> None:
    server.fails = lambda body: 400 if body["model"] == "red" else 0
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("gloomy")
        assert not label(folder).left
        assert folder.rows()[0]["camvo_label"] == "Sad"
        assert spent(folder) == pytest.approx(CALL / 2)


def test_a_line_that_may_succeed_is_tried_again_as_often_as_retries_says(
    tmp_path: Path, server: BatchServer
) -> None:
    server.fails = lambda body: 500 if body["model"] == "red" else 0
    with folder_of(tmp_path / "a", server, retries=1) as folder:
        folder.table("gloomy")
        assert not label(folder).left
        assert (
            sum(b["model"] == "red" for batch in server.batches.values() for b in batch.lines.values()) == 2
        )


@pytest.mark.parametrize(
    "bad",
    [
        lambda line: {**line, "response": {"status_code": 200, "body": None}},
        lambda line: {**line, "response": {"status_code": 200, "body": "words"}},
        lambda line: {**line, "response": None, "error": "internal"},
        lambda line: {**line, "response": "words"},
    ],
)
def test_a_bad_line_of_results_fails_alone(tmp_path: Path, server: BatchServer, bad: Any) -> None:
    garbled = []

    def garble(content: bytes) -> bytes:
        if garbled:
            return content
        garbled.append(content)
        first, *others = content.splitlines()
        return b"\n".join([json.dumps(bad(json.loads(first))).encode(), *others])

    server.garbles = garble
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy", "sunny")
        assert not label(folder).left
        assert [row["camvo_label"] for row in folder.rows()] == ["Glad", "Sad", "Glad"]
        assert spent(folder) == pytest.approx(5 * CALL / 2)


def test_a_limit_on_enqueued_tokens_splits_jobs(tmp_path: Path, server: BatchServer) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*(f"lovely {number}" for number in range(6)))
        server.enqueued = 3000
        tally = label(folder)
        assert not tally.left, folder.console.file.getvalue()  # type: ignore[attr-defined]
        assert set(server.bought.values()) == {1}
        assert len(server.bought) == 12
        statuses = {batch.status for batch in server.batches.values()}
        assert statuses == {"failed", "completed"}
        assert not server.files  # of the refused batches neither


def test_the_providers_limits_split_jobs(tmp_path: Path, server: BatchServer) -> None:
    with (
        folder_of(tmp_path / "a", server) as folder,
        patch("backend.models.batches.openai_batches.OpenAIBatches.limits", Limits(5, 10**6)),
    ):
        folder.table(*(f"lovely {number}" for number in range(12)))
        assert not label(folder).left
        assert sorted(len(batch.lines) for batch in server.batches.values()) == [2, 2, 5, 5, 5, 5]


def test_the_budget_holds_lines_back_until_others_are_settled(tmp_path: Path, server: BatchServer) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*(f"lovely {number}" for number in range(6)))
        label(folder, budget=0.0012)
        # Each line reserves what it may cost at most, so all of them together do not fit.
        assert len(server.batches) > 2
        assert set(server.bought.values()) == {1}
        assert len(server.bought) == 12


def test_nothing_is_bought_beyond_the_budget(tmp_path: Path, server: BatchServer) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*(f"lovely {number}" for number in range(6)))
        tally = label(folder, budget=0.0004)
        assert spent(folder) <= 0.0004
        assert tally.left
        assert "held back" in folder.console.file.getvalue()  # type: ignore[attr-defined]


def test_an_unknown_price_is_refused_before_anything_is_spent(tmp_path: Path, server: BatchServer) -> None:
    with LabelFolder(tmp_path, moods, server=server) as folder:
        folder.table("lovely")
        with pytest.raises(PriceMissingError):
            label(folder)
    assert not server.bought
    assert not server.batches


def test_a_provider_without_batches_is_refused_before_anything_is_spent(
    tmp_path: Path, server: BatchServer
) -> None:
    with LabelFolder(
        tmp_path,
        moods,
        server=server,
        of_models={"batch": True, "model": "groq/x", "api_key_env": "OPENAI_API_KEY"},
        models=("red",),
    ) as folder:
        folder.table("lovely")
        with pytest.raises(BatchesUnsupportedError):
            label(folder, batch=False)


def test_only_the_models_that_say_so_are_asked_in_batches(tmp_path: Path, server: BatchServer) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        config = folder.path / "camvo.yaml"
        read = yaml.safe_load(config.read_text())
        read["models"][0]["batch"] = True
        config.write_text(yaml.safe_dump(read))
        folder.table("lovely")
        label(folder, batch=False)
        assert set(server.at_once) == {"green"}
        assert {b["model"] for batch in server.batches.values() for b in batch.lines.values()} == {"red"}
        assert spent(folder) == pytest.approx(1.5 * CALL)


def test_while_a_batch_is_out_nobody_buys_the_same_answer(tmp_path: Path, server: BatchServer) -> None:
    server.ends = lambda batch: False
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely")
        label(folder, wait=False)
        assert label(folder, batch=False).counts.waiting == 1
        assert not server.bought


def test_while_a_task_waits_for_a_batch_no_other_model_is_asked_about_it_at_once(
    tmp_path: Path, server: BatchServer
) -> None:
    server.ends = lambda batch: False
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely")
        label(folder, wait=False)
        with folder.ledger.write() as connection:  # as if the plan were to ask red first
            lines, claims = tables.batch_lines, tables.claims
            green = select(lines.c.key).where(lines.c.model == "green")
            connection.execute(delete(claims).where(claims.c.key.in_(green)))
            connection.execute(delete(lines).where(lines.c.model == "green"))
        assert label(folder, batch=False).counts.waiting == 1
        assert not server.at_once


def test_an_answer_that_the_task_bought_at_once_belongs_to_the_cost_of_its_round(
    tmp_path: Path, server: BatchServer
) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely")
        with patch.object(annotator.Annotator, "_scores", side_effect=RuntimeError):
            label(folder, batch=False)  # pays the answers, and ends without a round
        label(folder)
        with folder.ledger.read() as connection:
            [cost] = connection.scalars(select(tables.rounds.c.cost_usd))
        assert cost == pytest.approx(2 * CALL) == pytest.approx(spent(folder))


def test_lines_of_batches_have_no_duration_in_reports(tmp_path: Path, server: BatchServer) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy")
        label(folder)
        with folder.ledger.read() as connection:
            assert ProjectSums(connection, "in").answer_seconds("red", 0.5) is None


def test_a_provider_that_refuses_each_batch_is_asked_less_and_less_often(
    tmp_path: Path, server: BatchServer
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 12:
            server.enqueued = None

    server.enqueued = 1  # others have filled the provider's queue
    with (
        folder_of(tmp_path / "a", server) as folder,
        patch.object(bulk_labelling, "BatchRun", partial(batch_run.BatchRun, pause=pause)),
    ):
        folder.table("lovely")
        assert not label(folder).left
        assert pauses[:12] == sorted(pauses[:12])
        assert pauses[11] > 10 * pauses[0]


def test_a_narrow_terminal_shows_ids_and_costs_of_jobs_in_full(tmp_path: Path, server: BatchServer) -> None:
    server.enqueued = 1
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely")
        label(folder, wait=False)
        label(folder, wait=False)  # learns that the first batches were refused
        console = Console(file=io.StringIO(), width=80)
        list_jobs(console, folder.environment, None)
        with folder.ledger.read() as connection:
            ids = [job.id[:8] for job in Jobs(connection).find()]
        shown = console.file.getvalue()  # type: ignore[attr-defined]
        assert all(f"{id_} " in shown for id_ in ids)
        assert all(word in shown for word in ("project", "refused", "failed", "$0.0000", "(UTC)"))
        assert "…" not in shown


def test_a_lost_answer_to_the_creation_of_a_batch_buys_nothing_twice(
    tmp_path: Path, server: BatchServer
) -> None:
    lost = []

    def cut(method: str, path: str) -> bool:
        lost.append((method, path))
        return lost.count(("POST", "/v1/batches")) == 1 and path == "/v1/batches" and method == "POST"

    server.cut = cut
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy")
        label(folder, wait=False)
        time.sleep(0.15)  # the lease of the lost job ends
        assert not label(folder).left
        assert set(server.bought.values()) == {1}
        assert len(server.batches) == 2


def test_a_deleted_tasks_line_is_discarded_on_return(tmp_path: Path, server: BatchServer) -> None:
    server.ends = lambda batch: False
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy")
        label(folder, wait=False)
        with folder.ledger.write() as connection:
            [job, _] = Jobs(connection).find()
            [line, _] = Lines(connection).out_with(job.id, 10)
            deletions.mark_deleted(connection, "in", [line.task], 1.0)
            deletions.forget_deleted(connection, "in", [line.task])
        server.ends = lambda batch: True
        label(folder, wait=False)
        with folder.ledger.read() as connection:
            stored = Lines(connection).find([line.key])[line.key]
            assert (stored.state, stored.body) == ("discarded", None)
            assert not answers.find_by_key(connection, [line.key])
        assert spent(folder) == pytest.approx(4 * CALL / 2)  # the provider wants its money all the same


def test_a_cancelled_job_gives_its_money_back(tmp_path: Path, server: BatchServer) -> None:
    server.ends = lambda batch: False
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely")
        label(folder, wait=False)
        list_jobs(folder.console, folder.environment, None, cancel="all")
        assert "cancelling" in folder.console.file.getvalue()  # type: ignore[attr-defined]
        litellm().in_memory_llm_clients_cache.flush_cache()  # its clients belong to the loop that is gone
        label(folder, batch=False)  # settles what is back, and asks at once
        assert spent(folder) == pytest.approx(2 * CALL)
        assert set(server.bought.values()) == {1}


def test_a_job_that_is_cancelled_while_it_is_sent_is_cancelled_at_its_provider(
    tmp_path: Path, server: BatchServer
) -> None:
    server.ends = lambda batch: False
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely")

        def cancel(method: str, path: str) -> int:
            if method == "POST" and path.endswith("/batches"):
                with folder.ledger.write() as connection:
                    for job in Jobs(connection).find(states=("sending",)):
                        Jobs(connection).change(job.id, cancelled=True)
            return 0

        server.refused = cancel
        label(folder, wait=False)
        assert {batch.status for batch in server.batches.values()} == {"cancelled"}


def test_a_desk_renews_no_lease_of_a_job_for_which_nothing_was_wanted(
    tmp_path: Path, server: BatchServer
) -> None:
    desks: list[Desk] = []
    begin = Desk.look

    async def look(desk: Desk, project: str | None = None) -> DeskReport:
        desks.append(desk)
        return await begin(desk, project)

    with folder_of(tmp_path / "a", server) as folder, patch.object(Desk, "look", look):
        folder.table("lovely", "gloomy")
        assert not label(folder).left
    assert [desk._sending for desk in desks] == [set()] * len(desks)
    assert desks


def test_the_lines_of_results_that_the_provider_has_no_more_are_sent_again(
    tmp_path: Path, server: BatchServer
) -> None:
    gone: set[str] = set()

    def refused(method: str, path: str) -> int:
        if path.endswith("/content") and len(gone) < 2:  # one file for each model
            gone.add(path)
        return 404 if path in gone and method == "GET" else 0

    server.refused = refused
    with folder_of(tmp_path / "a", server, retries=2) as folder:
        folder.table("lovely")
        assert not label(folder).left
        assert set(server.bought.values()) == {2}
        assert spent(folder) == pytest.approx(2 * CALL / 2 + reserved(folder, "lost"))


def reserved(folder: LabelFolder, state: str) -> float:
    """The most that the calls in a state can have cost, in $; there is one."""
    with folder.ledger.read() as connection:
        calls = connection.execute(select(tables.calls).where(tables.calls.c.state == state)).all()
    assert calls
    return money.from_picodollars(sum(call.reserved for call in calls))


def test_a_batch_that_the_provider_has_no_more_is_said_and_held(tmp_path: Path, server: BatchServer) -> None:
    with _lost_batches(tmp_path, server) as folder:
        assert label(folder, wait=False).left == 1
        assert "the provider has no such batch" in folder.console.file.getvalue()  # type: ignore[attr-defined]
        assert not server.batches  # nothing is sent twice: the key may be that of another account


def test_a_lost_batch_is_sent_again_once_it_was_cancelled(tmp_path: Path, server: BatchServer) -> None:
    with _lost_batches(tmp_path, server) as folder:
        list_jobs(folder.console, folder.environment, None, cancel="all")
        litellm().in_memory_llm_clients_cache.flush_cache()  # its clients belong to the loop that is gone
        assert not label(folder).left
        assert spent(folder) == pytest.approx(2 * CALL / 2)


def test_a_lost_batch_is_sent_again_once_its_time_is_over(tmp_path: Path, server: BatchServer) -> None:
    with _lost_batches(tmp_path, server) as folder:
        with folder.ledger.write() as connection:
            connection.execute(tables.batch_jobs.update().values(due_at=1.0))
        assert not label(folder).left
        # its results were kept for a while, so it was charged for
        assert spent(folder) == pytest.approx(server.bought.total() * CALL / 2 + reserved(folder, "lost"))


def test_a_run_that_waits_says_at_once_what_keeps_it_waiting(tmp_path: Path, server: BatchServer) -> None:
    with _lost_batches(tmp_path, server) as folder:

        def give_up(seconds: float) -> None:
            raise KeyboardInterrupt

        run = partial(batch_run.BatchRun, pause=give_up)
        with patch.object(bulk_labelling, "BatchRun", run), pytest.raises(KeyboardInterrupt):
            label(folder)
        assert "the provider has no such batch" in folder.console.file.getvalue()  # type: ignore[attr-defined]


@contextmanager
def _lost_batches(path: Path, server: BatchServer) -> Iterator[LabelFolder]:
    """A folder whose batches are out, and gone at the provider."""
    server.ends = lambda batch: False
    with folder_of(path / "a", server) as folder:
        folder.table("lovely")
        label(folder, wait=False)
        server.batches.clear()
        server.files.clear()
        server.ends = lambda batch: True
        yield folder


def test_the_rounds_of_batches_are_at_most_max_stages(tmp_path: Path, server: BatchServer) -> None:
    with folder_of(tmp_path / "a", server, policy={"name": "joint", "max_stages": 2}) as folder:
        folder.table(*(f"{word} {n}" for n in range(40) for word in ("lovely", "gloomy", "mixed")))
        assert not label(folder).left
        with folder.ledger.read() as connection:
            assert WaitingTasks(connection).count("in") == (0, 0)
            stages = {job.created_at for job in Jobs(connection).find()}
        assert len(stages) <= 4
        assert set(server.bought.values()) == {1}


@pytest.mark.parametrize(("at_once_from", "at_once"), [(100, 0), (20, 2)])
def test_a_first_window_is_labelled_before_the_others_are_sent(
    tmp_path: Path, server: BatchServer, at_once_from: int, at_once: int
) -> None:
    """The window of a large file is asked at once; that of a small one is a round of batches of its own."""
    with (
        folder_of(tmp_path / "a", server, policy={"name": "joint", "agreement": 0.99}) as folder,
        patch.object(batch_run, "_AT_ONCE_FROM", at_once_from),
        patch.object(batch_run, "_LEAST", 2),
    ):
        folder.table(*(f"lovely {number}" for number in range(40)))
        assert not label(folder).left
        sent = [
            len(b.lines) for b in server.batches.values() if next(iter(b.lines.values()))["model"] == "red"
        ]
        assert server.at_once["red"] == at_once
        assert sent == ([38] if at_once else [2, 38])
        assert set(server.bought.values()) == {1}


NAMED = (
    '<View><Text name="t" value="$text"/><Choices name="Thème (1)" toName="t"><Choice value="Home"/>'
    '<Choice value="Work"/></Choices><Choices name="Thème (2)" toName="t"><Choice value="Near"/>'
    '<Choice value="Far"/></Choices></View>'
)
"""Two names that no provider takes as a key of a schema."""


@pytest.mark.parametrize("by_key", [True, False])
def test_controls_whose_names_no_schema_takes_are_answered_under_keys_of_their_own(
    tmp_path: Path, server: BatchServer, *, by_key: bool
) -> None:
    keys: set[str] = set()

    def script(body: dict[str, Any]) -> Reply:
        asked = body["response_format"]["json_schema"]["schema"]["required"]
        keys.update(asked)
        names = asked if by_key else ("Thème (1)", "Thème (2)")
        return Reply.says(dict(zip(names, ("Work", "Far"), strict=True)))

    server.script = script
    of_models = {"batch_discount": 0.5, "structured_output": True}
    with LabelFolder(tmp_path, moods, server=server, of_models=of_models) as folder:
        folder.table("lovely", "gloomy")
        assert not label(folder, label_config=NAMED, labels=(), text_column=None).left
        shown = {(row["camvo_label_Thème (1)"], row["camvo_label_Thème (2)"]) for row in folder.rows()}
        assert shown == {("Work", "Far")}
        assert keys == {answer_key("Thème (1)"), answer_key("Thème (2)")}
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", key) for key in keys)


def test_a_line_without_a_body_fails_alone_and_its_job_is_settled(
    tmp_path: Path, server: BatchServer
) -> None:
    server.script = lambda body: Reply(200) if "text 3" in prompt_of(body) else moods(body)
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*(f"text {number}" for number in range(6)))
        for _ in range(2):
            label(folder)
            assert [row["camvo_label"] for row in folder.rows()] == ["Glad"] * 3 + [""] + ["Glad"] * 2
        assert folder.rows()[3]["camvo_error"]
        with folder.ledger.read() as connection:
            assert {job.state for job in Jobs(connection).find()} == {"closed"}


def test_pruning_leaves_what_tasks_that_wait_have_got_already(tmp_path: Path, server: BatchServer) -> None:
    """A task of several rounds of batches is older than its first answers; these were bought again."""
    server.ends = lambda batch: {body["model"] for body in batch.lines.values()} == {"red"}
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely")
        assert label(folder, wait=False).left == 1
        label(folder, wait=False)  # the answer of one of both models is there
        upkeep.prune(folder.ledger, "in", 0.0, lambda_l=1.0, advance=lambda _: None)
        server.ends = lambda batch: True
        assert not label(folder).left
        assert set(server.bought.values()) == {1}
