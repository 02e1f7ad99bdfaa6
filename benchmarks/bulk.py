"""What a task of ``camvo label`` costs in processor time, with models that answer at once.

    OMP_NUM_THREADS=1 python benchmarks/bulk.py [--tasks 2000] [--beside CHECKOUT] [--postgres] [--profile F]

One process labels texts by three models under ``majority``, which asks all of them, and under the default
policy, the latter also with models that are asked about up to 20 texts in a prompt. Beside it the same
process makes the same calls through litellm alone: the floor of any client that uses it. ``--beside`` repeats
all of it with another checkout of CaMVo, taking turns, for ratios. Counted are
the process's own seconds (the models answer in another), the calls, and the ledger's statements and commits.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))
from scripted_models import LABELS, counts, model_settings, scripted_models, text_of

WARM_UP = 100
"""Tasks before those that are timed."""

AT_ONCE = 64
PACK = 20


def write_tasks(path: Path, numbers: range) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        writer.writerows([text_of(number)] for number in numbers)


@contextmanager
def statements() -> Iterator[Counter[str]]:
    """Count what is sent to the ledger: statements, and commits of transactions that may write."""
    from sqlalchemy import Engine, event

    sent: Counter[str] = Counter()

    def executed(connection: Any, cursor: Any, statement: str, *_: object) -> None:
        sent["statements"] += 1

    def committed(connection: Any) -> None:
        mode = connection.get_execution_options().get("camvo_mode")
        sent["commits"] += mode == "write"

    event.listen(Engine, "before_cursor_execute", executed)
    event.listen(Engine, "commit", committed)
    yield sent
    event.remove(Engine, "before_cursor_execute", executed)
    event.remove(Engine, "commit", committed)


def label(folder: Path, address: str, policy: str, tasks: int, database: str | None) -> dict[str, float]:
    """Label texts in this process, some first to warm up; return what each of the others cost."""
    import yaml
    from rich.console import Console

    from backend.commands.label.run import label_into
    from backend.commands.shared.options import LabelOptions
    from backend.settings import Environment

    models = model_settings(address, 3, pack=PACK if policy == "packed" else 1)
    config: dict[str, object] = {"models": models, "concurrency": AT_ONCE}
    if policy == "majority":
        config["policy"] = {"name": policy}
    (folder / "camvo.yaml").write_text(yaml.safe_dump(config))
    environment = Environment(
        database_url=database or f"sqlite:///{folder}/ledger.sqlite", config=folder / "camvo.yaml"
    )
    options = LabelOptions(labels=LABELS, text_column="text", name=f"bulk-{policy}")

    write_tasks(folder / "in.csv", range(WARM_UP + tasks))
    with (
        statements() as sent,
        timed_after(WARM_UP, lambda: (sent.copy(), counts(address)["calls"])) as moments,
    ):
        tally = label_into(
            folder / "out.csv", folder / "in.csv", options, environment, Console(file=io.StringIO())
        )
    assert not tally.left
    assert not tally.counts.failed
    (began, used, (sent_before, calls_before)), (ended, used_at_end, (sent_after, calls_after)) = moments
    return {
        "ms": (used_at_end - used) / tasks * 1e3,
        "wall_ms": (ended - began) / tasks * 1e3,
        "calls": (calls_after - calls_before) / tasks,
        "statements": (sent_after["statements"] - sent_before["statements"]) / tasks,
        "commits": (sent_after["commits"] - sent_before["commits"]) / tasks,
    }


@contextmanager
def timed_after(tasks: int, also: Callable[[], Any]) -> Iterator[list[tuple[float, float, Any]]]:
    """Note the time, the processor time and ``also()`` after so many tasks of a run, and at its end."""
    moments: list[tuple[float, float, Any]] = []

    def note(number: int | None) -> None:
        if number is None or number == tasks:
            moments.append((time.perf_counter(), time.process_time(), also()))

    with watched(note):
        yield moments


@contextmanager
def watched(act: Callable[[int | None], None]) -> Iterator[None]:
    """During the block, call ``act`` with each task's number in a run, and with ``None`` at its end."""
    from backend.commands.bulk.labelling import Labelling

    run = Labelling.run

    def watched_run(labelling: Any, jobs: Any) -> Iterator[Any]:
        for number, job in enumerate(run(labelling, jobs), start=1):
            act(number)
            yield job
        act(None)

    Labelling.run = watched_run  # type: ignore[method-assign]
    try:
        yield
    finally:
        Labelling.run = run  # type: ignore[method-assign]


