"""What the vote and people made of the same tasks."""

from __future__ import annotations

from matplotlib.colors import to_rgba

from backend.charts.style import COLOURS, INK, Picture, new_figure, short
from backend.server.status.drawings.drawing import SIZE
from backend.server.status.parts.labels import ConfusionCount


def confusion(cells: tuple[ConfusionCount, ...]) -> Picture:
    """Draw how often each pair of voted and human label came up, as shares of the human label."""
    names = sorted({name for cell in cells for name in (cell.vote, cell.human)})
    of_human = {name: sum(cell.count for cell in cells if cell.human == name) for name in names}
    size = len(names)
    figure = new_figure(SIZE[0], max(SIZE[1], 1.0 + 0.3 * size))
    axes = figure.add_subplot()
    for cell in cells:
        row, column = names.index(cell.human), names.index(cell.vote)
        colour = COLOURS[2] if row == column else COLOURS[1]
        share = cell.count / of_human[cell.human]
        axes.barh([row], [1.0], left=[column - 0.5], height=1.0, color=to_rgba(colour, 0.12 + 0.6 * share))
        axes.text(column, row, f"{cell.count:,}", ha="center", va="center", fontsize=9, color=INK)
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), xlabel="vote", ylabel="people")
    axes.set_xticks(
        range(size),
        [short(name, 12) for name in names],
        rotation=0 if size < 4 else 40,
        ha="center" if size < 4 else "right",
    )
    axes.set_yticks(range(size), [short(name, 14) for name in names])
    axes.grid(visible=False)
    axes.tick_params(length=0)
    right = sum(cell.count for cell in cells if cell.vote == cell.human)
    total = sum(cell.count for cell in cells)
    caption = (f"Vote and people agree on {right:,} of {total:,} labels: the diagonal.",)
    alt = f"Table of voted labels against human labels; {right:,} of {total:,} agree."
    return Picture("confusion", "Vote and people", figure, alt, caption)
