"""Print the tables of benchmarks/RESULTS.md from the files that ``real_votes.py`` wrote.

    python benchmarks/paper/tables.py OUT/

Prints Markdown: for each table of votes the results of each δ and k_min, as means over the shuffles with 95%
intervals of the mean.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

TITLES = {
    "mild-votes": "α = 0.25, λ_R = 1, label-free",
    "mild-human": "α = 0.25, λ_R = 1, 5% human labels",
    "strong-votes": "α = 0.7, λ_R = 5, label-free",
    "strong-human": "α = 0.7, λ_R = 5, 5% human labels",
    "ccamvo": "CCaMVo, α = 0.25, λ_R = 1, label-free",
    "one-by-one": "item by item instead of in windows of 64, α = 0.25, λ_R = 1, label-free",
}
COLUMNS = {
    "right": ("accuracy", 100.0, 1),
    "of the full vote": ("relative_accuracy", 100.0, 1),
    "target met": ("target_met", 100.0, 0),
    "agrees with it": ("agreement", 100.0, 1),
    "cost of all": ("cost_share", 100.0, 1),
    "models": ("mean_subset", 1.0, 2),
    "ECE": ("ece", 1.0, 3),
}


def cell(summary: dict[str, Any], name: str, factor: float, digits: int) -> str:
    value, interval = summary["means"][name], summary["intervals"][name]
    if value is None:
        return "–"
    text = f"{value * factor:.{digits}f}"
    if interval is None or name == "target_met":
        return text
    half = (interval[1] - interval[0]) / 2 * factor
    return f"{text} ± {half:.{digits}f}" if half >= 0.5 * 10.0**-digits else text


def table(stored: dict[str, Any]) -> str:
    heads = ["policy", "δ", "k_min", *COLUMNS]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for summary in stored["means"]:
        first = [
            summary["policy"],
            *("–" if summary[k] is None else f"{summary[k]:g}" for k in ("delta", "k_min")),
        ]
        cells = [cell(summary, *column) for column in COLUMNS.values()]
        lines.append("| " + " | ".join([*first, *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    for name in dict.fromkeys(path.stem.split("-")[0] for path in sorted(out.glob("*.json"))):
        for kind, title in TITLES.items():
            path = out / f"{name}-{kind}.json"
            if path.exists():
                stored = json.loads(path.read_text())
                shuffles = stored["table"]["options"]["shuffles"]
                print(f"**{name}**: {title}; {shuffles} shuffles\n\n{table(stored)}\n")


if __name__ == "__main__":
    main()
