"""The output of the demo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend.commands.demo.labelled_text import LabelledText
from backend.ledger import Ledger, events
from camvo.state.contribution import Contribution
from camvo.state.state import State
from camvo.student.taught_texts import STUDENT

_BEFORE_THE_TEXT = 27
"""The width of a prediction's mark, label and score."""


def print_opening(console: Console) -> None:
    """Print what the demo does."""
    console.rule("[bold]CaMVo demo")
    _paragraph(
        console,
        "A real server labels 60 short texts, sent as Label Studio sends them. The models are the embedded",
        "voters: small zero-shot classifiers that need no API key and no network. They are weak, and their",
        "prices are nominal. All settings are the defaults.",
    )
    _paragraph(
        console,
        "For each text: whether the label is right, the label, its score, the text, and the models asked.",
    )


def print_project_title(console: Console, title: str) -> None:
    """Print the heading of one project."""
    console.rule(f"[bold]{title}")


def print_predictions(console: Console, labelled: Sequence[LabelledText]) -> None:
    """Print a line for each prediction, and a line for the models asked."""
    width = console.width - _BEFORE_THE_TEXT
    for result in labelled:
        label, score = escape(result.round.label), result.prediction["score"]
        mark = "[green]✓[/]" if result.right else "[red]✗[/]"
        text = result.text.task["data"]["text"]
        short = text if len(text) <= width else text[: width - 1] + "…"
        _line(console, f"{mark} [bold]{label:<18}[/] {score:.2f}  {escape(short)}")
        asked = sorted(result.round.votes.keys() - {STUDENT})
        everyone = len(asked) == len(result.round.plan["arms"].keys() - {STUDENT})
        names = f"all {len(asked)}" if everyone else f"{len(asked)}: {escape(', '.join(asked))}"
        _line(console, f"  [dim]asked {names}[/]")


def mean_rewards(ledger: Ledger, project: str) -> Mapping[str, tuple[int, float]]:
    """Return model → number of rewards and their mean, from the sum over the ledger."""
    with ledger.read() as connection:
        stored = events.after(connection, project, 0)
    contributions = [Contribution.unpack(event.contribution) for event in stored]
    state = State(len(contributions[0].context))
    state.add(*contributions)
    return {arm: (state[arm].rewards, state[arm].mu or 0.0) for arm in state}


def print_human_answers(
    console: Console,
    answered: Sequence[LabelledText],
    before: Mapping[str, tuple[int, float]],
    after: Mapping[str, tuple[int, float]],
) -> None:
    """Print what the human labels changed: each model's mean reward before and after."""
    wrong = sum(not result.right for result in answered)
    console.print()
    _paragraph(
        console,
        f"{len(answered)} annotations arrive by webhook: wrong predictions first, then the least certain.",
        f"{wrong} of them correct the vote. A human label replaces the voted one in its round's rewards:",
    )
    table = Table(box=None, pad_edge=False)
    for name in ("model", "rounds", "mean reward before", "after"):
        table.add_column(name, justify="left" if name == "model" else "right")
    for arm in sorted(after):
        count, mean = after[arm]
        table.add_row(escape(arm), str(count), f"{before[arm][1]:.2f}", f"{mean:.2f}")
    console.print(table)
    console.print()


def print_summary(console: Console, labelled: Sequence[LabelledText]) -> None:
    """Print the accuracy, the cost share, and the calls of each model."""
    right = sum(result.right for result in labelled)
    cost = sum(result.round.cost_usd for result in labelled)
    full = sum(result.round.full_cost_usd for result in labelled)
    calls = Counter(arm for result in labelled for arm in result.round.votes if arm != STUDENT)
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
        f"{len(labelled)} tasks are too few to learn much: the first tasks of a project ask every model,",
        "or nearly every one. It learns more below.",
    )


def print_serving(console: Console, url: str) -> None:
    """Print how to connect Label Studio to the running server."""
    console.rule("[bold]still running")
    _paragraph(
        console,
        f"Connect Label Studio to [bold]{url}[/] with the title [bold]camvo[/] (see README.md).",
        "The ledger is temporary. Press Ctrl-C to stop the server.",
    )


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def _paragraph(console: Console, *sentences: str) -> None:
    console.print(" ".join(sentences), highlight=False)
    console.print()
