"""Draw ``frontier.svg`` from the table "Side by side" of ``benchmarks/RESULTS.md``.

    python docs/images/frontier.py

Needs matplotlib (the extra ``server``).
"""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

FOLDER = Path(__file__).parent
TITLES = ("mmlu: 14,014 items, 4 labels", "policy: 6,980 items, 22 labels")
SERIES = {
    "joint, worth 15": ("CaMVo's default, worth 5, 10, 15, 20", "#1b6ca8", "o"),
    "joint, agreement 0.99": ("… with an agreement of 0.97, 0.99, 1", "#3a9a76", "D"),
    "CaMVo, k_min = 3, δ = 0.97": ("paper's policy", "#6b6b6b", "s"),
    "cascade, score ≥ 0.999": ("cascade", "#b8860b", "^"),
    "random 35% of the models": ("random models", "#8e6bbf", "x"),
}


class Point(NamedTuple):
    """Points above the full vote and cost in percent, each with half the width of its interval."""

    cost: float
    cost_error: float
    points: float
    points_error: float


def interval(cell: str) -> tuple[float, float]:
    """Split ``+0.61 ± 0.08`` into its mean and its half width."""
    mean, _, half = cell.replace("−", "-").partition("±")
    return float(mean), float(half or 0)


def read_table() -> str:
    """Read the Markdown of the table "Side by side"."""
    text = (FOLDER.parents[1] / "benchmarks" / "RESULTS.md").read_text("utf-8")
    return text.split("### Side by side")[1].split("\nThe rivals:")[0]


def digest(table: str) -> str:
    """Identify the table that a chart was drawn from."""
    return f"table {sha256(table.encode()).hexdigest()[:16]}"


def read_series(table: str) -> dict[str, tuple[list[Point], list[Point]]]:
    """Read the points of both vote tables for each series of :data:`SERIES`, by its first row's name."""
    series: dict[str, tuple[list[Point], list[Point]]] = {}
    prefix = name = ""
    for line in re.findall(r"^\| (.*) \|$", table, re.MULTILINE)[1:]:
        row, *cells = (cell.strip().replace("`", "") for cell in line.split("|"))
        if row.startswith("*"):
            prefix = "with labels: " if "labels" in row else "truth: "
            continue
        if not row.startswith("…"):
            name = prefix + row
        if name not in SERIES:
            continue
        both = series.setdefault(name, ([], []))
        for points, cells_of_table in zip(both, (cells[:3], cells[3:]), strict=True):
            if len(cells_of_table) == 3 and cells_of_table[0]:
                points.append(Point(*interval(cells_of_table[1]), *interval(cells_of_table[0])))
    return series


def draw_series(axes: Axes, name: str, points: list[Point]) -> None:
    """Draw one policy: its points with intervals, joined in the order of their cost."""
    label, colour, marker = SERIES[name]
    ordered = sorted(points)
    axes.errorbar(
        [point.cost for point in ordered],
        [point.points for point in ordered],
        xerr=[point.cost_error for point in ordered],
        yerr=[point.points_error for point in ordered],
        color=colour, marker=marker, markersize=5, linewidth=1.2, elinewidth=0.8, label=label,
    )  # fmt: skip


def main() -> None:
    """Write ``frontier.svg`` beside this file."""
    mpl.rcParams.update({"svg.hashsalt": "camvo", "svg.fonttype": "none", "font.size": 9})
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    table = read_table()
    series = read_series(table)
    for index, (axes, title) in enumerate(zip(panels, TITLES, strict=True)):
        for name, both in series.items():
            draw_series(axes, name, both[index])
        axes.axhline(0, color="black", linewidth=0.8)
        axes.plot(100, 0, "*", color="black", markersize=11)
        axes.annotate("full vote", (100, 0), (-4, -13), textcoords="offset points", ha="right")
        axes.set(title=title, xlabel="cost, % of asking all seven models", xlim=(0, 104), ylim=(-5.2, 1.8))
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy, points above the full vote")
    panels[1].legend(loc="lower right", frameon=False)
    figure.savefig(FOLDER / "frontier.svg", metadata={"Date": None, "Description": digest(table)})


if __name__ == "__main__":
    main()
