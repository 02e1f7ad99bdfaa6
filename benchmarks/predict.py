"""How long /predict takes for a batch, beside what the models' latency alone would take.

    OMP_NUM_THREADS=1 python benchmarks/predict.py [--tasks 100] [--models 3] [--latency 0.3] [--batches 30]

Starts a local OpenAI-compatible server that answers after a fixed latency, the real backend in front of it,
and sends batches of tasks that were never seen, as Label Studio does; at the same time it asks for /health
and /setup, posts annotations to /webhook and looks how long these take. The ideal is the number of waves at
the concurrency of 64 calls, times the latency.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import yaml
from aiohttp import web

CONCURRENCY = 64
PROJECT = "1.1700000000"
LABEL_CONFIG = """<View><Text name="text" value="$text"/><Choices name="sentiment" toName="text">
<Choice value="Positive"/><Choice value="Negative"/></Choices></View>"""
ANSWER = '{"sentiment": "Positive"}'


def serve_models(port: int, latency: float) -> None:
    """The models: every call takes the same time and costs the server next to nothing."""

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        await asyncio.sleep(latency)
        message = {"role": "assistant", "content": ANSWER}
        return web.json_response(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 8, "total_tokens": 108},
            }
        )

    application = web.Application()
    application.router.add_post("/v1/chat/completions", complete)
    web.run_app(application, host="127.0.0.1", port=port, print=None)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def backend(models: int, latency: float) -> Iterator[tuple[httpx.Client, psutil.Process]]:
    """The backend in front of its models; a client of it and its worker process."""
    folder = Path(tempfile.mkdtemp(prefix="camvo-benchmark-"))
    ports = free_port(), free_port()
    entry = {
        "model": "hosted_vllm/any",
        "api_base": f"http://127.0.0.1:{ports[0]}/v1",
        "input_price": 1.0,
        "output_price": 1.0,
        "max_concurrency": CONCURRENCY // models + (CONCURRENCY % models > 0),
    }
    config = {
        "models": [{"name": f"model {k}", **entry} for k in range(models)],
        "policy": {"name": "camvo", "k_min": models},
    }
    (folder / "camvo.yaml").write_text(yaml.safe_dump(config))
    environment = {
        **os.environ,
        "CAMVO_DATABASE_URL": f"sqlite:///{folder}/ledger.sqlite",
        "CAMVO_LOG_LEVEL": "warning",
    }
    server = [sys.executable, "-m", "backend.cli", "serve", "--config", str(folder / "camvo.yaml")]
    llms = subprocess.Popen(
        [sys.executable, __file__, "--serve-models", str(ports[0]), "--latency", str(latency)]
    )
    served = subprocess.Popen([*server, "--port", str(ports[1])], env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{ports[1]}", timeout=100) as client:
            wait_until(lambda: client.get("/ready").status_code == 200)
            yield client, psutil.Process(served.pid).children()[0]
    finally:
        for process in (served, llms):
            process.terminate()
            process.wait()


def wait_until(ready: Callable[[], bool]) -> None:
    for _ in range(600):
        try:
            if ready():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise SystemExit("the backend did not start")


def batch(number: int, tasks: int) -> dict[str, object]:
    """A /predict request of tasks that no other batch holds."""
    data = [
        {
            "id": number * 100_000 + k,
            "data": {"text": f"Number {k} of {number}: a pleasant stay, friendly people."},
        }
        for k in range(tasks)
    ]
    return {"tasks": data, "project": PROJECT, "label_config": LABEL_CONFIG, "params": {}}


def annotation(number: int) -> dict[str, object]:
    """What Label Studio posts when somebody submits an annotation."""
    result = [
        {"from_name": "sentiment", "to_name": "text", "type": "choices", "value": {"choices": ["Positive"]}}
    ]
    return {
        "action": "ANNOTATION_CREATED",
        "project": {"id": 1, "created_at": "2023-11-14T22:13:20Z", "label_config": LABEL_CONFIG},
        "task": {"id": number, "data": {"text": "seen"}},
        "annotation": {"id": number, "task": number, "updated_at": "2023-11-14T22:13:20Z", "result": result},
    }


@contextmanager
def meanwhile(
    client: httpx.Client, pause: float, request: Callable[[httpx.Client, int], httpx.Response]
) -> Iterator[list[float]]:
    """How long a request takes, in milliseconds, repeated after a pause in seconds until the block ends."""
    taken: list[float] = []
    over = threading.Event()

    def repeat() -> None:
        with httpx.Client(base_url=client.base_url) as own:
            while not over.wait(pause):
                started = time.perf_counter()
                request(own, len(taken)).raise_for_status()
                taken.append((time.perf_counter() - started) * 1e3)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


def percentiles(taken: list[float]) -> str:
    cuts = statistics.quantiles(taken, n=100)
    return f"median {cuts[49]:5.1f} ms, 99th percentile {cuts[98]:5.1f} ms ({len(taken)} requests)"


def measure(given: argparse.Namespace) -> None:
    ideal = math.ceil(given.tasks * given.models / CONCURRENCY) * given.latency
    setup = {"project": PROJECT, "schema": LABEL_CONFIG, "extra_params": None}
    with backend(given.models, given.latency) as (client, worker):
        client.post("/predict", json=batch(0, 4)).raise_for_status()
        seconds, processor = [], []
        with (
            meanwhile(client, 0.02, lambda own, _: own.get("/health")) as health,
            meanwhile(client, 0.1, lambda own, _: own.post("/setup", json=setup)) as setups,
            meanwhile(
                client, 0.1, lambda own, k: own.post("/webhook", json=annotation(10_000_000 + k))
            ) as webhook,
        ):
            for number in range(1, given.batches + 1):
                used, started = worker.cpu_times().user, time.perf_counter()
                answer = client.post("/predict", json=batch(number, given.tasks)).raise_for_status()
                seconds.append(time.perf_counter() - started)
                processor.append(worker.cpu_times().user - used)
                assert all(one["result"] for one in answer.json()["results"])
        started = time.perf_counter()
        client.post("/predict", json=batch(1, given.tasks)).raise_for_status()
        again = time.perf_counter() - started
    median = statistics.median(seconds)
    print(
        f"/predict   median {median:.2f} s of {given.batches} batches:"
        f" {median / ideal:.2f} x the ideal {ideal:.1f} s"
    )
    print(f"           of them {statistics.median(processor):.2f} s of processor time in the worker")
    print(f"again      {again:.2f} s")
    print(f"/health    {percentiles(health)}")
    print(f"/setup     {percentiles(setups)}")
    print(f"/webhook   {percentiles(webhook)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--models", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--serve-models", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve_models:
        serve_models(given.serve_models, given.latency)
    else:
        measure(given)


if __name__ == "__main__":
    main()
