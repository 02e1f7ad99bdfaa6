"""Measure how many tasks get a label, and a right one, within a budget, with and without the number of tasks.

    OMP_NUM_THREADS=1 python benchmarks/budgets.py [--tasks 120] [--usd 0.12 0.05 0.02 0.01]

Starts a local OpenAI-compatible server and the runtime of a CaMVo server with its default policy. Five models
share errors, and the dearest costs fifty times as much as the cheapest. Tasks come in requests of 50, as from
``camvo predict``. Prices are such that asking every model about 120 tasks costs about $0.14.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from backend.ledger import migrate
from backend.ledger.database import tables
from backend.questions import parse_label_config
from backend.server.runtime import Runtime
from backend.settings import Environment, Settings
from backend.telemetry import logs
from backend.testing import OpenAIServer, Reply

LABELS = ("Glad", "Sad", "Calm")
ACCURACIES = {"nano": 0.72, "mini": 0.78, "small": 0.8, "large": 0.88, "huge": 0.92}
PRICES = {"nano": 0.05, "mini": 0.15, "small": 0.4, "large": 1.2, "huge": 2.5}
"""Dollars per million input tokens; output costs four times as much."""

REQUEST = 50
CONFIG = (
    '<View><Text name="note" value="$text"/><Choices name="mood" toName="note" choice="single">'
    + "".join(f'<Choice value="{label}"/>' for label in LABELS)
    + "</Choices></View>"
)


def uniform(*key: object) -> float:
    """A number in [0, 1), the same for the same key."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "big") / 2.0**64


def truth(number: int) -> str:
    return LABELS[int(len(LABELS) * uniform("truth", number))]


def reply(body: dict[str, Any]) -> Reply:
    """Answer as a model of known accuracy; a quarter of the tasks are hard, and wrong models often agree."""
    asked = "\n".join(message["content"] for message in body["messages"])
    number, model = int(re.findall(r"Entry (\d+)", asked)[-1]), body["model"]
    right = ACCURACIES[model] + (-0.3 if uniform("hard", number) < 0.25 else 0.1)
    own = model if uniform("alone", model, number) < 0.5 else ""
    error = LABELS[int(len(LABELS) * uniform("error", number, own))]
    said = truth(number) if uniform(model, number) < right else error
    return Reply.says({"mood": said}, usage=(300, 15))


def run(server: OpenAIServer, usd: float, tasks: int, known: int | None) -> str:
    """Label the tasks within a budget, and say how that went."""
    models = [
        {
            "name": name,
            "model": f"openai/{name}",
            "api_base": server.url,
            "input_price": price,
            "output_price": 4.0 * price,
            "max_tokens": 64,
        }
        for name, price in PRICES.items()
    ]
    settings = Settings.model_validate({"models": models, "budget": {"project_usd": usd, "tasks": known}})
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(database_url=f"sqlite:///{Path(folder) / 'ledger.sqlite'}")
        migrate(environment.database_url)
        runtime = Runtime(settings, environment)
        numbers = list(range(1, tasks + 1))
        try:
            for start in range(0, tasks, REQUEST):
                raw = [{"id": n, "data": {"text": f"Entry {n}."}} for n in numbers[start : start + REQUEST]]
                project = runtime.projects.to_predict("1.1")
                runtime.predict("1.1", parse_label_config(CONFIG), project, raw).result()
            columns = tables.rounds.c
            with runtime.ledger.read() as connection:
                rounds = connection.execute(select(columns.task, columns.label, columns.cost_usd)).all()
                spent = connection.scalar(select(func.sum(tables.calls.c.cost))) / 1e12
        finally:
            runtime.close()
    right = sum(round_.label == truth(round_.task) for round_ in rounds)
    lost = 1.0 - sum(round_.cost_usd for round_ in rounds) / spent
    return (
        f"${usd:<6g} {'known' if known else 'unknown':<8} {tasks - len(rounds):4} without a label, "
        f"{right:4} right, ${spent:.4f} spent, {lost:.0%} of it lost"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=120)
    parser.add_argument("--usd", type=float, nargs="+", default=[0.12, 0.05, 0.02, 0.01])
    given = parser.parse_args()
    logs.configure("error")
    with OpenAIServer(reply) as server:
        for usd in given.usd:
            for known in (None, given.tasks):
                print(run(server, usd, given.tasks, known), flush=True)


if __name__ == "__main__":
    main()
