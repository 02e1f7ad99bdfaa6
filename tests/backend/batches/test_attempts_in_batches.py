"""Answers without a vote in batches: when they are bought again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from batch_provider import BatchServer
from labelling import LabelFolder

from backend.annotation import batch_desk
from backend.commands.bulk import batch_run
from backend.testing import Reply

GLAD = Reply.says({"label": "Glad"})
CUT_OFF = Reply.says("<think>The day was long, so", finish_reason="length")
WRONG = Reply.says({"label": "Ecstatic"})


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with patch.object(batch_desk, "_LEASE", 0.1), patch.object(batch_run, "_FIRST_PAUSE", 0.02):
        yield BatchServer(lambda body: GLAD)


class Run:
    """Runs of ``camvo label --batch --wait`` over one task, and how many answers were bought."""

    def __init__(self, path: Path, server: BatchServer) -> None:
        self.server = server
        self.folder = LabelFolder(path, server.script, server=server, of_models={"batch_discount": 0.5})

    def __call__(self, reply: Reply, **options: Any) -> tuple[str, int]:
        before = sum(self.server.bought.values())
        self.server.script = lambda body: reply
        self.folder.label(batch=True, wait=True, **options)
        [row] = self.folder.rows()
        return row["camvo_label"] or row["camvo_error"], sum(self.server.bought.values()) - before


@pytest.fixture
def run(tmp_path: Path, server: BatchServer) -> Iterator[Run]:
    run = Run(tmp_path, server)
    with run.folder as folder:
        folder.table("lovely")
        yield run


def test_each_run_makes_one_attempt_until_there_were_three(run: Run) -> None:
    outcomes = [run(WRONG) for _ in range(4)]
    assert outcomes == [*[("model_bad_answer", 2)] * 3, ("no_usable_answer", 0)]


def test_the_next_run_may_bring_a_label(run: Run) -> None:
    assert [run(WRONG), run(GLAD)] == [("model_bad_answer", 2), ("Glad", 2)]


def test_retry_failed_makes_one_more_attempt_after_the_last_one(run: Run) -> None:
    for _ in range(3):
        run(WRONG)
    assert run(WRONG, retry_failed=True) == ("model_bad_answer", 2)
    assert run(GLAD, retry_failed=True) == ("Glad", 2)


def test_an_answer_that_was_cut_off_is_bought_again_by_retry_failed_alone(run: Run) -> None:
    assert run(CUT_OFF) == ("model_cut_off", 2)
    assert run(GLAD) == ("model_cut_off", 0)
    assert run(GLAD, retry_failed=True) == ("Glad", 2)


def test_retry_failed_asks_about_no_new_row_in_the_rounds_that_follow(run: Run) -> None:
    run(WRONG)
    run.folder.table("lovely", "new")
    before = sum(run.server.bought.values())
    run.server.script = lambda body: GLAD
    run.folder.label(batch=True, wait=True, retry_failed=True)
    assert [row["camvo_label"] for row in run.folder.rows()] == ["Glad", ""]
    assert sum(run.server.bought.values()) - before == 2
