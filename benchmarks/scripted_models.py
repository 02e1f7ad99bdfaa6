"""A local OpenAI-compatible server in a process of its own, for benchmarks: models that answer at once.

Each model gives the wrong one of two labels to a tenth of the texts, by a hash of its name and the text. So
the votes are the same in every run, and the policies have something to do. No word tells a text's label. The
server counts the prompts that it is asked more than once: each of these was bought twice. A prompt about
several tasks is answered like several prompts about one.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen

from aiohttp import web

from backend.testing import packed_texts, task_text

LABELS = ("Positive", "Negative")
_WRONG = 0.1


def text_of(number: int) -> str:
    """A text of about 20 words that no other number has."""
    return (
        f"Guest {number} writes that the stay in room {number % 97} was as described on the whole,"
        f" with breakfast at {number % 12} and {number % 5} neighbours on the floor."
    )


def vote(model: str, text: str) -> str:
    """The label that a model gives a text."""
    truth = LABELS[hashlib.sha256(text.encode()).digest()[0] % 2]
    wrong = hashlib.sha256(f"{model} {text}".encode()).digest()[0] / 256 < _WRONG
    return LABELS[LABELS.index(truth) - 1] if wrong else truth


def serve(port: int, latency: float) -> None:
    """Serve until the process ends."""
    asked: Counter[str] = Counter()

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        prompt = body["messages"][-1]["content"]
        asked[f"{body['model']} {prompt}"] += 1
        if latency:
            await asyncio.sleep(latency)
        tasks = packed_texts(body) or {"label": task_text(body)}
        said = {key: vote(body["model"], text) for key, text in tasks.items()}
        message = {"role": "assistant", "content": json.dumps(said)}
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

    async def count(request: web.Request) -> web.Response:
        return web.json_response({"calls": asked.total(), "repeated": asked.total() - len(asked)})

    application = web.Application()
    application.router.add_post("/v1/chat/completions", complete)
    application.router.add_get("/count", count)
    web.run_app(application, host="127.0.0.1", port=port, print=None)


@contextmanager
def scripted_models(latency: float = 0.0) -> Iterator[str]:
    """Start the server in another process; yield its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    process = subprocess.Popen([sys.executable, __file__, str(port), str(latency)])
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                counts(address)
            except URLError:
                time.sleep(0.05)
            else:
                break
        yield address
    finally:
        process.terminate()
        process.wait()


def counts(address: str) -> dict[str, int]:
    """How many calls the server has answered, and how many repeated an earlier prompt to the same model."""
    with urlopen(f"{address}/count") as response:  # noqa: S310 - our own server
        return dict(json.load(response))


def model_settings(
    address: str, models: int, provider: str = "hosted_vllm", pack: int = 1
) -> list[dict[str, object]]:
    """The section ``models`` of a ``camvo.yaml`` for this server; ``pack`` tasks share a prompt."""
    return [
        {
            "name": f"model{number}",
            "model": f"{provider}/model{number}",
            "api_base": f"{address}/v1",
            "input_price": 0.01,
            "output_price": 0.01,
        }
        | ({"pack": pack} if pack > 1 else {})
        for number in range(models)
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("latency", type=float)
    options = parser.parse_args()
    serve(options.port, options.latency)
