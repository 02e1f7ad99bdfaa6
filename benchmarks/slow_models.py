"""What a slow model costs ``camvo label`` in time, with and without a price of waiting (``hour_usd``).

    python benchmarks/slow_models.py [--tasks 500] [--seconds 4] [--best] [--hour-usd 10 0]

Four scripted models answer at once, with 10% wrong. A fifth, of price 0, answers one call at a time. It is
wrong as often as the others, or with ``--best`` on 1% of the texts. No label of a person is given.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import yaml

sys.path.append(str(Path(__file__).parent))
from scripted_models import LABELS, text_of

from backend.testing import OpenAIServer, Reply, task_text

QUICK = {"a": 0.1, "b": 0.15, "c": 0.25, "d": 0.5}
"""The quick models and their prices in $ per million tokens."""


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def truth(text: str) -> str:
    return LABELS[_hash(text) % 2]


def vote(model: str, text: str, wrong: float) -> str:
    """The label that a model gives a text; the same in every run."""
    right = _hash(f"{model} {text}") / 2**32 >= wrong
    return LABELS[LABELS.index(truth(text)) - (not right)]


def label(folder: Path, tasks: int, seconds: float, hour_usd: float, *, best: bool) -> str:
    """Label tasks in a process of its own, and return a row of what it took."""
    turn = threading.Lock()

    def script(body: dict[str, Any]) -> Reply:
        model = body["model"]
        if model == "slow":
            with turn:
                time.sleep(seconds)
        wrong = 0.01 if model == "slow" and best else 0.1
        return Reply.says({"label": vote(model, task_text(body), wrong)}, usage=(100, 8))

    with OpenAIServer(script) as server:
        prices = QUICK | {"slow": 0.0}
        models = [
            {"name": name, "model": f"openai/{name}", "api_base": server.url, "timeout": 600}
            | {"input_price": price, "output_price": 4 * price}
            for name, price in prices.items()
        ]
        config = folder / "camvo.yaml"
        config.write_text(yaml.safe_dump({"models": models, "hour_usd": hour_usd}))
        with (folder / "in.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["text"], *([text_of(number)] for number in range(tasks))])
        environment = {
            **os.environ,
            "OPENAI_API_KEY": "none",
            "CAMVO_DATABASE_URL": f"sqlite:///{folder}/ledger",
        }
        command = [sys.executable, "-m", "backend.cli", "label", "in.csv", "--labels", ",".join(LABELS)]
        command += ["--text-column", "text", "--config", str(config), "--out", "out.csv", "--yes"]
        began = time.monotonic()
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        took = time.monotonic() - began
    (folder / "said.txt").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    with (folder / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    asked = sum("slow" in json.loads(row["camvo_votes"]) for row in rows) / len(rows)
    right = sum(row["camvo_label"] == truth(row["text"]) for row in rows) / len(rows)
    cost = re.search(r"\$[\d.]+(?= for the votes)", done.stdout)
    cells = "best" if best else "as good as the others", f"{hour_usd:g}", f"{took / 60:.1f} min"
    return f"| {' | '.join(cells)} | {asked:.0%} | {right:.1%} | {cost and cost.group()} |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--best", action="store_true")
    parser.add_argument("--hour-usd", type=float, nargs="+", default=[10.0, 0.0])
    arguments = parser.parse_args()
    print("| the slow model | `hour_usd` | time | asked | right | cost |\n|---|---|---|---|---|---|")
    for hour_usd in arguments.hour_usd:
        with tempfile.TemporaryDirectory() as folder:
            row = label(Path(folder), arguments.tasks, arguments.seconds, hour_usd, best=arguments.best)
        print(row, flush=True)


if __name__ == "__main__":
    main()
