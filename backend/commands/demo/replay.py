"""The demo's replay: a few thousand synthetic items, on which the server's default policy learns."""

from __future__ import annotations

import time
from itertools import pairwise

from rich.console import Console
from rich.table import Table

from backend.settings import PolicySettings
from backend.settings.policies import policy_in_force, policy_of
from camvo.policies.baselines import Baseline
from camvo.replays.replay import replay
from camvo.replays.synthetic import SyntheticModel, draw_votes_table

_ITEMS = 3000
_SEED = 7
_MODELS = {
    "opal": SyntheticModel(0.93, 15.0),
    "onyx": SyntheticModel(0.91, 10.0),
    "jade": SyntheticModel(0.91, 5.0),
    "ruby": SyntheticModel(0.89, 3.5),
    "topaz": SyntheticModel(0.87, 1.2),
    "amber": SyntheticModel(0.86, 0.9),
    "flint": SyntheticModel(0.80, 0.35),
}
_BARS = 24
_BOUNDS = (0, 25, 50, 100, 200, 400, 800, 1600, _ITEMS)


def show_replay(console: Console) -> None:
    """Replay the default policy and the full vote, and draw how the cost falls."""
    table = draw_votes_table(
        _MODELS, items=_ITEMS, labels=("World", "Sports", "Business", "Science"), seed=_SEED
    )
    settings = PolicySettings()
    started = time.perf_counter()
    trace = replay(policy_of(settings), table)
    seconds = time.perf_counter() - started
    full_vote = replay(Baseline(), table)

    console.rule("[bold]with more items: a synthetic replay")
    console.print(
        f"{_ITEMS} synthetic items, {len(_MODELS)} synthetic models (seed {_SEED}), the same policy:"
        f" {policy_in_force(settings)[0]}. No human label. {seconds:.1f}\N{NO-BREAK SPACE}s.\n",
        highlight=False,
    )
    chart = Table(box=None, pad_edge=False)
    for name in ("items", "cost of asking all", "", "accuracy"):
        chart.add_column(name, justify="left" if name == "" else "right", no_wrap=True)
    for start, end in pairwise(_BOUNDS):
        part = slice(start, end)
        share = float(trace.costs[part].mean()) / table.full_cost
        right = float((trace.labels[part] == table.truth[part]).mean())
        bar = f"[cyan]{'█' * round(share * _BARS):<{_BARS}}[/]"
        chart.add_row(f"{start + 1}–{end}", f"{share:.0%}", bar, f"{right:.1%}")
    console.print(chart)
    share = trace.costs.mean() / table.full_cost
    accuracy = float((trace.labels == table.truth).mean())
    full_accuracy = float((full_vote.labels == table.truth).mean())
    agreement = float((trace.labels == full_vote.labels).mean())
    console.print(
        f"\nCaMVo: [bold]{accuracy:.1%}[/] right at [bold]{share:.0%}[/] of the cost of asking every model"
        f" every time, which is {full_accuracy:.1%} right.",
        f"{agreement:.1%} of the labels are the same.",
        highlight=False,
    )
