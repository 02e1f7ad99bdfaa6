"""Whole servers, killed with SIGKILL at random moments of a batch with webhooks under way."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from ledger_audit import audited
from provider import Provider
from server_process import MODELS, ServerProcess, config_for, open_calls, wait_until

KILLS = 5
"""For each kind of database, so that a run has 10."""

SOAK = 50
"""The same in a soak, which has 100."""

BATCH = 24
_STEP = 12
"""By how many tasks a batch is ahead of the previous one's, whose other tasks it repeats."""

_LONGEST = 1.0
"""Seconds from the first call of a batch to the kill, at most."""

_MOODS = ("Glad", "Sad", "Calm")


@pytest.mark.e2e
@pytest.mark.timeout(900)
def test_nothing_is_lost_or_bought_twice_when_servers_are_killed(
    ledger_url: str, tmp_path: Path, seed: int
) -> None:
    _kill_servers(ledger_url, tmp_path, seed, KILLS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_nothing_is_lost_or_bought_twice_in_a_hundred_kills(
    ledger_url: str, tmp_path: Path, seed: int
) -> None:
    _kill_servers(ledger_url, tmp_path, seed, SOAK)


def _kill_servers(url: str, folder: Path, seed: int, kills: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a repeatable run
    with (
        Provider(seed) as provider,
        ServerProcess(folder, _config(provider, folder), database_url=url) as server,
        ThreadPoolExecutor(2) as people,
    ):
        for kill in range(kills):
            provider.buyer = kill
            server.start()
            before = provider.books.number_of_purchases()
            tasks = _batch(kill)
            requests = [
                people.submit(_predict, server, provider, tasks),
                people.submit(_annotate, server, provider, tasks, 1000 * (kill + 1), rng.choice(_MOODS)),
            ]
            wait_until(lambda: provider.books.number_of_purchases() > before, "first call")  # noqa: B023
            time.sleep(rng.uniform(0.0, _LONGEST))
            server.kill()
            provider.books.killed.add(kill)
            for request in requests:
                request.result()
        provider.buyer = kills
        server.start()
        everything = range(1, _batch(kills - 1).stop)
        _predict(server, provider, everything)
        wait_until(lambda: not open_calls(server.ledger), "booking of the lost calls")
        audit = audited(server.ledger, provider.books)
    assert not audit.problems
    assert set(provider.books.predicted) == set(everything)
    assert provider.books.annotated
    assert audit.bought_again <= kills * BATCH * len(MODELS)


def _config(provider: Provider, folder: Path) -> Path:
    return config_for(provider, folder, policy={"name": "joint"})


def _batch(kill: int) -> range:
    return range(1 + _STEP * kill, 1 + _STEP * kill + BATCH)


def _predict(server: ServerProcess, provider: Provider, tasks: Iterable[int]) -> None:
    """Request predictions; those that arrive are acknowledged."""
    with suppress(httpx.HTTPError):
        for number, result in zip(tasks, server.predict(tasks), strict=True):
            if result:
                provider.books.predicted[number] = result["result"][0]["value"]["choices"][0]


def _annotate(server: ServerProcess, provider: Provider, tasks: range, first: int, mood: str) -> None:
    """Post annotations until the server is killed; those answered with 200 are acknowledged.

    The annotator annotates each task twice.
    """
    with suppress(httpx.HTTPError):
        for annotation, number in enumerate(sorted([*tasks, *tasks]), first):
            assert server.annotate(number, mood, annotation).status_code == httpx.codes.OK
            provider.books.annotated[annotation] = (number, mood)
