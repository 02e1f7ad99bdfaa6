"""Compare the ledger's bills of ``camvo label`` at once, in batches, and in batches of packs, over real HTTP.

    OMP_NUM_THREADS=1 python benchmarks/batch_bills.py VOTES.csv … [--items 500] [--seed 0]

A scripted provider answers with the table's votes, and reports the tokens of each prompt by litellm's count.
The command runs three times over the same texts, each time with an empty ledger, with the default policy.
Prices of input come from the JSON file beside the table; output costs four times as much. What packing costs
in accuracy is not in these numbers, because the provider votes the same in packs.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from rich.console import Console

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from batch_provider import BatchServer
from scripted_litellm import HashedTexts

from backend import runtime
from backend.commands.bulk import batch_run
from backend.commands.label.run import label_into
from backend.commands.shared.options import LabelOptions
from backend.ledger import Ledger, money
from backend.models.model import count_text, count_tokens, litellm
from backend.questions.prompts.messages import texts_of
from backend.settings import Environment
from backend.testing import Reply

PACKS = "packs in batches"
WAYS: Mapping[str, dict[str, Any]] = {"at once": {}, "batches": {"batch": True}, PACKS: {"batch": True}}


class Voting:
    """A script that votes as a table says, and reports the tokens of the prompt."""

    def __init__(self, votes: Mapping[str, Mapping[str, str]]) -> None:
        self._votes = votes
        self.calls = 0

    def __call__(self, body: dict[str, Any]) -> Reply:
        self.calls += 1

        def vote(text: str) -> dict[str, str]:
            return {"label": self._votes[text.strip()][body["model"]] or "?"}

        said = Reply.answers(body, vote).body["choices"][0]["message"]["content"]
        return Reply.answers(
            body, vote, usage=(count_tokens(texts_of(body["messages"])), count_text(str(said)))
        )


def rows_of(path: Path, items: int, seed: int) -> list[dict[str, str]]:
    """Random rows of the table with different texts that are not empty."""
    csv.field_size_limit(sys.maxsize)
    with path.open(newline="") as file:
        rows = {row["text"].strip(): row for row in csv.DictReader(file) if row["text"].strip()}
    return random.Random(seed).sample(list(rows.values()), min(items, len(rows)))  # noqa: S311 - no secret


def run(folder: Path, path: Path, rows: list[dict[str, str]], way: str) -> tuple[float, float, int]:
    """One run; the bill in $, the share of right labels, and how many prompts were answered."""
    facts = json.loads(path.with_suffix(".json").read_text())
    voting = Voting({row["text"].strip(): row for row in rows})
    with (folder / "in.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["text", "truth"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    with BatchServer(voting) as server, patch.object(batch_run, "_FIRST_PAUSE", 0.05):
        models = [
            {
                "name": f"m{number}",
                "model": f"openai/{name}",
                "api_base": server.url,
                "input_price": price,
                "output_price": 4 * price,
                "batch_discount": 0.5,
                "max_tokens": 20,
                **({"pack": 20} if way == PACKS else {}),
            }
            for number, (name, price) in enumerate(facts["usd_per_million_input_tokens"].items())
        ]
        (folder / "camvo.yaml").write_text(yaml.safe_dump({"models": models}))
        url = f"sqlite:///{folder / 'ledger.sqlite'}"
        options = LabelOptions(labels=facts["labels"], text_column="text", yes=True, wait=True, **WAYS[way])
        litellm().in_memory_llm_clients_cache.flush_cache()  # its clients belong to a loop that is gone
        environment = Environment(database_url=url, config=folder / "camvo.yaml")
        with patch.object(runtime, "Embedder", return_value=HashedTexts()):
            label_into(folder / "out.csv", folder / "in.csv", options, environment, Console(quiet=True))
    ledger = Ledger(url)
    with ledger.read() as connection:
        spent = money.balance(connection, "in", money.TOTAL).spent / 1e12
    ledger.close()
    with (folder / "out.csv").open(encoding="utf-8-sig", newline="") as file:
        right = [row["camvo_label"] == row["truth"] for row in csv.DictReader(file)]
    return spent, sum(right) / len(right), voting.calls


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("votes", type=Path, nargs="+")
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| table | items | way | $ per 1,000 labels | ratio | prompts | right |")
    print("|---|---|---|---|---|---|---|")
    for path in options.votes:
        rows, first = rows_of(path, options.items, options.seed), 0.0
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder, patch.dict("os.environ", OPENAI_API_KEY="none"):
                spent, right, prompts = run(Path(folder), path, rows, way)
            first = first or spent
            print(
                f"| {path.stem} | {len(rows)} | {way} | {1000 * spent / len(rows):.4f} | {spent / first:.3f}"
                f" | {prompts:,} | {100 * right:.1f}% |",
                flush=True,
            )


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
