"""Whether the first rounds can lock in a belief in the wrong models.

    python benchmarks/promises/bad_start.py [--projects 20] [--tasks 3000]

Four services label reviews with two labels. Two are right in 89 to 90% of the cases. The other two are right
in 63 to 71%, share their errors and lean to one label. What is learnt from agreement alone can follow either
pair.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import ndtri

from camvo.policies.joint import Joint
from camvo.replays.replay import VotesTable, replay

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
    for leaning in LEANING:
        right, cost = [], []
        for seed in range(options.projects):
            table = drawn(leaning, seed, options.tasks)
            trace = replay(Joint(), table, window=64)
            right.append(100.0 * np.mean(trace.labels == table.truth))
            cost.append(trace.costs.mean() / sum(PRICES.values()))
        print(
            f"leaning {leaning}: {np.mean(right):.1f}% right [{min(right):.1f}] at {np.mean(cost):.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
