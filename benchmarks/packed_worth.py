"""Show that the joint policy learns what a packed arm is worth: made-up votes, no real model.

    python benchmarks/packed_worth.py [--items 3000] [--draws 3]

Three models label items in five classes. Each has a packed arm at a fifth of its price. A packed arm says
what its model says, except on some items, where its vote is drawn at random: that is what packing costs. The
table shows, for several such shares, which arms are asked after the first 1,000 items, what that costs beside the
same policy without packed arms, and how many labels are right.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from camvo.policies.joint import Joint
from camvo.replays.replay import replay
from camvo.replays.synthetic import SyntheticModel, draw_votes_table
from camvo.replays.votes_table import VotesTable
from camvo.twins.same_model import model_of, packed_arm

MODELS = {
    "large": SyntheticModel(0.88, 10.0),
    "middle": SyntheticModel(0.82, 3.0),
    "small": SyntheticModel(0.75, 1.0),
}
LABELS = tuple("abcde")
SPOILT = (0.0, 0.05, 0.2, 0.5)
_PACK, _CHEAPER, _BEGIN = 20, 5.0, 1000


def with_packed_arms(table: VotesTable, spoilt: float, seed: int) -> VotesTable:
    """The table with a packed arm of each model, whose votes are drawn at random on some items."""
    rng = np.random.default_rng(seed)
    random_votes = rng.integers(len(LABELS), size=table.votes.shape)
    packed = np.where(rng.random(table.votes.shape) < spoilt, random_votes, table.votes)
    cheaper = {packed_arm(name, _PACK): price / _CHEAPER for name, price in table.prices.items()}
    return replace(
        table, prices={**table.prices, **cheaper}, votes=np.concatenate((table.votes, packed), axis=1)
    )


def measure(table: VotesTable, prices: dict[str, float]) -> tuple[float, float, float]:
    """The share of right labels, the mean cost, and the share of the votes that are packed, late in a run."""
    trace = replay(Joint(), table)
    late = slice(_BEGIN, None)
    is_packed = np.array([model_of(name) in prices for name in table.prices])
    asked = trace.asked[late]
    return (
        float((trace.labels[late] == table.truth[late]).mean()),
        float(trace.costs[late].mean()),
        float(asked[:, is_packed].sum() / asked.sum()),
    )


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=3000)
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args()
    print("| spoilt by packing | right | cost beside no packing | packed votes among those asked for |")
    print("|---|---|---|---|")
    tables = [
        draw_votes_table(MODELS, items=options.items, labels=LABELS, seed=seed, skill_spread=0.0)
        for seed in range(options.draws)
    ]
    prices = {name: model.price for name, model in MODELS.items()}
    alone = np.mean([measure(table, prices) for table in tables], axis=0)
    print(f"| without packed arms | {alone[0]:.1%} | 100% | – |")
    for spoilt in SPOILT:
        packed = [measure(with_packed_arms(table, spoilt, seed), prices) for seed, table in enumerate(tables)]
        right, cost, share = np.mean(packed, axis=0)
        print(f"| {spoilt:.0%} | {right:.1%} | {cost / alone[1]:.0%} | {share:.0%} |")


if __name__ == "__main__":
    main()
