"""A database that fails under a batch: the disk is full, or PostgreSQL was killed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from ledger_audit import Audit, audited
from postgres import Postgres
from provider import Provider
from server_process import MODELS, ServerProcess, config_for, open_calls, wait_until
from small_disk import small_disk

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

DEADLINE = 80.0
"""Seconds that the batch may take, the fault included."""

CALM, BATCH = range(1, 9), range(20, 120)
ANNOTATION = 5

AT_ONCE = 10
"""Calls to each model at the same time."""


@dataclass
class Outage:
    """What a database that failed and came back left behind.

    Attributes:
        ready: the status of GET /ready before, during and after.
        webhook: the status of a webhook during the outage.
        unsold: the batch's calls that had not begun when the server noticed the fault.
        bought_meanwhile: the calls that began after that, when the answers to those under way arrived.
        results: the predictions of the request during which the database failed.
        repeated: those of the same request, repeated.
        bought: the number of purchases before the repetition, and after it.
        audit: of the ledger at the end.
        log: the server's.
    """

    ready: list[int] = field(default_factory=list)
    webhook: int = 0
    unsold: int = -1
    bought_meanwhile: int = -1
    results: list[Any] = field(default_factory=list)
    repeated: list[Any] = field(default_factory=list)
    bought: list[int] = field(default_factory=list)
    audit: Audit = field(default_factory=Audit)
    log: str = ""


@pytest.fixture(scope="module", params=["full disk", "killed PostgreSQL"])
def outage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> Iterator[Outage]:
    folder = tmp_path_factory.mktemp("outage")
    if request.param == "full disk":
        with small_disk(folder / "disk") as disk:
            url = f"sqlite:///{disk.folder / 'ledger.sqlite'}"
            yield _outage(url, folder, seed, disk.fill, disk.empty)
    else:
        with Postgres(tmp_path_factory.mktemp("mortal")) as postgres:
            yield _outage(
                postgres.new_ledger_url(),
                folder,
                seed,
                lambda _: postgres.kill(),
                lambda _: postgres.start_again(),
            )


Change = Callable[[ServerProcess], None]


def _outage(url: str, folder: Path, seed: int, fail: Change, mend: Change) -> Outage:
    outage, at_once = Outage(), AT_ONCE * len(MODELS)
    with (
        Provider(seed) as provider,
        ServerProcess(folder, _config(provider, folder), database_url=url) as server,
        ThreadPoolExecutor(1) as person,
    ):
        books = provider.books
        server.start()
        assert all(server.predict(CALM))
        calm = books.number_of_purchases()
        outage.ready.append(_ready(server))
        batch = person.submit(server.predict, BATCH)
        wait_until(lambda: books.number_of_purchases() > calm + len(BATCH), "batch under way")
        provider.hold()
        # All calls that have begun then wait at the provider: none is still on its way there.
        wait_until(lambda: provider.held == at_once, "calls under way")
        fail(server)
        wait_until(lambda: _ready(server) != httpx.codes.OK, "notice of the fault")
        outage.ready.append(_ready(server))
        outage.webhook = server.annotate(CALM[0], "Sad", ANNOTATION).status_code
        begun = books.number_of_purchases()
        outage.unsold = calm + len(BATCH) * len(MODELS) - begun
        provider.release()
        wait_until(lambda: _unsettled(server) >= at_once, "answers in memory")
        time.sleep(0.5)
        outage.bought_meanwhile = books.number_of_purchases() - begun
        mend(server)
        wait_until(lambda: _ready(server) == httpx.codes.OK, "recovery")
        outage.ready.append(_ready(server))
        outage.results = batch.result()
        outage.bought.append(books.number_of_purchases() - calm)
        outage.repeated = server.predict(BATCH)
        outage.bought.append(books.number_of_purchases() - calm)
        for number, result in zip(BATCH, outage.repeated, strict=True):
            if result:
                books.predicted[number] = result["result"][0]["value"]["choices"][0]
        if outage.webhook == httpx.codes.OK:
            books.annotated[ANNOTATION] = (CALM[0], "Sad")
        with suppress(AssertionError):  # the audit names the calls that stay open
            wait_until(lambda: not open_calls(server.ledger), "settling of all calls", patience=10.0)
        outage.audit = audited(server.ledger, books)
        outage.log = server.log
    return outage


def _config(provider: Provider, folder: Path) -> Path:
    return config_for(provider, folder, max_concurrency=AT_ONCE, deadline=DEADLINE)


def _unsettled(server: ServerProcess) -> float:
    """How many paid answers wait in the server's memory."""
    found = re.search(r"^camvo_unsettled_answers(?:{.*})? (\S+)$", server.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _ready(server: ServerProcess) -> int:
    return server.get("/ready").status_code


def test_every_answer_is_kept_and_none_is_bought_again(outage: Outage) -> None:
    assert not outage.audit.problems
    assert outage.audit.bought_again == 0


def test_every_task_is_predicted_by_the_request_during_which_the_database_failed(outage: Outage) -> None:
    assert [number for number, result in zip(BATCH, outage.results, strict=True) if not result] == []


def test_a_repeat_brings_the_same_predictions_without_a_call(outage: Outage) -> None:
    assert outage.repeated == outage.results
    assert outage.bought == [len(BATCH) * len(MODELS)] * 2


def test_no_call_begins_while_answers_cannot_be_stored(outage: Outage) -> None:
    assert outage.unsold > 0
    assert outage.bought_meanwhile == 0


def test_the_server_says_that_it_is_not_ready_meanwhile(outage: Outage) -> None:
    assert outage.ready == [200, 503, 200]


def test_a_webhook_that_cannot_be_stored_is_not_acknowledged(outage: Outage) -> None:
    assert outage.webhook == httpx.codes.SERVICE_UNAVAILABLE


def test_the_log_has_no_traceback_and_no_text_of_a_task(outage: Outage) -> None:
    assert "Traceback" not in outage.log
    assert "of the diary" not in outage.log
