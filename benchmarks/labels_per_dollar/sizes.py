"""Replay the default policy on projects of several sizes, from vote tables or made-up kinds, without labels.

    python benchmarks/labels_per_dollar/sizes.py [VOTES.csv …] [--kind WORD] [--items 300,600,1000,1500]
        [--shuffles 6] [--models 2]

A project has so many items, drawn from a table, or all that are drawn of a made-up kind of ``disasters.py``.
With ``--models`` it has so many of the table's models, drawn anew for each project.
Prints the percentage of right labels minus that of the vote of all weighted by true accuracies, and minus
that of the plain majority: the mean [the worst shuffle]; and the cost in percent of asking every model.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from comparison import table
from disasters import plain_votes
from made_up.disasters import KINDS
from made_up.drawing import Kind, drawn

from backend.commands.replay import inputs
from camvo.policies.joint import Joint
from camvo.replays.replay import VotesTable, replay

_WINDOW = 36
"""The tasks that are planned together: the server lets no more than the first rounds begin at once."""


def outcome(votes: VotesTable, worth: float) -> tuple[float, float, float]:
    """Points over the weighted vote and over the majority, and the cost, of one replay in order."""
    trace = replay(Joint(worth=worth), votes, window=_WINDOW, student=False)
    whole = sum(votes.prices.values()) * len(votes.truth)
    right = [100.0 * float((said == votes.truth).mean()) for said in (trace.labels, *plain_votes(votes))]
    return right[0] - right[2], right[0] - right[1], 100.0 * float(trace.costs.sum()) / whole


def projects(path: Path, items: int, shuffles: int, models: int | None) -> Iterator[VotesTable]:
    """Projects of that many items of a vote table that have a right label; contexts are noise."""
    file = inputs.VotesFile.read(path)
    prices = inputs.read_prices(None, file.models, path)
    known = np.flatnonzero(file.truth >= 0)
    for seed in range(shuffles):
        rng = np.random.default_rng([seed, items])
        order = rng.permutation(known)[:items]
        contexts = rng.normal(size=(len(order), 2))
        pool = np.sort(rng.permutation(len(file.models))[:models])
        of_pool = {file.models[model]: prices[file.models[model]] for model in pool}
        yield VotesTable(file.labels, of_pool, contexts, file.votes[order][:, pool], file.truth[order])


def made_up(kind: Kind, items: int, seeds: range) -> Iterator[VotesTable]:
    """Draw projects of a made-up kind."""
    for seed in seeds:
        yield drawn(kind, seed, items).table


def _line(name: str, items: int, tables: Iterator[VotesTable], worth: float) -> list[str]:
    weighted, majority, cost = np.array([outcome(votes, worth) for votes in tables]).T
    against = [f"{gap.mean():+.2f} [{gap.min():+.1f}]" for gap in (weighted, majority)]
    return [name, f"{items:,}", *against, f"{cost.mean():.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("votes", type=Path, nargs="*")
    parser.add_argument("--kind", help="made-up kinds whose name contains this")
    parser.add_argument("--items", default="300,600,1000,1500")
    parser.add_argument("--shuffles", type=int, default=6)
    parser.add_argument("--models", type=int)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first made-up draw")
    parser.add_argument("--worth", type=float, default=Joint().worth)
    given = parser.parse_args()
    kinds = [kind for kind in KINDS if given.kind is not None and given.kind in kind.name]
    heads = ["table", "items", "minus the weighted vote", "minus the majority", "cost, %"]
    lines = []
    for items in map(int, given.items.split(",")):
        tables = [(path.stem, projects(path, items, given.shuffles, given.models)) for path in given.votes]
        seeds = range(given.first, given.first + given.shuffles)
        tables += [(kind.name, made_up(kind, items, seeds)) for kind in kinds]
        lines += [_line(name, items, drawn_tables, given.worth) for name, drawn_tables in tables]
    print(table(heads, lines))


if __name__ == "__main__":
    main()
