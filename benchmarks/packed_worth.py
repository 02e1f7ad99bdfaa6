"""Show that the joint policy learns what a packed arm is worth: made-up votes, no real model.

    python benchmarks/packed_worth.py [--items 3000] [--draws 3]

Three models label items in five classes, all in packs at a fifth of their prices. One packed arm says what
its model says, except on some items, where its vote is drawn at random: that is what packing costs it. The
table shows, for several such shares, what is asked after the first 600 items, what a label then costs beside
the same policy without packing, and how many labels are right.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from camvo.policies.joint import Joint
from camvo.replays.replay import VotesTable, replay
from camvo.twins import packed_arm

sys.path.append(str(Path(__file__).parent / "labels_per_dollar"))
from synthetic_votes import SyntheticModel, draw_votes_table

MODELS = {
    "large": SyntheticModel(0.88, 10.0),
    "middle": SyntheticModel(0.82, 3.0),
    "small": SyntheticModel(0.75, 1.0),
}
LABELS = tuple("abcde")
SPOILT = (0.0, 0.1, 0.3, 0.6)
_PACK, _CHEAPER, _BEGIN = 20, 5.0, 600
_SPOILT_ARM = "large"


def packed(table: VotesTable, spoilt: float, seed: int) -> VotesTable:
    """The table with packed arms, one of which votes at random on some items."""
    rng = np.random.default_rng(seed)
    votes = table.votes.copy()
    column = [*table.prices].index(_SPOILT_ARM)
    at_random = rng.random(len(votes)) < spoilt
    votes[at_random, column] = rng.integers(len(LABELS), size=int(at_random.sum()))
    prices = {packed_arm(name, _PACK): price / _CHEAPER for name, price in table.prices.items()}
    return replace(table, prices=prices, votes=votes)


def measure(table: VotesTable) -> tuple[float, ...]:
    """The share of right labels, the mean cost, and how often each arm is asked, late in a run."""
    trace = replay(Joint(), table)
    late = slice(_BEGIN, None)
    right = float((trace.labels[late] == table.truth[late]).mean())
    return right, float(trace.costs[late].mean()), *trace.asked[late].mean(axis=0).tolist()


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=3000)
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args()
    names = " | ".join(f"asks {name}" for name in MODELS)
    print(f"| votes of {_SPOILT_ARM} drawn at random | right | cost beside no packing | {names} |")
    print("|---|---|---|" + "---|" * len(MODELS))
    tables = [
        draw_votes_table(MODELS, items=options.items, labels=LABELS, seed=seed, skill_spread=0.0)
        for seed in range(options.draws)
    ]
    alone = np.mean([measure(table) for table in tables], axis=0)
    rows = [("no packing", alone)]
    for spoilt in SPOILT:
        draws = [measure(packed(table, spoilt, seed)) for seed, table in enumerate(tables)]
        rows.append((f"{spoilt:.0%}", np.mean(draws, axis=0)))
    for name, (right, cost, *asked) in rows:
        shares = " | ".join(f"{share:.0%}" for share in asked)
        print(f"| {name} | {right:.1%} | {cost / alone[1]:.0%} | {shares} |")


if __name__ == "__main__":
    main()
