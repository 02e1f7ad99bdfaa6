"""What questions under a condition cost: asked once it holds, or always, in one prompt with the others.

    python benchmarks/dependent_questions.py [--tasks 300] [--shares 0.1 0.33 0.8] [--words 30 300]

Four scripted models with 10% wrong label texts with a topic and, where it is Politics, a party and a tone.
Where the topic is another, they answer about party and tone at random, as models do that have to say
something. One prompt for all is the same config without its conditions, so it lacks the words that would
state them. Four characters are counted as a token.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from backend.testing import OpenAIServer, Reply, task_text

PRICES = {"a": 0.1, "b": 0.15, "c": 0.25, "d": 0.5}
"""The models and their prices in $ per million input tokens; output costs four times as much."""

QUESTIONS = {
    "topic": ("Politics", "Sports", "Weather"),
    "party": ("Red", "Blue"),
    "tone": ("Mild", "Harsh", "Wry"),
}
CONDITION = ' visibleWhen="choice-selected" whenTagName="topic" whenChoiceValue="Politics"'


def config(*, conditions: bool) -> str:
    """The label config, with or without its conditions."""
    controls = "".join(
        f'<Choices name="{name}" toName="text"{CONDITION if conditions and name != "topic" else ""}>'
        + "".join(f'<Choice value="{label}"/>' for label in labels)
        + "</Choices>"
        for name, labels in QUESTIONS.items()
    )
    return f'<View><Text name="text" value="$text"/>{controls}</View>'


def _draw(*parts: object) -> float:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4]) / 2**32


def truth(name: str, text: str, share: float) -> str | None:
    """The right answer; ``None`` where there is none."""
    draw = _draw("topic", text)
    topic = "Politics" if draw < share else QUESTIONS["topic"][1 + (draw > (1.0 + share) / 2.0)]
    if name == "topic":
        return topic
    labels = QUESTIONS[name]
    return labels[int(_draw(name, text) * len(labels))] if topic == "Politics" else None


def answer(model: str, name: str, text: str, share: float) -> str:
    """What a model says; the same in every run."""
    labels, right = QUESTIONS[name], truth(name, text, share)
    if right is not None and _draw(model, name, text) >= 0.1:
        return right
    others = [label for label in labels if label != right]
    return others[int(_draw(model, name, text, "other") * len(others))]


def label(
    folder: Path, tasks: int, share: float, words: int, *, conditions: bool
) -> tuple[int, float, float, float]:
    """Label tasks; return the calls, the tokens in and out in thousands, and the cost in $."""
    sums = {"calls": 0, "input": 0, "output": 0, "usd": 0.0}

    def script(body: dict[str, Any]) -> Reply:
        prompt = "".join(message["content"] for message in body["messages"])
        text = task_text(body)
        asked = [name for name in QUESTIONS if f'Question "{name}"' in prompt]
        said = {name: answer(body["model"], name, text, share) for name in asked}
        usage = len(prompt) // 4, len(json.dumps(said)) // 4
        sums["calls"] += 1
        sums["input"] += usage[0]
        sums["output"] += usage[1]
        sums["usd"] += PRICES[body["model"]] * (usage[0] + 4 * usage[1]) / 1e6
        return Reply.says(said, usage=usage)

    with OpenAIServer(script) as server:
        models = [
            {"name": name, "model": f"openai/{name}", "api_base": server.url}
            | {"input_price": price, "output_price": 4 * price}
            for name, price in PRICES.items()
        ]
        (folder / "camvo.yaml").write_text(yaml.safe_dump({"models": models}))
        (folder / "config.xml").write_text(config(conditions=conditions))
        with (folder / "in.csv").open("w", newline="") as file:
            texts = [f"Report {number}: " + " ".join(["word"] * words) for number in range(tasks)]
            csv.writer(file).writerows([["text"], *([text] for text in texts)])
        environment = {
            **os.environ,
            "OPENAI_API_KEY": "none",
            "CAMVO_DATABASE_URL": f"sqlite:///{folder}/ledger",
        }
        command = [sys.executable, "-m", "backend.cli", "label", "in.csv", "--label-config", "config.xml"]
        command += ["--config", "camvo.yaml", "--out", "out.csv", "--yes"]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return int(sums["calls"]), sums["input"] / 1e3, sums["output"] / 1e3, sums["usd"]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.33, 0.8])
    parser.add_argument("--words", type=int, nargs="+", default=[30, 300])
    arguments = parser.parse_args()
    print(
        "| words | condition holds | asked | calls | tokens in | out | cost |\n|---|---|---|---|---|---|---|"
    )
    for words in arguments.words:
        for share in arguments.shares:
            for conditions in (True, False):
                with tempfile.TemporaryDirectory() as folder:
                    calls, came, went, usd = label(
                        Path(folder), arguments.tasks, share, words, conditions=conditions
                    )
                asked = "once it holds" if conditions else "always, in one prompt"
                cells = f"{words} | {share:.0%} | {asked} | {calls:,} | {came:,.0f} k | {went:,.1f} k"
                print(f"| {cells} | ${usd:.4f} |", flush=True)


if __name__ == "__main__":
    main()
