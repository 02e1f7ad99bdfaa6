"""Whether the first rounds can lock weights in that are wrong, and what it costs to find out.

    python benchmarks/promises/bad_start.py [--projects 20] [--tasks 3000]

Four services label reviews with two labels. Two are right in 89 to 90% of the cases. The other two are right
in 63 to 71%, share their errors and lean to one label. Weights that are learnt from agreement can follow
either pair. "settled" asks all models until weights drawn again agree on the labels
(``camvo.weights.vote_weights.weights_are_settled``); "coin only" is the policy before it.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import ndtri

from camvo.policies.sequential import Sequential
from camvo.replays.replay import replay
from camvo.replays.votes_table import VotesTable
from camvo.weights import vote_weights

LEANING = (0.8, 1.0, 1.5)
PRICES = {"a": 10.0, "b": 8.0, "c": 3.0, "d": 1.0}


def drawn(leaning: float, seed: int, items: int) -> VotesTable:
    """A table of reviews. The two cheap services lean to the second label by ``leaning``."""
    rng = np.random.default_rng([seed, 99])
    truth = rng.integers(2, size=items)
    good, poor = 0.6 * rng.normal(size=items), rng.normal(size=items)

    def votes(accuracy: float, shift: float, shared: np.ndarray) -> np.ndarray:
        evidence = (2 * truth - 1) * ndtri(accuracy) * np.sqrt(2.0)
        return np.asarray(evidence + shift + shared + rng.normal(size=items) > 0).astype(np.int64)

    columns = [
        votes(0.86, 0.0, good),
        votes(0.84, 0.0, good),
        votes(0.74, leaning, poor),
        votes(0.72, leaning, poor),
    ]
    return VotesTable(("0", "1"), PRICES, rng.normal(size=(items, 2)), np.stack(columns, axis=1), truth)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--projects", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=3000)
    options = parser.parse_args()
    enough = {"coin only": 0, "settled": vote_weights.ENOUGH_ROUNDS}
    for leaning in LEANING:
        for name, vote_weights.ENOUGH_ROUNDS in enough.items():
            right, cost = [], []
            for seed in range(options.projects):
                table = drawn(leaning, seed, options.tasks)
                trace = replay(Sequential(), table, window=64)
                right.append(100.0 * np.mean(trace.labels == table.truth))
                cost.append(trace.costs.mean() / sum(PRICES.values()))
            print(
                f"leaning {leaning}: {name:9s} right {np.mean(right):.1f}% (worst {min(right):.1f}%)"
                f" at {np.mean(cost):.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
