"""Measure how often the quote after a pilot holds the bill, and how wide its interval is.

    OMP_NUM_THREADS=1 python benchmarks/quotes.py VOTES.csv … [--runs 20] [--tasks 5000] [--out FILE]

Each run draws a job from a table, asks everyone about the pilot, and forecasts the rest. Then the rest is
replayed with its real votes: free, and keeping to the upper end of the forecast, as ``camvo label`` does.
With --exact the free bill is that of :func:`camvo.replays.replay`, which takes minutes. One JSON line for
each run goes to --out; a run that is in it is not computed again. DRIFT in ``camvo/quotes.py`` is
from it.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from backend.commands.replay import inputs
from camvo.joint.votes import renumber
from camvo.numerics.small import clopper_pearson
from camvo.policies.ensemble import Choice, Situation
from camvo.policies.joint import Joint
from camvo.policies.policy import Plan
from camvo.quotes import JointProject, KnownVotes, forecast
from camvo.replays.replay import VotesTable, replay
from camvo.typing import Array

WINDOW = 50


@dataclass(frozen=True, kw_only=True)
class Piloted(Joint):
    """The joint policy after a pilot that asks everyone about the first tasks."""

    pilot: int = 200

    def assemble(self, situation: Situation, choice: Choice) -> Plan:
        conditions = replace(situation.conditions, everyone=situation.rounds < self.pilot)
        return super().assemble(replace(situation, conditions=conditions), choice)


def votes_of(path: Path) -> KnownVotes:
    """All votes of a table."""
    table = inputs.VotesFile.read(path)
    costs = inputs.read_prices(None, table.models, path)
    arms, labels = sorted(costs), sorted(table.labels)
    position = np.array([labels.index(label) for label in table.labels] + [-1])
    columns = [list(table.models).index(arm) for arm in arms]
    return KnownVotes(
        tuple(labels),
        tuple(arms),
        np.array([costs[arm] for arm in arms]),
        position[table.votes[:, columns]],
    )


def some(votes: KnownVotes, rows: Array) -> KnownVotes:
    return KnownVotes(votes.labels, votes.arms, votes.prices, votes.rows[rows])


def run(votes: KnownVotes, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """One job: its forecast, and what it costs."""
    worth, rng = Joint().worth, np.random.default_rng([seed, given.tasks])
    order = rng.permutation(len(votes.rows))[: given.tasks]
    known, rest = some(votes, order[: given.pilot]), some(votes, order[given.pilot :])
    said = forecast(known, len(rest.rows), worth, rng, replays=given.replays)
    rows = rest.rows if len(votes.labels) == 2 else renumber(rest.rows)
    if given.exact:
        free = exact(some(votes, order), worth, given.pilot)
    else:
        free = JointProject(known, rows, worth, rng, growth=1.2).run().share
    kept = JointProject(known, rows, worth, rng, aim=said.high * len(rows), growth=1.2).run().share
    ends = {"low": said.low, "likely": said.likely, "high": said.high, "free_high": said.free}
    return {"seed": seed, "tasks": len(order), "free": free, "kept": kept, **ends}


def exact(votes: KnownVotes, worth: float, pilot: int) -> float:
    """What the policy itself costs after the pilot; contexts too small to teach anything."""
    tasks = len(votes.rows)
    contexts = np.random.default_rng(0).normal(size=(tasks, 1)) * 1e-9
    costs = dict(zip(votes.arms, votes.prices.tolist(), strict=True))
    table = VotesTable(votes.labels, costs, contexts, votes.rows, np.full(tasks, -1))
    trace = replay(Piloted(worth=worth, pilot=pilot), table, window=WINDOW)
    return float(trace.costs[pilot:].mean() / votes.prices.sum())


def summary(name: str, runs: list[dict[str, Any]]) -> str:
    def share(inside: list[bool]) -> str:
        low, high = clopper_pearson(sum(inside), len(inside))
        return f"{sum(inside)} of {len(inside)} ({low:.0%} to {high:.0%})"

    # A plan keeps to its aim on average, so that a bill may end a hair above it.
    kept = share([one["low"] <= one["kept"] <= 1.005 * one["high"] for one in runs])
    free = share([one["low"] <= one["free"] <= one["free_high"] for one in runs])
    held = share([one["free"] > one["high"] for one in runs])
    wide = max((one["high"] - one["low"]) / (one["high"] + one["low"]) for one in runs)
    drift = np.log([one["free"] / one["likely"] for one in runs])
    return (
        f"{name}: kept bill in the interval {kept}; free bill in the free interval {free}; held back {held};"
        f" at most ±{wide:.1%}; log of free over likely {drift.mean():+.3f} ± {drift.std(ddof=1):.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("votes", type=Path, nargs="+")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--pilot", type=int, default=200)
    parser.add_argument("--replays", type=int, default=12)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("quotes.jsonl"))
    given = parser.parse_args()
    stored = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for seed in range(given.runs):
        for path in given.votes:
            found = [one for one in stored if (one["table"], one["seed"]) == (path.stem, seed)]
            one = found[0] if found else {"table": path.stem, **run(votes_of(path), seed, given)}
            if not found:
                with given.out.open("a") as file:
                    file.write(json.dumps(one) + "\n")
            runs[path.stem].append(one)
    for name, some_runs in runs.items():
        print(summary(name, some_runs))
    print(summary("all", [one for some_runs in runs.values() for one in some_runs]))


if __name__ == "__main__":
    main()
