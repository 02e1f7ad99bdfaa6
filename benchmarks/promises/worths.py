"""What a label that is worth more gains and costs: ``worth: {LABEL: TIMES × 10, default: 10}``.

    python benchmarks/promises/worths.py VOTES.csv … [--times 1 3 10 30] [--shuffles 3] [--share 0.03]
        [--one-against-rest] [--items 5000]

The label is the rarest with at least ``--share`` of the items; ``--one-against-rest`` merges all others. For
each worth: the label's recall and precision, the accuracy, the cost as a share of asking everyone, and the
mean loss of an item, where missing the label loses TIMES and any other error 1. "as before" decides and stops
as if all labels were worth the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from decided import first, one_against_rest, run
from scores import read, shuffled

from camvo.policies.joint import Joint
from camvo.policies.parameters import WORTH, ByLabel
from camvo.replays.replay import VotesTable


def rarest(table: VotesTable, share: float) -> int:
    """The position of the rarest label with at least a share of the known items."""
    truth = table.truth[table.truth >= 0]
    counts = np.bincount(truth, minlength=len(table.labels))
    counts[counts < share * len(truth)] = len(truth) + 1
    return int(counts.argmin())


def measured(table: VotesTable, label: int, times: float, *, by_label: bool) -> list[float]:
    """Recall, precision, accuracy, cost and mean loss, each in percent."""
    worth: float | ByLabel = WORTH
    if by_label:
        worth = ByLabel({table.labels[label]: WORTH * times, "default": WORTH})
    decided = run(Joint(worth=worth), table)
    known = table.truth >= 0
    truth, chosen = table.truth[known], decided.labels[known]
    is_, said = truth == label, chosen == label
    loss = np.where(chosen == truth, 0.0, np.where(is_, times, 1.0))
    rates = [
        said[is_].mean(),
        is_[said].mean() if said.any() else np.nan,
        (chosen == truth).mean(),
        decided.cost,
        loss.mean(),
    ]
    return [100.0 * float(rate) for rate in rates]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("votes", type=Path, nargs="+")
    parser.add_argument("--times", type=float, nargs="*", default=[1.0, 3.0, 10.0, 30.0])
    parser.add_argument("--shuffles", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.03)
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--one-against-rest", action="store_true")
    options = parser.parse_args()
    for path in options.votes:
        table = read(path)
        label = rarest(table, options.share)
        if options.one_against_rest:
            table, label = one_against_rest(table, label), 1
        share = 100.0 * float((table.truth == label).mean())
        print(f"{path.stem}, {len(table.labels)} labels, {table.labels[label]!r} is {share:.1f}%", flush=True)
        drawn = [first(shuffled(table, seed), options.items) for seed in range(options.shuffles)]
        for times in options.times:
            for by_label in (False, True) if times != 1.0 else (True,):
                found = np.mean([measured(each, label, times, by_label=by_label) for each in drawn], axis=0)
                words = ("recall", "precision", "right", "cost", "loss")
                row = ", ".join(f"{word} {rate:.1f}" for word, rate in zip(words, found, strict=True))
                print(f"  {times:4g} times, {'by label' if by_label else 'as before'}: {row}", flush=True)


if __name__ == "__main__":
    main()