def litellm_alone(address: str, tasks: int) -> dict[str, float]:
    """Three calls of each text through litellm, and nothing else."""
    from backend.models.model import litellm

    litellm_module = litellm()
    models = model_settings(address, 3)

    async def every(numbers: range) -> None:
        room = asyncio.Semaphore(AT_ONCE)

        async def call(number: int, entry: dict[str, object]) -> None:
            async with room:
                await litellm_module.acompletion(
                    model=entry["model"],
                    api_base=entry["api_base"],
                    messages=[{"role": "user", "content": text_of(number)}],
                    max_retries=0,
                )

        await asyncio.gather(*(call(number, entry) for number in numbers for entry in models))

    async def timed() -> tuple[float, float]:
        await every(range(WARM_UP))
        seconds, processor = time.perf_counter(), time.process_time()
        await every(range(WARM_UP, WARM_UP + tasks))
        return time.perf_counter() - seconds, time.process_time() - processor

    seconds, processor = asyncio.run(timed())
    return {"ms": processor / tasks * 1e3, "wall_ms": seconds / tasks * 1e3, "calls": 3.0}


def measure_here(options: argparse.Namespace) -> None:
    """One measurement in this process, printed as JSON."""
    if options.measure == "litellm":
        result = litellm_alone(options.address, options.tasks)
    else:
        with tempfile.TemporaryDirectory(prefix="camvo-bulk-") as folder:
            work: Callable[[], dict[str, float]] = lambda: label(  # noqa: E731
                Path(folder), options.address, options.measure, options.tasks, options.database
            )
            result = profiled(work, options.profile) if options.profile else work()
    print(json.dumps(result))


def profiled(work: Callable[[], dict[str, float]], path: str) -> dict[str, float]:
    """Run something under cProfile, in every thread, and write what it found to a file."""
    import cProfile
    import threading

    profiles = [cProfile.Profile(time.thread_time)]
    run = threading.Thread.run

    def run_profiled(thread: threading.Thread) -> None:
        profiles.append(cProfile.Profile(time.thread_time))
        profiles[-1].runcall(run, thread)

    threading.Thread.run = run_profiled  # type: ignore[method-assign]
    result = profiles[0].runcall(work)
    import pstats

    stats = pstats.Stats(profiles[0])
    for profile in profiles[1:]:
        stats.add(profile)
    stats.dump_stats(path)
    return result


def measured(
    checkout: Path, measure: str, address: str, options: argparse.Namespace, database: str | None
) -> dict[str, float]:
    """One measurement in a new process, with the code of a checkout."""
    command = [sys.executable, __file__, "--measure", measure, "--address", address]
    command += ["--tasks", str(options.tasks)]
    command += ["--database", database] if database else []
    command += ["--profile", options.profile] if options.profile and measure == options.only else []
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, cwd=checkout)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="another checkout of CaMVo")
    parser.add_argument("--postgres", action="store_true", help="a ledger on PostgreSQL instead of SQLite")
    parser.add_argument("--only", help="one of litellm, majority, default, packed")
    parser.add_argument("--profile", help="write a profile of the one measured with --only to this file")
    for hidden in ("--measure", "--address", "--database"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure_here(options)
        return
    here = Path(__file__).resolve().parents[1]
    checkouts = {"here": here} | ({"beside": options.beside.resolve()} if options.beside else {})
    compare(options, checkouts)


def compare(options: argparse.Namespace, checkouts: dict[str, Path]) -> None:
    """Measure all checkouts in turns, and print the medians and their ratios."""
    kinds = [options.only] if options.only else ["litellm", "majority", "default", "packed"]
    results: dict[tuple[str, str], list[dict[str, float]]] = {}
    with scripted_models() as address, postgres() if options.postgres else nullcontext() as server:
        for _ in range(options.repeat):
            for kind in kinds:
                for name, checkout in checkouts.items():
                    if kind == "litellm" and name != "here":
                        continue
                    database = None if server is None or kind == "litellm" else server.new_url()
                    found = measured(checkout, kind, address, options, database)
                    results.setdefault((kind, name), []).append(found)
    for (kind, name), found in results.items():
        middle = {key: statistics.median(each[key] for each in found) for key in found[0]}
        line = ", ".join(f"{key} {value:.2f}" for key, value in middle.items())
        print(f"{kind:9} {name:7} {1e3 / middle['ms']:6.0f} tasks/s of one core; {line}")
    for kind in kinds:
        if (kind, "beside") in results:
            pairs = zip(results[kind, "here"], results[kind, "beside"], strict=True)
            ratios = [here["ms"] / beside["ms"] for here, beside in pairs]
            each = " ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"{kind:9} here / beside, in pairs: {each}")


@contextmanager
def postgres() -> Iterator[Any]:
    """A PostgreSQL server from the wheel."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
    from postgres import Postgres

    with tempfile.TemporaryDirectory(prefix="camvo-pg-") as folder, Postgres(Path(folder)) as server:
        yield server


if __name__ == "__main__":
    main()
