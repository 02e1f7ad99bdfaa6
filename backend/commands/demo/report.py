"""What the demo prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend.ledger import Ledger, events
from camvo.state.contribution import Contribution
from camvo.state.state import State

if TYPE_CHECKING:
    from backend.commands.demo.run import Labelled

_BEFORE_THE_TEXT = 27
"""Columns that mark, label and score of a prediction take."""


def opening(console: Console, delta: float) -> None:
    """What is going to happen; ``delta`` is what the demo's projects ask for."""
    console.rule("[bold]CaMVo demo")
    _paragraph(
        console,
        "A real server, 60 short texts in Label Studio's own JSON, and the embedded voters: small zero-shot",
        "models that need no key and no network. They are weak, and their prices are nominal.",
        f"The two projects ask for δ = {delta}, by extra_params as any project can, and so for the paper's",
        "policy: voters this weak do not reach its default in so few tasks.",
    )
    _paragraph(
        console,
        "Each task below: right or wrong by its gold label, the voted label, its score, the text; and the",
        "models that were asked.",
    )


def project_title(console: Console, title: str) -> None:
    """A heading for one project."""
    console.rule(f"[bold]{title}")


def predictions(console: Console, labelled: Sequence[Labelled]) -> None:
    """One line for each prediction, label, score and text; one for the models that were asked."""
    width = console.width - _BEFORE_THE_TEXT
    for one in labelled:
        mark = "[green]✓[/]" if one.round.label == one.item.gold else "[red]✗[/]"
        text = one.item.task["data"]["text"]
        short = text if len(text) <= width else text[: width - 1] + "…"
        _line(
            console,
            f"{mark} [bold]{escape(one.round.label):<18}[/] {one.prediction['score']:.2f}  {escape(short)}",
        )
        asked = sorted(one.round.votes)
        everyone = len(asked) == len(one.round.plan["arms"])
        names = f"all {len(asked)}" if everyone else f"{len(asked)}: {escape(', '.join(asked))}"
        _line(console, f"  [dim]asked {names}[/]")


def standing(ledger: Ledger, project: str) -> Mapping[str, tuple[int, float]]:
    """Model → number of rewards and their mean, from the sum over the ledger."""
    with ledger.read() as connection:
        stored = events.after(connection, project, 0)
    contributions = [Contribution.unpack(event.contribution) for event in stored]
    state = State(len(contributions[0].context))
    state.add(*contributions)
    return {arm: (state[arm].rewards, state[arm].mu or 0.0) for arm in state}


def human_answers(
    console: Console,
    answered: Sequence[Labelled],
    before: Mapping[str, tuple[int, float]],
    after: Mapping[str, tuple[int, float]],
) -> None:
    """What the human answers changed: each model's mean reward before and after."""
    wrong = sum(one.round.label != one.item.gold for one in answered)
    console.print()
    _paragraph(
        console,
        f"{len(answered)} human annotations came in by webhook, wrong predictions first, then the least",
        f"certain: in {wrong} of them the vote had been wrong. A human label replaces the voted one in",
        "the rewards of its round:",
    )
    table = Table(box=None, pad_edge=False)
    for name in ("model", "rounds", "mean reward before", "after"):
        table.add_column(name, justify="left" if name == "model" else "right")
    for arm in sorted(after):
        count, mean = after[arm]
        table.add_row(escape(arm), str(count), f"{before[arm][1]:.2f}", f"{mean:.2f}")
    console.print(table)
    console.print()


def summary(console: Console, labelled: Sequence[Labelled]) -> None:
    """Accuracy, the true cost share, and the calls of each model."""
    right = sum(one.round.label == one.item.gold for one in labelled)
    cost = sum(one.round.cost_usd for one in labelled)
    full = sum(one.round.full_cost_usd for one in labelled)
    calls = Counter(arm for one in labelled for arm in one.round.votes)
    share = f"{cost / full:.0%} of asking every model every time (${cost:.4f} of ${full:.4f}, nominal)"
    console.rule("[bold]summary")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row("accuracy", f"{right} of {len(labelled)} gold labels ({right / len(labelled):.0%})")
    table.add_row("cost", share)
    table.add_row(
        "calls", escape(", ".join(f"{model}\N{NO-BREAK SPACE}{n}" for model, n in sorted(calls.items())))
    )
    console.print(table)
    console.print()
    _paragraph(
        console,
        f"{len(labelled)} tasks are too few to have learnt much: the confidence bounds are still wide, and",
        "often every model is asked. The scores allow for errors that the voters share, as far as votes show",
        "them; human labels would show the rest.",
    )


def serving(console: Console, url: str) -> None:
    """How to connect a Label Studio to the server that stays up."""
    console.rule("[bold]still serving")
    _paragraph(
        console,
        f"Connect a Label Studio to [bold]{url}[/] under the title [bold]camvo[/] (see README.md).",
        "The ledger is temporary. Ctrl-C stops the server.",
    )


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def _paragraph(console: Console, *sentences: str) -> None:
    console.print(" ".join(sentences), highlight=False)
    console.print()
