"""``camvo label`` while a model is down: it waits, or decides tasks without the model and completes them."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from labelling import LabelFolder

from backend.commands.instructions.asking import opened
from backend.commands.ledger import verify_ledger
from backend.commands.shared.options import LabelOptions
from backend.commands.teach import teach_file
from backend.ledger import Ledger, money, projects
from backend.ledger.missing_votes import MissingVotes
from backend.ledger.money import from_picodollars
from backend.models import failures
from backend.server.status.build import build_report
from backend.settings import settings
from backend.testing import Reply, packed_texts, task_text

MODELS = ("red", "green", "blue", "amber", "grey")
POLICIES: dict[str, dict[str, Any]] = {
    "joint": {"name": "joint"},
    "camvo": {"name": "camvo"},
    "ccamvo": {"name": "ccamvo"},
    "majority": {"name": "majority"},
    "baseline": {"name": "baseline"},
    "single": {"name": "single", "model": "red"},
}
TEXTS = [f"text {number}" for number in range(12)]
CALL = (10 * 1.0 + 2 * 2.0) / 1e6
"""$ of one answer."""

_NEVER = threading.Event()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(failures, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(failures, "LONGEST_PAID_PAUSE", 0.05)
    monkeypatch.setattr(random.SystemRandom, "uniform", lambda rng, low, high: 0.01)


class Provider:
    """Five models of one mind. Red gives ``failures`` failures after ``after`` calls."""

    def __init__(self, failure: Reply, *, after: int = 0, failures: int = 10**9) -> None:
        self.failure, self.after, self.left = failure, after, failures
        self.calls: Counter[str] = Counter()
        self.texts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def fails(self, body: dict[str, Any]) -> bool:
        """Whether red fails this time."""
        return self.calls["red"] > self.after and self.left > 0

    def __call__(self, body: dict[str, Any]) -> Reply:
        with self._lock:
            self.calls[body["model"]] += 1
            if body["model"] == "red":
                self.texts.update(packed_texts(body).values() or [task_text(body)])
                if self.fails(body):
                    self.left -= 1
                    return self.failure
        packed = bool(packed_texts(body))
        return Reply.answers(body, lambda text: "Glad" if packed else {"label": "Glad"})


class Poisoned(Provider):
    """Red fails on one text, always."""

    def fails(self, body: dict[str, Any]) -> bool:
        return task_text(body) == "text 3"


def folder_of(path: Path, provider: Provider, policy: str = "majority", **settings: Any) -> LabelFolder:
    settings = {"concurrency": 8, "policy": POLICIES[policy], "models": MODELS, **settings}
    folder = LabelFolder(path, provider, **settings)
    folder.table(*TEXTS)
    return folder


def lacking(folder: LabelFolder) -> list[dict[str, str]]:
    """What each row says about missing votes."""
    return [json.loads(row["camvo_incomplete"] or "{}") for row in folder.rows()]


def is_whole(folder: LabelFolder) -> bool:
    """Whether every model that was asked about a row has voted."""
    votes = [json.loads(row["camvo_votes"]) for row in folder.rows()]
    asked = all(votes) and all(vote is not None for row in votes for vote in row.values())
    return asked and not any(lacking(folder))


def spent(folder: LabelFolder) -> float:
    with folder.ledger.read() as connection:
        return from_picodollars(money.balance(connection, "in", money.TOTAL).spent)


def said(folder: LabelFolder) -> str:
    return str(folder.console.file.getvalue())  # type: ignore[attr-defined]


@pytest.mark.parametrize("policy", ["joint", "camvo", "majority", "single"])
def test_a_run_waits_for_a_model_that_is_down_and_loses_no_vote(tmp_path: Path, policy: str) -> None:
    provider = Provider(Reply.fails(503), after=3, failures=20)
    with folder_of(tmp_path, provider, policy) as folder:
        assert folder.label().counts.labelled == len(TEXTS)
        assert is_whole(folder)
        assert provider.left == 0


@pytest.mark.parametrize(
    ("failure", "pack"),
    [
        pytest.param(Reply.fails(500), None, id="500"),
        pytest.param(Reply.page(status=502), None, id="a proxy's page"),
        pytest.param(Reply.says("{}").held_until(_NEVER), None, id="hanging"),
        pytest.param(Reply.fails(503), 4, id="packed"),
    ],
)
def test_any_kind_of_outage_is_waited_for(tmp_path: Path, failure: Reply, pack: int | None) -> None:
    provider = Provider(failure, after=2, failures=9)
    models = {"timeout": 0.5} | ({} if pack is None else {"pack": pack})
    with folder_of(tmp_path, provider, of_models=models) as folder:
        folder.label()
        assert is_whole(folder)


def test_while_a_model_is_down_one_call_at_a_time_tries_it(tmp_path: Path) -> None:
    provider = Provider(Reply.fails(503), failures=30)
    with folder_of(tmp_path, provider) as folder:
        folder.label()
    first, probes = 8, 30 - failures.FAILURES
    assert provider.calls["red"] <= len(TEXTS) + first + probes


def test_the_progress_says_what_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class UntilSaid(Provider):
        def fails(self, body: dict[str, Any]) -> bool:
            return "waiting for red" not in said(folder)

    monkeypatch.setattr("backend.commands.shared.output._LOOK", 0.001)
    with folder_of(tmp_path, UntilSaid(Reply.fails(503))) as folder:
        folder.label()
        assert "waiting for red (HTTP 503) since " in said(folder)


def test_a_run_that_does_not_wait_says_of_no_model_that_it_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.commands.shared.output._LOOK", 0.001)
    with folder_of(tmp_path, Provider(Reply.fails(503))) as folder:
        folder.label(no_wait=True)
        assert "waiting for red" not in said(folder)


def test_an_interruption_ends_the_wait_and_the_same_command_continues(tmp_path: Path) -> None:
    class Stopped(Provider):
        def fails(self, body: dict[str, Any]) -> bool:
            if self.left and self.calls["red"] == 12:
                os.kill(os.getpid(), signal.SIGINT)
            return super().fails(body)

    provider = Stopped(Reply.fails(503))
    with folder_of(tmp_path, provider) as folder:
        with pytest.raises(KeyboardInterrupt):
            folder.label()
        assert "--no-wait" in said(folder)
        provider.left = 0
        folder.label()
        assert is_whole(folder)


# -- texts that always fail


@pytest.mark.parametrize("failure", [Reply.fails(500), Reply.says("{}").held_until(_NEVER)])
def test_a_text_that_always_fails_costs_one_vote_and_a_bounded_number_of_calls(
    tmp_path: Path, failure: Reply
) -> None:
    provider = Poisoned(failure)
    with folder_of(tmp_path, provider, of_models={"timeout": 0.5}) as folder:
        folder.label()
        assert [bool(row) for row in lacking(folder)] == [text == "text 3" for text in TEXTS]
        timed_out = failure.after is not None
        assert provider.texts["text 3"] <= (5 if timed_out else 30)


def test_a_text_that_always_fails_costs_the_others_of_its_prompt_no_vote(tmp_path: Path) -> None:
    class OfPacks(Provider):
        def fails(self, body: dict[str, Any]) -> bool:
            return "text 3" in (packed_texts(body).values() or [task_text(body)])

    with folder_of(tmp_path, OfPacks(Reply.fails(500)), of_models={"pack": 4}) as folder:
        folder.label()
        assert [bool(row) for row in lacking(folder)] == [text == "text 3" for text in TEXTS]


# -- without waiting


@pytest.mark.parametrize(
    ("policy", "how"),
    [
        *((name, "retry_failed") for name in POLICIES if name != "single"),
        *((name, "ask_more") for name in ("joint", "majority")),
    ],
)
def test_incomplete_tasks_are_completed_later_and_nothing_is_paid_twice(
    tmp_path: Path, policy: str, how: str
) -> None:
    provider = Provider(Reply.fails(503))
    with folder_of(tmp_path, provider, policy) as folder:
        folder.label(no_wait=True)
        missing = [row for row in lacking(folder) if row]
        assert missing
        assert all(row == {"red": "model_unavailable"} for row in missing)
        assert f"{len(missing)} tasks are incomplete" in folder.label(no_wait=True).summary()
        before, provider.left = provider.calls.copy(), 0
        options = {"retry_failed": True} if how == "retry_failed" else {"recount": True, "ask_more": 1.0}
        folder.label(**options)
        assert is_whole(folder)
        assert provider.calls["red"] - before["red"] >= len(missing)
        if how == "retry_failed":
            assert provider.calls - before == Counter(red=len(missing))
        asked = sum(len(json.loads(row["camvo_votes"])) for row in folder.rows())
        assert spent(folder) == pytest.approx(asked * CALL)
        assert sum(float(row["camvo_cost_usd"]) for row in folder.rows()) == pytest.approx(asked * CALL)


def test_votes_that_came_later_are_part_of_what_the_votes_cost(tmp_path: Path) -> None:
    provider = Provider(Reply.fails(503))
    with folder_of(tmp_path, provider) as folder:
        folder.label(no_wait=True)
        provider.left = 0
        folder.label(retry_failed=True)
        with folder.ledger.read() as connection:
            [project] = build_report(connection, settings.load(None), now=0.0).projects
        assert project.cost.rounds_usd == pytest.approx(spent(folder)) == len(TEXTS) * len(MODELS) * CALL


def test_a_packed_vote_that_is_missing_comes_from_a_prompt_of_its_own(tmp_path: Path) -> None:
    provider = Provider(Reply.fails(503))
    with folder_of(tmp_path, provider, of_models={"pack": 4}) as folder:
        folder.label(no_wait=True)
        assert any(lacking(folder))
        provider.left = 0
        folder.label(retry_failed=True)
        assert is_whole(folder)


def test_a_vote_that_comes_later_counts(tmp_path: Path) -> None:
    def divided(body: dict[str, Any]) -> Reply:
        if body["model"] == "red" and down.is_set():
            return Reply.fails(503)
        return Reply.says({"label": "Sad" if body["model"] in {"blue", "red"} else "Glad"})

    down = threading.Event()
    down.set()
    folder = LabelFolder(tmp_path, divided, policy={"name": "majority"}, models=("green", "blue", "red"))
    with folder:
        folder.table("one", "two")
        folder.label(no_wait=True)
        assert {row["camvo_label"] for row in folder.rows()} == {"Glad"}  # a tie, which the order decides
        down.clear()
        folder.label(retry_failed=True)
        assert {row["camvo_label"] for row in folder.rows()} == {"Sad"}


def test_a_model_that_still_fails_leaves_its_tasks_incomplete(tmp_path: Path) -> None:
    with folder_of(tmp_path, Provider(Reply.fails(503))) as folder:
        folder.label(no_wait=True)
        folder.label(retry_failed=True, no_wait=True)
        assert lacking(folder) == [{"red": "model_unavailable"}] * len(TEXTS)


def test_a_model_that_answers_without_a_vote_when_asked_again_still_counts_as_voteless(
    tmp_path: Path,
) -> None:
    provider = Provider(Reply.fails(503))
    with folder_of(tmp_path, provider) as folder:
        folder.label(no_wait=True)
        provider.failure = Reply.says("Ecstatic")
        folder.label(retry_failed=True)
        assert not any(lacking(folder))
        with folder.ledger.read() as connection:
            [project] = [stored.key for stored in projects.list_all(connection)]
            red = MissingVotes(connection, project, None).of_models()["red"]
        assert dict(red.failures) == {"model_bad_answer": len(TEXTS)}


def test_a_rejected_key_is_not_waited_for(tmp_path: Path) -> None:
    with folder_of(tmp_path, Provider(Reply.fails(401))) as folder:
        folder.label()
        assert lacking(folder) == [{"red": "model_key_rejected"}] * len(TEXTS)


def test_an_answer_without_a_vote_is_not_missing(tmp_path: Path) -> None:
    with folder_of(tmp_path, Provider(Reply.says("Ecstatic"))) as folder:
        folder.label()
        assert not any(lacking(folder))


def test_an_outage_that_outlasts_the_patience_is_given_up(tmp_path: Path) -> None:
    with folder_of(tmp_path, Provider(Reply.fails(503)), patience_hours=0.5 / 3600) as folder:
        assert folder.label().counts.labelled == len(TEXTS)
        assert lacking(folder) == [{"red": "model_unavailable"}] * len(TEXTS)


@pytest.mark.parametrize("policy", ["joint", "camvo"])
def test_missing_votes_on_blind_tasks_that_people_have_labelled_leave_the_ledger_sound(
    tmp_path: Path, policy: str
) -> None:
    provider = Provider(Reply.fails(503))
    with folder_of(tmp_path, provider, policy) as folder:
        folder.label(no_wait=True, blind=6)
        folder.change("blind.csv", **dict.fromkeys(TEXTS, "Sad"))
        teach_file(folder.path / "blind.csv", folder.environment.config)
        provider.left = 0
        folder.label(retry_failed=True)
        assert not any(lacking(folder))
        assert verify_ledger(folder.console, folder.environment, None), said(folder)


def test_a_run_says_that_it_waits_for_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LabelFolder(tmp_path, lambda body: Reply.says({"label": "Glad"})) as folder:
        folder.table("lovely")
        options = LabelOptions(labels=("Glad", "Sad"), text_column="text")
        with opened(folder.path / "in.csv", options, folder.environment) as (jobs, _):
            assert jobs.awaited() == ""
            monkeypatch.setattr(Ledger, "is_down", True)
            assert "waiting for the ledger" in jobs.awaited()
