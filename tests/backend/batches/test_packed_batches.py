"""Packed prompts as lines of providers' batches: several tasks, each with its own answer and price."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from batch_provider import BatchServer
from labelling import LabelFolder
from sqlalchemy import select

from backend.annotation import batch_desk
from backend.commands.bulk import batch_run
from backend.ledger import answers, deletions, money
from backend.ledger.answers import PackChecks
from backend.ledger.batches import Jobs, Lines
from backend.ledger.claims import batch_owner
from backend.ledger.database import tables
from backend.models.batches.provider import Limits
from backend.questions.naming import answer_key
from backend.testing import Reply, packed_texts

LINE = (10 * 1.0 + 2 * 2.0) / 2e6
"""Cost in $ of one line of the scripted models."""

TEXTS = [f"{word} {number}" for number in range(5) for word in ("lovely", "gloomy")]


def mood(text: str) -> dict[str, str]:
    return {"label": "Sad" if "gloomy" in text else "Glad"}


def moods(body: dict[str, Any], **options: Any) -> Reply:
    return Reply.answers(body, mood, **options)


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with patch.object(batch_desk, "_LEASE", 0.1), patch.object(batch_run, "_FIRST_PAUSE", 0.02):
        yield BatchServer(moods)


def folder_of(path: Path, server: BatchServer, pack: int = 5, **settings: Any) -> LabelFolder:
    path.mkdir(exist_ok=True)
    of_models = {"batch_discount": 0.5, "pack": pack, **settings.pop("of_models", {})}
    return LabelFolder(path, moods, server=server, of_models=of_models, **settings)


def anthropic(server: BatchServer) -> dict[str, object]:
    return {
        "model": "anthropic/claude-haiku-4-5",
        "api_key_env": "OPENAI_API_KEY",
        "api_base": server.anthropic_url,
        "input_price": 1.0,
        "output_price": 2.0,
    }


def label(folder: LabelFolder, **options: Any) -> Any:
    return folder.label(**{"batch": True, "wait": True, **options})


def labels(folder: LabelFolder) -> dict[str, str]:
    return {row["text"]: row["camvo_label"] for row in folder.rows()}


def spent(folder: LabelFolder) -> float:
    with folder.ledger.read() as connection:
        account = money.balance(connection, "in", money.TOTAL)
        assert account.reserved == 0
        return account.spent / 1e12


def sent(server: BatchServer, model: str = "red") -> list[int]:
    """How many tasks each line to a model held, in the order of the batches; 0 for a prompt about one."""
    bodies = (body for batch in server.batches.values() for body in batch.lines.values())
    return [len(packed_texts(body)) for body in bodies if body["model"] == model]


def votes(folder: LabelFolder) -> Counter[tuple[str, str]]:
    with folder.ledger.read() as connection:
        rows = connection.execute(select(tables.rounds.c.votes)).scalars().all()
    return Counter((arm, vote) for row in rows for arm, vote in row.items())


def test_the_tasks_of_a_line_are_labelled_for_the_price_of_one_line(
    tmp_path: Path, server: BatchServer
) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS)
        assert not label(folder).left
        assert labels(folder) == {text: mood(text)["label"] for text in TEXTS}
        assert sent(server) == sent(server, "green") == [5, 5]
        assert not server.at_once
        assert spent(folder) == pytest.approx(4 * LINE)
        assert sum(float(row["camvo_cost_usd"]) for row in folder.rows()) == pytest.approx(spent(folder))
        assert not server.files
        assert {arm for arm, _ in votes(folder)} == {"red:5", "green:5"}


def test_anthropics_lines_hold_several_tasks_too(tmp_path: Path, server: BatchServer) -> None:
    with folder_of(tmp_path / "a", server, of_models=anthropic(server), models=("red",)) as folder:
        folder.table(*TEXTS)
        assert not label(folder).left
        assert labels(folder) == {text: mood(text)["label"] for text in TEXTS}
        assert set(server.bought.values()) == {1}
        assert len(server.bought) == 10
        assert spent(folder) <= 3 * LINE


def test_a_line_is_one_call_whose_tasks_share_the_cost(tmp_path: Path, server: BatchServer) -> None:
    long = "lovely" + " indeed" * 90
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS[:4], long)
        label(folder)
        with folder.ledger.read() as connection:
            calls = connection.execute(select(tables.calls.c.model, tables.calls.c.tasks)).all()
            shares = connection.execute(select(tables.call_shares.c.share)).scalars().all()
        assert sorted(map(tuple, calls)) == [("green:5", 5), ("red:5", 5)]
        assert sum(shares) == pytest.approx(2)
        costs = {row["text"]: float(row["camvo_cost_usd"]) for row in folder.rows()}
        assert costs[long] > 2 * costs[TEXTS[0]]
        assert sum(costs.values()) == pytest.approx(2 * LINE)


def test_claims_and_money_of_a_line_belong_to_the_job(tmp_path: Path, server: BatchServer) -> None:
    server.ends = lambda batch: False
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS)
        label(folder, wait=False)
        with folder.ledger.read() as connection:
            owners = Counter(connection.execute(select(tables.claims.c.owner)).scalars())
            out = [job.id for job in Jobs(connection).find()]
            held = connection.execute(select(tables.calls.c.expires_at)).scalars().all()
        assert owners == {batch_owner(job): 10 for job in out}
        assert len(held) == 4
        assert min(held) > time.time() + 29 * 24 * 3600


def test_a_task_missing_in_the_answer_is_asked_about_singly_in_a_batch(
    tmp_path: Path, server: BatchServer
) -> None:
    missing = TEXTS[3]
    server.script = lambda body: moods(body, leave_out=[missing] if body["model"] == "red" else ())
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS)
        assert not label(folder).left
        assert sent(server) == [5, 5, 0]
        assert sent(server, "green") == [5, 5]
        assert {arm for arm, _ in votes(folder)} == {"red:5", "green:5"}
        assert sum(votes(folder).values()) == 20
        assert not server.at_once
        assert spent(folder) == pytest.approx(5 * LINE)
        assert sum(float(row["camvo_cost_usd"]) for row in folder.rows()) == pytest.approx(spent(folder))


def test_after_an_answer_that_cannot_be_read_each_task_is_asked_about_singly(
    tmp_path: Path, server: BatchServer
) -> None:
    server.script = lambda body: (
        Reply.says("I would rather not.") if body["model"] == "red" and packed_texts(body) else moods(body)
    )
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS[:5])
        assert not label(folder).left
        assert sent(server) == [5, 0, 0, 0, 0, 0]
        assert labels(folder) == {text: mood(text)["label"] for text in TEXTS[:5]}


def test_the_tasks_of_an_expired_line_are_sent_again_and_no_others(
    tmp_path: Path, server: BatchServer
) -> None:
    late = {"red"}
    server.lapses = lambda body: TEXTS[0] in str(body["messages"]) and bool({body["model"]} & late)
    with folder_of(tmp_path / "a", server, retries=2) as folder:
        server.ends = lambda batch: late.clear() or True if len(server.batches) > 2 else True
        folder.table(*TEXTS)
        assert not label(folder).left
        assert sent(server) == [5, 5, 5]
        assert set(server.bought.values()) == {1}
        assert spent(folder) == pytest.approx(4 * LINE)


def test_the_tasks_of_a_line_that_fails_for_good_are_asked_about_singly(
    tmp_path: Path, server: BatchServer
) -> None:
    server.fails = lambda body: 400 if body["model"] == "red" and packed_texts(body) else 0
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS[:5])
        assert not label(folder).left
        assert sent(server) == [5, 0, 0, 0, 0, 0]
        assert {arm for arm, _ in votes(folder)} == {"red:5", "green:5"}


def test_a_lost_answer_to_the_creation_of_a_batch_buys_nothing_twice(
    tmp_path: Path, server: BatchServer
) -> None:
    lost: list[str] = []

    def cut(method: str, path: str) -> bool:
        lost.append(f"{method} {path}")
        return lost.count("POST /v1/batches") == 1 and lost[-1] == "POST /v1/batches"

    server.cut = cut
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS)
        label(folder, wait=False)
        time.sleep(0.15)  # the lease of the lost job ends
        assert not label(folder).left
        assert set(server.bought.values()) == {1}
        assert labels(folder) == {text: mood(text)["label"] for text in TEXTS}


def test_while_a_line_is_out_nobody_buys_the_same_answers(tmp_path: Path, server: BatchServer) -> None:
    server.ends = lambda batch: False
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS)
        label(folder, wait=False)
        assert label(folder, batch=False).counts.waiting == 10
        assert not server.bought


def test_answers_of_packs_asked_at_once_are_not_bought_in_batches(
    tmp_path: Path, server: BatchServer
) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS[:5])
        label(folder, batch=False)
        folder.table(*TEXTS)
        label(folder)
        assert set(server.bought.values()) == {1}
        assert sent(server) == [5]


def test_a_deleted_tasks_part_is_discarded_on_return_and_its_neighbours_keep_theirs(
    tmp_path: Path, server: BatchServer
) -> None:
    server.ends = lambda batch: False
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS[:5])
        label(folder, wait=False)
        with folder.ledger.write() as connection:
            out = [line for job in Jobs(connection).find() for line in Lines(connection).out_with(job.id, 10)]
            gone = out[0].task
            deletions.mark_deleted(connection, "in", [gone], 1.0)
            deletions.forget_deleted(connection, "in", [gone])
        server.ends = lambda batch: True
        label(folder, wait=False)
        with folder.ledger.read() as connection:
            stored = Lines(connection).find([line.key for line in out])
            kept = answers.find_by_key(connection, list(stored))
        assert {line.task for line in stored.values() if line.state == "discarded"} == {gone}
        assert {stored[key].task for key in kept} == {line.task for line in out} - {gone}
        assert spent(folder) == pytest.approx(2 * LINE)  # the provider wants its money all the same


def test_a_budget_that_covers_no_whole_line_buys_smaller_ones(tmp_path: Path, server: BatchServer) -> None:
    with folder_of(tmp_path / "a", server, of_models={"max_tokens": 500}) as folder:
        folder.table(*TEXTS[:5])
        label(folder, budget=0.003)
        assert server.bought
        assert all(size < 5 for size in sent(server))
        assert spent(folder) <= 0.003


def test_the_providers_limits_count_lines_and_not_tasks(tmp_path: Path, server: BatchServer) -> None:
    with (
        folder_of(tmp_path / "a", server, pack=2) as folder,
        patch("backend.models.batches.openai_batches.OpenAIBatches.limits", Limits(3, 10**6)),
    ):
        folder.table(*TEXTS)
        assert not label(folder).left
        assert sorted(len(batch.lines) for batch in server.batches.values()) == [2, 2, 3, 3]


def test_the_coin_asks_about_packed_tasks_singly_in_the_same_batch_round(
    tmp_path: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.annotation.asking.COIN", 1.0)
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS[:5])
        assert not label(folder).left
        assert sorted(sent(server)) == [0, 0, 0, 0, 0, 5]
        with folder.ledger.read() as connection:
            checks = PackChecks(connection, "in").by_question()
        assert {arm: agreed for (arm, _, _), agreed in checks.items()} == {
            "red:5": [True] * 5,
            "green:5": [True] * 5,
        }
        assert {arm for arm, _ in votes(folder)} == {"red:5", "green:5"}
        assert spent(folder) == pytest.approx(12 * LINE)
        assert sum(float(row["camvo_cost_usd"]) for row in folder.rows()) == pytest.approx(spent(folder))


def test_a_task_goes_on_with_the_packed_arm_that_it_asked_if_that_is_unpacked_meanwhile(
    tmp_path: Path, server: BatchServer
) -> None:
    server.ends = lambda batch: False
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS[:5])
        label(folder, wait=False)
        server.ends = lambda batch: True
        with patch("backend.annotation.asking.PackGuard._read", lambda *_: frozenset({"red:5"})):
            assert not label(folder).left
        assert sent(server) == [5]
        assert {arm for arm, _ in votes(folder)} == {"red:5", "green:5"}


def test_a_packed_control_whose_name_no_schema_takes_is_answered(tmp_path: Path, server: BatchServer) -> None:
    config = (
        '<View><Text name="t" value="$text"/><Choices name="Thème (1)" toName="t"><Choice value="Glad"/>'
        '<Choice value="Sad"/></Choices><Choices name="plain" toName="t"><Choice value="Near"/>'
        '<Choice value="Far"/></Choices></View>'
    )
    server.script = lambda body: Reply.answers(
        body, lambda text: {answer_key("Thème (1)"): mood(text)["label"], "plain": "Far"}
    )
    with folder_of(tmp_path / "a", server) as folder:
        folder.table(*TEXTS)
        assert not label(folder, label_config=config, labels=(), text_column=None).left
        shown = {row["text"]: row["camvo_label_Thème (1)"] for row in folder.rows()}
        assert shown == {text: mood(text)["label"] for text in TEXTS}
        assert {row["camvo_label_plain"] for row in folder.rows()} == {"Far"}
        assert sent(server) == [5, 5]
