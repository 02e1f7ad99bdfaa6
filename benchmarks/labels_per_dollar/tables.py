"""Print the tables of benchmarks/RESULTS.md from the files that ``run.py`` wrote.

    python benchmarks/labels_per_dollar/tables.py OUT/

Prints Markdown. Points are the percentage of right labels minus that of the full vote (all models, weighted
by their true accuracy); ± is half the 95% interval of the mean over shuffles.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from comparison import (
    AGREEING,
    LABEL_FREE,
    OURS,
    RIVALS,
    TAUGHT,
    Rows,
    cells,
    column,
    compared,
    spread,
    table,
)


def bounds(facts: Mapping[str, Any], rows: Rows) -> list[list[str]]:
    """Return the lines of the clairvoyant's bounds, and of the best fixed set within the cost of each row."""
    lines = []
    right, same = facts["clairvoyant"]["truth"], facts["clairvoyant"]["full vote"]
    gain = 100.0 * (right["reached"] - facts["full_accuracy"])
    lines.append(["clairvoyant: first right prefix", f"{gain:+.2f}", f"{100 * right['cost_share']:.1f}"])
    lines.append(
        ["clairvoyant: first with the full vote's label", "+0.00", f"{100 * same['cost_share']:.1f}"]
    )
    for ours in OURS:
        if ours in rows:
            share = column(rows[ours], "cost_share").mean()
            best = max(
                (fixed for fixed in facts["fixed_sets"] if fixed["cost_share"] <= share),
                key=lambda fixed: fixed["points"],
            )
            lines.append(
                [
                    f"best fixed set within the cost of {ours}: {best['models']} models",
                    f"{best['points']:+.2f}",
                    f"{100 * best['cost_share']:.1f}",
                ]
            )
    return [[*line, "–", "–", "–"] for line in lines]


def real(name: str, stored: Mapping[str, Any]) -> None:
    rows = stored["rows"]
    full = 100.0 * stored["full_accuracy"]
    shuffles = max(len(records) for records in rows.values())
    print(f"**{name}**: the full vote is right in {full:.2f}%; {shuffles} shuffles\n")
    heads = ["", "points", "% of the cost", "ECE of its score", "shown, no labels", "shown, 500 labels"]
    lines = [[label, *cells(records)] for label, records in rows.items()]
    print(table(heads, [*lines, *bounds(stored, rows)]))
    heads = ["over the shuffles", "points: low", "half", "high", "% of the cost: low", "half", "high"]
    print(table(heads, [[label, *spread(records)] for label, records in rows.items()]))
    ours = [label for label in OURS if label in rows]
    print(
        table(["at equal cost, minus", *ours], [[r, *(compared(rows, o, r) for o in ours)] for r in RIVALS])
    )


def small(name: str, rows: Rows) -> None:
    shuffles = max(len(records) for records in rows.values())
    print(f"**{name}**, the first 300 items alone; {shuffles} shuffles\n")
    print(
        table(
            ["", "points", "% of the cost", "ECE of its score", "shown"],
            [[k, *cells(v)[:4]] for k, v in rows.items()],
        )
    )
    ours = LABEL_FREE
    for dimension in dict.fromkeys(label.split("d ")[1] for label in rows if ", d " in label):
        narrow = {
            label: v for label, v in rows.items() if label == ours or label.endswith(f", d {dimension}")
        }
        difference = compared(narrow, ours, "CaMVo, k_min 3")
        print(f"joint minus CaMVo at equal cost, d = {dimension}: {difference}\n")


def made_up(stored: Sequence[Mapping[str, Any]]) -> None:
    lines = []
    for content in stored:
        rows = content["rows"]
        names = (LABEL_FREE, TAUGHT, AGREEING, "camvo 0.97, k_min 3")
        reached = [" at ".join(cells(rows[label])[:2]) if label in rows else "–" for label in names]
        errors = cells(rows[names[0]])[3:] if names[0] in rows else ["–", "–"]
        what = f"{content['name']}; {content['labels']} labels, {content['items']:,} items"
        lines.append(
            [
                what,
                f"{content['correlation']:.2f}",
                *reached,
                compared(rows, names[0], "CaMVo, k_min 3"),
                *errors,
            ]
        )
    heads = [
        "table",
        "correlation",
        "joint 15",
        "with 5% labels",
        "agreement 0.99",
        "CaMVo 0.97",
        "joint − CaMVo",
    ]
    print(table([*heads, "ECE shown", "with 500 labels"], lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    for path in sorted(out.glob("*-whole.json")):
        real(path.stem.removesuffix("-whole"), json.loads(path.read_text()))
    for path in sorted(out.glob("*-small.json")):
        small(path.stem.removesuffix("-small"), json.loads(path.read_text())["rows"])
    made_up([json.loads(path.read_text()) for path in sorted(out.glob("made-up-*.json"))])


if __name__ == "__main__":
    main()
