"""The paper's δ × k_min tables on a real table of votes.

    python benchmarks/paper/real_votes.py VOTES.csv OUT/ [--embeddings FILE.npy] [--shuffles 20] [--jobs 2]

Runs ``camvo replay`` for the paper's two sets of hyperparameters, label-free and with 5% human labels, for
CCaMVo, and item by item instead of in windows of 64; one JSON file each in OUT, which ``tables.py`` turns
into the tables of docs/results.md. A file that is there already is not computed again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

DELTAS = "0.99,0.97,0.95,0.9,0.8"
SETS = {
    "mild": ["--alpha", "0.25", "--lambda-r", "1"],
    "strong": ["--alpha", "0.7", "--lambda-r", "5"],
}
HUMAN = {"votes": "0", "human": "0.05"}
ALL_POLICIES = ["--policy", "camvo", "--policy", "baseline", "--policy", "majority"]


def experiments(shuffles: int) -> dict[str, list[str]]:
    """Name of the file → options of ``camvo replay``."""
    every = ["--shuffles", str(shuffles)]
    found = {
        f"{name}-{labels}": [*ALL_POLICIES, *options, "--human-labels", share, *every]
        for labels, share in HUMAN.items()
        for name, options in SETS.items()
    }
    found["ccamvo"] = ["--policy", "ccamvo", *SETS["mild"], *every]
    found["one-by-one"] = ["--policy", "camvo", *SETS["mild"], *every, "--window", "1", "--delta", "0.97"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("votes", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--shuffles", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name, options in experiments(given.shuffles).items():
        target = given.out / f"{given.votes.stem}-{name}.json"
        if target.exists():
            continue
        command = [sys.executable, "-m", "backend.cli", "replay", str(given.votes), "--window", "64"]
        command += ["--delta", DELTAS, "--k-min", "1,3", "--n0", "1", "--jobs", str(given.jobs)]
        if given.embeddings:
            command += ["--embeddings", str(given.embeddings)]
        subprocess.run([*command, *options, "--json", str(target)], check=True)


if __name__ == "__main__":
    main()
