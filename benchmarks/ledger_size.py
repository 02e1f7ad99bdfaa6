"""Where the bytes of a SQLite ledger are: one row per table and index, in bytes per round.

::

    python benchmarks/ledger_size.py --rounds 2000 --models 7
    python benchmarks/ledger_size.py --student                  # with a student, which keeps n-grams of texts
    python benchmarks/ledger_size.py --file camvo.sqlite        # of an existing ledger

Without a file, a new ledger is filled by the whole backend: the default policy, ``--models`` scripted models
that are right with 0.65 to 0.9, contexts of 384 numbers in float32, texts of some forty words. With a
student, texts are 200 characters of CaMVo's own documentation. Requests to models are answered at once.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import yaml

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import goes to the network
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
import migrated
from scripted_litellm import HashedTexts, ScriptedLitellm

from backend import settings
from backend.models import model as litellm_info
from backend.questions import parse_label_config
from backend.server.runtime import Runtime
from backend.settings import Environment

CONFIG = """<View><Text name="text" value="$text"/><Choices name="mood" toName="text" choice="single">
<Choice value="Glad"/><Choice value="Sad"/><Choice value="Calm"/></Choices></View>"""
LABELS = ("Glad", "Sad", "Calm")
PROJECT = "1.1795244779"


class Texts(HashedTexts):
    """Unit vectors of 384 numbers that float32 represents exactly, as a sentence embedder's are."""

    dimension = 384

    def _row(self, text: str):  # type: ignore[no-untyped-def]
        return super()._row(text).astype("float32").astype("float64")


class Models(ScriptedLitellm):
    """Models that are right by their accuracy; the truth and the votes are drawn from hashes."""

    def __init__(self, accuracies: dict[str, float]) -> None:
        super().__init__(lambda *_: "", lambda: 0.0)
        self.accuracies = accuracies

    async def acompletion(self, *, model: str, messages: object, **_: object) -> SimpleNamespace:
        await asyncio.sleep(0)
        prompt = json.dumps(messages)
        truth, name = _draw(prompt), model.partition("/")[2]
        right = _draw(prompt, name) < self.accuracies[name]
        label = LABELS[int(truth * 3 if right else _draw(prompt, name, "wrong") * 3)]
        message = SimpleNamespace(
            content=json.dumps({"mood": label}), refusal=None, provider_specific_fields=None
        )
        return SimpleNamespace(
            model=f"{name}-2026-03-01",
            choices=[SimpleNamespace(message=message, finish_reason="stop")],
            usage=SimpleNamespace(prompt_tokens=140, completion_tokens=8),
        )


def _draw(*parts: str) -> float:
    return int(hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12], 16) / 16**12


def fill(folder: Path, rounds: int, models: int, *, student: bool) -> Path:
    """Predict tasks until the ledger has so many rounds; return its file."""
    accuracies = {f"model-{number}": 0.65 + 0.25 * number / max(models - 1, 1) for number in range(models)}
    entries = [
        {"name": n, "model": f"openai/{n}", "api_base": "-", "input_price": 1.0 + i, "output_price": 2.0}
        for i, n in enumerate(accuracies)
    ]
    config = folder / "camvo.yaml"
    config.write_text(yaml.safe_dump({"models": entries, "deadline": 60.0, "audit": 0.0, "student": student}))
    environment = Environment(database_url=migrated.sqlite(folder / "ledger.sqlite"), config=config)
    passages = _prose() if student else _few_words()
    label_config = parse_label_config(CONFIG)
    with patch.object(litellm_info, "litellm", lambda: Models(accuracies)):
        with patch("backend.runtime.Embedder", return_value=Texts()):
            runtime = Runtime(settings.load(config), environment)
        for start in range(1, rounds + 1, 50):
            numbers = range(start, min(start + 50, rounds + 1))
            tasks = [{"id": number, "data": {"text": f"{number} {next(passages)}"}} for number in numbers]
            project = runtime.projects.to_predict(PROJECT)
            runtime.predict(PROJECT, label_config, project, tasks).result()
        runtime.close()
    return folder / "ledger.sqlite"


_CHARACTERS = 200


_WORDS = [
    "the",
    "train",
    "was",
    "late",
    "again",
    "and",
    "nobody",
    "said",
    "why",
    "lovely",
    "weather",
    "today",
]


def _few_words() -> Iterator[str]:
    """Texts of forty words, endlessly."""
    draws = random.Random(1)  # noqa: S311 - made-up texts
    while True:
        yield " ".join(draws.choices(_WORDS, k=40))


def _prose() -> Iterator[str]:
    """Passages of the documentation's sentences, endlessly; tables, headings and code are left out."""
    draws = random.Random(1)  # noqa: S311 - texts of a benchmark
    pages = sorted((Path(__file__).resolve().parents[1] / "docs").glob("*.md"))
    lines = (line for page in pages for line in page.read_text(encoding="utf-8").splitlines())
    prose = " ".join(line for line in lines if line[:1].isupper())
    while True:
        place = draws.randrange(len(prose) - _CHARACTERS)
        yield prose[place : place + _CHARACTERS]


def sizes(path: Path) -> list[tuple[str, int]]:
    """Table or index → its bytes, the largest first."""
    database = sqlite3.connect(path)
    rows = database.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC").fetchall()
    database.close()
    return [(name, size) for name, size in rows]


def _columns(path: Path) -> list[tuple[str, float]]:
    """The mean length of the columns that hold texts or bytes, per row."""
    database = sqlite3.connect(path)
    found: list[tuple[str, float]] = []
    for table, names in (
        ("rounds", ("plan", "votes", "question", "epoch")),
        ("contexts", ("context",)),
        ("events", ("contribution", "epoch")),
        ("answers", ("key", "content", "model")),
        ("snapshots", ("state",)),
    ):
        for name in names:
            query = f"SELECT avg(length(CAST({name} AS BLOB))) FROM {table}"  # noqa: S608 - fixed names
            found.append((f"{table}.{name}", database.execute(query).fetchone()[0] or 0.0))
    database.close()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--models", type=int, default=7)
    parser.add_argument("--student", action="store_true")
    parser.add_argument("--file", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or fill(Path(folder), options.rounds, options.models, student=options.student)
        database = sqlite3.connect(path)
        rounds = database.execute("SELECT count(*) FROM rounds").fetchone()[0]
        votes = database.execute("SELECT count(*) FROM votes").fetchone()[0]
        database.close()
        print(f"{rounds} rounds, {votes / max(rounds, 1):.2f} votes a round")
        by_name = sizes(path)
        for name, size in by_name:
            if size > 4096:
                print(f"{name:45} {size / max(rounds, 1):9.0f} bytes a round")
        print(f"{'all':45} {sum(size for _, size in by_name) / max(rounds, 1):9.0f} bytes a round")
        for name, length in _columns(path):
            print(f"  {name:43} {length:9.0f} bytes a row")


if __name__ == "__main__":
    main()
