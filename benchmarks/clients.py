"""Many clients at once: how long /health and webhooks take meanwhile, and how many predictions stay blank.

    OMP_NUM_THREADS=1 python benchmarks/clients.py [--clients 256] [--latency 0.3] [--seconds 20] [--models 3]

Starts the backend of benchmarks/predict.py. Each client (all are in one process of their own) asks for the
prediction of one new task after another, and repeats a request that is refused as busy after the time that
the answer names. This process requests /health every 20 ms and posts an annotation every 100 ms, each time
on a new connection, as Label Studio does, and gives up after a second.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiohttp
from predict import annotation, backend, batch

PATIENCE = 1.0
"""Seconds after which Label Studio gives up /health and webhooks."""


async def ask_as_clients(url: str, clients: int, seconds: float) -> None:
    """Ask for predictions; print what came of them as JSON."""
    outcomes: Counter[str] = Counter()
    times: list[float] = []
    until = time.perf_counter() + seconds

    async def client(session: aiohttp.ClientSession, number: int) -> None:
        count = 0
        while time.perf_counter() < until:
            count += 1
            body = batch(1 + number * 1000 + count, 1)
            started = time.perf_counter()
            while True:
                async with session.post(f"{url}/predict", json=body) as response:
                    answer = await response.json()
                    if response.status != 503:
                        break
                    outcomes["busy"] += 1
                    await asyncio.sleep(float(response.headers["Retry-After"]))
            predicted = response.ok and answer["results"][0]
            outcomes["refused" if not response.ok else "answered" if predicted else "blank"] += 1
            times.append(time.perf_counter() - started)

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(120)) as session:
        await asyncio.gather(*(client(session, number) for number in range(clients)))
    print(json.dumps({"outcomes": outcomes, "times": times}))


@contextmanager
def meanwhile(
    url: str, pause: float, path: str, body: Callable[[int], object] | None
) -> Iterator[list[float]]:
    """Repeat a request on new connections until the block ends; yield the times in ms, ∞ if given up."""
    times: list[float] = []
    over = threading.Event()

    def repeat() -> None:
        number = 0
        while not over.wait(pause):
            number += 1
            content = None if body is None else json.dumps(body(number))
            started = time.perf_counter()
            connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)
            try:
                connection.request("GET" if content is None else "POST", path, content)
                assert connection.getresponse().read()
                times.append((time.perf_counter() - started) * 1e3)
            except OSError:
                times.append(float("inf"))
            finally:
                connection.close()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield times
    finally:
        over.set()
        thread.join()


def summary(times: list[float]) -> str:
    done = sorted(times)
    median, tail = done[len(done) // 2], done[len(done) * 99 // 100]
    given_up = sum(moment == float("inf") for moment in times)
    return (
        f"median {median:6.1f} ms, 99th percentile {tail:6.1f} ms, longest {done[-1]:6.1f} ms"
        f" ({len(times)} requests, {given_up} given up)"
    )


def measure(options: argparse.Namespace) -> None:
    with backend(options.models, options.latency) as (client, worker):
        url = str(client.base_url).rstrip("/")
        client.post("/predict", json=batch(0, 4)).raise_for_status()
        asking = [sys.executable, __file__, "--clients", str(options.clients), "--ask", url]
        with (
            meanwhile(url, 0.02, "/health", None) as health,
            meanwhile(url, 0.1, "/webhook", lambda k: annotation(10**9 + k)) as webhook,
        ):
            used = worker.cpu_times().user
            asked = subprocess.run(
                [*asking, "--seconds", str(options.seconds)], stdout=subprocess.PIPE, check=True
            )
            used = worker.cpu_times().user - used
    result = json.loads(asked.stdout)
    outcomes, times = Counter(result["outcomes"]), result["times"]
    print(f"{options.clients} clients, models that take {options.latency} s")
    print(
        f"/predict   {len(times)} requests: {outcomes['answered']} answered, {outcomes['blank']} blank,"
        f" {outcomes['refused']} refused; busy {outcomes['busy']} times"
    )
    print(f"           median {statistics.median(times):.1f} s, longest {max(times):.1f} s")
    print(f"           {used:.0f} s of processor time in the worker")
    print(f"/health    {summary(health)}")
    print(f"/webhook   {summary(webhook)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--models", type=int, default=3)
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        asyncio.run(ask_as_clients(options.ask, options.clients, options.seconds))
    else:
        measure(options)


if __name__ == "__main__":
    main()
