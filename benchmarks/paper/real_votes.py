"""Compute the paper's δ × k_min tables on a real table of votes.

    python benchmarks/paper/real_votes.py VOTES.csv OUT/ [--embeddings FILE.npy] [--shuffles 20] [--jobs 2]

Runs ``camvo replay`` for the paper's two sets of hyperparameters, label-free and with 5% human labels, for
CCaMVo, and item by item instead of in windows of 64; one JSON file each in OUT, which ``tables.py`` turns
into the tables of benchmarks/RESULTS.md. A file that exists is not computed again.
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
    """The experiments: name of the file → options of ``camvo replay``."""
    every = ["--shuffles", str(shuffles)]
    options = {
        f"{name}-{labels}": [*ALL_POLICIES, *parameters, "--human-labels", share, *every]
        for labels, share in HUMAN.items()
        for name, parameters in SETS.items()
    }
    options["ccamvo"] = ["--policy", "ccamvo", *SETS["mild"], *every]
    options["one-by-one"] = ["--policy", "camvo", *SETS["mild"], *every, "--window", "1", "--delta", "0.97"]
    return options


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("votes", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--shuffles", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name, options in experiments(chosen.shuffles).items():
        target = chosen.out / f"{chosen.votes.stem}-{name}.json"
        if target.exists():
            continue
        command = [sys.executable, "-m", "backend.cli", "replay", str(chosen.votes), "--window", "64"]
        command += ["--delta", DELTAS, "--k-min", "1,3", "--n0", "1", "--jobs", str(chosen.jobs)]
        if chosen.embeddings:
            command += ["--embeddings", str(chosen.embeddings)]
        subprocess.run([*command, *options, "--json", str(target)], check=True)


if __name__ == "__main__":
    main()
