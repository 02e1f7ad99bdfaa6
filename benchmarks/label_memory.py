"""How much memory a dataset takes on its way through source, index and sink, for two sizes of it.

    python benchmarks/label_memory.py --rows 100000 1000000 --format csv jsonl json parquet

Rows are generated into a file, a tenth of them repeat a text, and each is written with a made-up label.
Every size and format runs in a process of its own. Printed is the most memory (RSS) above that before the
first row.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from backend.datasets.sinks import Result, open_sink
from backend.datasets.sources import open_source
from backend.datasets.tasks import Columns, Dataset, Index, plain_label_config

WORDS = [
    "good",
    "bad",
    "fine",
    "awful",
    "delivery",
    "late",
    "early",
    "shop",
    "staff",
    "friendly",
    "broken",
    "works",
    "refund",
]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    options.add_argument("--format", nargs="+", default=["csv", "jsonl", "json", "parquet"])
    chosen = options.parse_args()
    print(f"{'format':8} {'rows':>10} {'tasks':>10} {'index MB':>9} {'sink MB':>9} {'seconds':>8}")
    for ending in chosen.format:
        for rows in chosen.rows:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                print(process.submit(measure, ending, rows).result(), flush=True)


def measure(ending: str, rows: int) -> str:
    with tempfile.TemporaryDirectory() as name:
        source, out = Path(name) / f"in.{ending}", Path(name) / f"out.{ending}"
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            process.submit(generate, source, rows).result()
        if ending == "parquet":
            import pyarrow.parquet  # noqa: F401 - its own memory is not that of rows
        dataset = Dataset(open_source(source), plain_label_config(["Glad", "Sad"], "text"))
        started = time.monotonic()
        with Index(dataset) as index:
            with Peak() as indexing:
                index.build()
            with Peak(indexing.before) as writing, open_sink(out, index.columns, KINDS) as write:
                for task, first in zip(dataset.tasks(), index.is_first(), strict=True):
                    write(Result(task.row.data, added(task.id, first), task.data, []))
            seconds = time.monotonic() - started
            return (
                f"{ending:8} {rows:>10,} {index.tasks:>10,} {indexing.above:>9.1f} {writing.above:>9.1f}"
                f" {seconds:>8.0f}"
            )


KINDS = {
    "camvo_id": str,
    "camvo_label": str,
    "camvo_score": float,
    "camvo_votes": str,
    "camvo_cost_usd": float,
}


def added(task: str, first: bool) -> dict[str, object]:
    return {
        "camvo_id": task,
        "camvo_label": "Glad",
        "camvo_score": 0.9,
        "camvo_votes": {"small": "Glad", "large": "Glad"},
        "camvo_cost_usd": 0.0001 if first else 0.0,
    }


def generate(path: Path, rows: int) -> None:
    columns = Columns()
    columns.add(next(generated(1)))
    with open_sink(path, columns, {}) as write:
        for row in generated(rows):
            write(Result(row, {}, row, []))


def generated(rows: int) -> Iterator[dict[str, object]]:
    for number in range(rows):
        text = number - (number % 10 == 9)
        words = " ".join(WORDS[text * place % len(WORDS)] for place in range(1, 20))
        yield {"number": number, "text": f"{words} {text}"}


class Peak:
    """The most memory of this process in MB, above that at the beginning, looked at 50 times a second."""

    def __init__(self, before: float | None = None) -> None:
        self._process = psutil.Process()
        self.before = self._now() if before is None else before
        self._most = self.before

    def __enter__(self) -> Peak:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def above(self) -> float:
        return self._most - self.before

    def _now(self) -> float:
        return float(self._process.memory_info().rss) / 1e6

    def _watch(self) -> None:
        while not self._done.wait(0.02):
            self._most = max(self._most, self._now())


if __name__ == "__main__":
    main()
