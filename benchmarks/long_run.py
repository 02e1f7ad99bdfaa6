"""Whether a long run of ``camvo label`` stays as small and as quick as it begins.

    OMP_NUM_THREADS=1 python benchmarks/long_run.py [--tasks 100000] [--every 10000] [--models 3] [--pack 20]

One process labels texts by models that answer at once, under the default policy, with a ledger on
SQLite. Printed after each part of the tasks: this process's memory (RSS), what a task of the part cost in
processor time and calls, and the size of the ledger for each round so far.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from pathlib import Path

import psutil
import yaml
from rich.console import Console

sys.path.append(str(Path(__file__).parent))
from bulk import AT_ONCE, watched, write_tasks
from scripted_models import LABELS, counts, model_settings, scripted_models

from backend.commands.label.run import label_into
from backend.commands.shared.options import LabelOptions
from backend.settings import Environment


class Meter:
    """Prints what a part of a run took."""

    def __init__(self, ledger: Path, address: str) -> None:
        self._ledger, self._address = ledger, address
        self._tasks, self._used, self._calls = 0, time.process_time(), 0
        print(f"{'tasks':>8} {'RSS MiB':>8} {'ms a task':>10} {'calls':>6} {'ledger bytes':>13}")

    def read(self, tasks: int) -> None:
        used, calls = time.process_time(), counts(self._address)["calls"]
        part = tasks - self._tasks
        memory = psutil.Process().memory_info().rss / 2**20
        ms, asked = (used - self._used) / part * 1e3, (calls - self._calls) / part
        size = sum(file.stat().st_size for file in self._ledger.parent.glob(f"{self._ledger.name}*"))
        print(f"{tasks:8,} {memory:8.0f} {ms:10.1f} {asked:6.2f} {size / tasks:13,.0f}", flush=True)
        self._tasks, self._used, self._calls = tasks, used, calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=10_000)
    parser.add_argument("--models", type=int, default=3)
    parser.add_argument("--pack", type=int, default=1, help="texts in a prompt")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="camvo-long-run-") as name, scripted_models() as address:
        folder = Path(name)
        models = model_settings(address, options.models, pack=options.pack)
        (folder / "camvo.yaml").write_text(yaml.safe_dump({"models": models, "concurrency": AT_ONCE}))
        write_tasks(folder / "in.csv", range(options.tasks))
        ledger = folder / "ledger.sqlite"
        environment = Environment(database_url=f"sqlite:///{ledger}", config=folder / "camvo.yaml")
        chosen = LabelOptions(labels=LABELS, text_column="text", name="long-run")
        meter = Meter(ledger, address)
        with watched(lambda tasks: meter.read(tasks) if tasks and tasks % options.every == 0 else None):
            tally = label_into(
                folder / "out.csv", folder / "in.csv", chosen, environment, Console(file=io.StringIO())
            )
        assert not tally.left
        assert not tally.counts.failed


if __name__ == "__main__":
    main()
