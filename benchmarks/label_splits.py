"""What it costs to split one of many labels, and what that leaves of the other labels.

    python benchmarks/label_splits.py votes/policy.csv --labels 20 12 21

A table of votes is labelled by ``camvo label`` with scripted models that give the table's votes. Then, for
each label and from the same ledger, ``camvo relabel --split`` makes two labels of it, and ``camvo label``
asks about the tasks that are left. The models know the split: one that says the label of a task that has it
gives the right part, with ``--known 0.9`` in nine of ten cases, by a hash of the task and the model. Where
the task has another label, the part is chance.

Printed are the share of the first bill that the split costs, the share of the other tasks that keep their
label, and how many tasks with a part have the right one. ``--anew`` labels everything again under the new
labels, and says how often that gives the labels of the split: of all tasks, and of those of other labels.
``--budget 0.148`` lets a split cost no more than that share of the first bill.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console

from backend.commands.label.run import label_into
from backend.commands.relabel.run import opened_project, relabel
from backend.commands.shared.arguments import LabelChanges
from backend.commands.shared.options import LabelOptions
from backend.ledger import Ledger
from backend.ledger.money import TOTAL, balance, from_picodollars
from backend.settings import Environment
from backend.testing import OpenAIServer, Reply, task_text

_OUTPUT: Final = 4.0
"""The price of a token of output, as a multiple of one of input."""


def chance(*of: object) -> float:
    """A number in [0, 1) that depends on these values only."""
    digest = hashlib.sha256(" ".join(map(str, of)).encode()).digest()
    return int.from_bytes(digest[:6]) / 2**48


@dataclass
class Table:
    """A table of votes, and the label that is split at present.

    A model that names the label of a task gives its right part with the probability ``known``.
    """

    votes: Mapping[str, Mapping[str, str]]
    truths: Mapping[str, str]
    labels: list[str]
    prices: Mapping[str, float]
    known: float = 1.0
    split: str | None = None

    @classmethod
    def read(cls, path: Path, most: int, known: float) -> Table:
        """Read a table and what describes it."""
        about = json.loads(path.with_suffix(".json").read_text())
        with path.open(newline="") as file:
            rows = sorted(csv.DictReader(file), key=lambda row: chance("order", row["item_id"]))[:most]
        prices = about["usd_per_million_input_tokens"]
        votes = {row["text"].strip(): {arm: row[arm] for arm in prices} for row in rows}
        return cls(votes, {row["text"].strip(): row["truth"] for row in rows}, about["labels"], prices, known)

    def parts(self) -> list[str]:
        """The names of the two parts."""
        return [f"{self.split} first", f"{self.split} second"]

    def part(self, text: str) -> str:
        """The right part of a task."""
        return self.parts()[chance("part", text) < 0.5]

    def answer(self, body: dict[str, Any]) -> Reply:
        """What a model says."""
        text, model = task_text(body).strip(), body["model"]
        vote = self.votes[text][model]
        if vote == self.split:
            knows = self.truths[text] == self.split and chance("knows", text, model) < self.known
            vote = self.part(text) if knows else self.parts()[chance("guess", text, model) < 0.5]
        tokens = 150 + len(text) // 4
        return Reply.says({"label": vote} if vote else "I cannot tell.", usage=(tokens, 8))

    def options(self) -> list[str]:
        """The labels at present."""
        if self.split is None:
            return self.labels
        place = self.labels.index(self.split)
        return [*self.labels[:place], *self.parts(), *self.labels[place + 1 :]]


@dataclass
class Folder:
    """A folder with a ledger."""

    path: Path
    table: Table

    @property
    def environment(self) -> Environment:
        """Its ledger and settings."""
        return Environment(
            database_url=f"sqlite:///{self.path}/ledger.sqlite", config=self.path / "camvo.yaml"
        )

    def label(self, name: str = "tasks", budget: float | None = None) -> tuple[dict[str, str], float]:
        """Label all tasks that have no label: text → label, and the bill of this run in $."""
        options = LabelOptions(
            labels=self.table.options(), text_column="text", name=name, budget=budget, yes=True
        )
        console = Console(file=io.StringIO())
        out = self.path / "out.csv"
        before = self.spent()
        label_into(out, self.path / "in.csv", options, self.environment, console)
        with out.open(newline="") as file:
            labels = {row["text"]: row["camvo_label"] for row in csv.DictReader(file)}
        return labels, self.spent() - before

    def spent(self) -> float:
        """What has been spent so far, in $."""
        with closing(Ledger(self.environment.database_url)) as ledger:
            if not ledger.exists():
                return 0.0
            with ledger.read() as connection:
                accounts = (balance(connection, name, TOTAL).spent for name in ("tasks", "anew"))
                return from_picodollars(sum(accounts))

    def change(self, split: str) -> str:
        """Split a label and return what the command printed."""
        console = Console(file=io.StringIO(), width=200)
        wanted = LabelChanges(splits=[f"{split}={','.join(self.table.parts())}"])
        with opened_project(self.path / "in.csv", self.environment, name="tasks") as opened:
            relabel(opened, wanted, console, lambda question: True)
        return str(console.file.getvalue())  # type: ignore[attr-defined]


def write(folder: Path, table: Table, url: str) -> None:
    """Write the tasks and the settings."""
    with (folder / "in.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["text"], *([text] for text in table.votes)])
    models = [
        {"name": arm, "model": f"openai/{arm}", "api_base": url, "input_price": price}
        | {"output_price": _OUTPUT * price}
        for arm, price in table.prices.items()
    ]
    settings = {"models": models, "concurrency": 32, "retries": 0, "audit": 0.0}
    (folder / "camvo.yaml").write_text(yaml.safe_dump(settings))


def same(one: Mapping[str, str], other: Mapping[str, str], texts: list[str]) -> str:
    """The share of texts with the same label in both."""
    return f"{sum(one[text] == other[text] for text in texts) / max(len(texts), 1):.2%}"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--labels", nargs="+", default=None)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--known", type=float, default=1.0)
    parser.add_argument("--budget", type=float, default=None, help="of a split, as a share of the first bill")
    parser.add_argument("--anew", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "none")
    table = Table.read(arguments.table, arguments.tasks, arguments.known)
    with OpenAIServer(table.answer) as server, tempfile.TemporaryDirectory() as name:
        first = Folder(Path(name) / "first", table)
        first.path.mkdir()
        write(first.path, table, server.url)
        before, bill = first.label()
        print(f"{len(before)} tasks, ${bill:.4f}, {server.count()} calls", flush=True)
        print("| label | its tasks | asked again | of the bill | other labels kept | right parts | anew |")
        print("|---" * 7 + "|", flush=True)
        for label in arguments.labels or table.labels:
            table.split = None
            copy = Folder(Path(name) / f"split {label}", table)
            shutil.copytree(first.path, copy.path)
            table.split, calls = label, server.count()
            printed = copy.change(label)
            assert server.count() == calls, "a change of labels asks nobody"
            limit = None if arguments.budget is None else copy.spent() + arguments.budget * bill
            after, usd = copy.label(budget=limit)
            others = [text for text, old in before.items() if old != label]
            parted = [text for text, new in after.items() if new in table.parts()]
            right = sum(after[text] == table.part(text) for text in parted if table.truths[text] == label)
            judged = sum(table.truths[text] == label for text in parted)
            asked = next(line for line in printed.splitlines() if "are asked about again" in line)
            anew = ""
            if arguments.anew:
                again, again_usd = copy.label("anew")
                anew = f"{same(after, again, list(after))} of all, {same(after, again, others)} of others;"
                anew += f" ${again_usd:.4f}"
            asked = asked.split(" of ")[0].strip()
            print(
                f"| {label} | {len(before) - len(others)} | {asked} | {usd / bill:.1%} |"
                f" {same(before, after, others)} | {right} of {judged} | {anew} |",
                flush=True,
            )
            shutil.rmtree(copy.path)


if __name__ == "__main__":
    main()
