"""The demo from beginning to end: :func:`run_demo`."""

from __future__ import annotations

import socket
import time

from rich.console import Console
from rich.table import Table

from backend.commands.demo.digits import DigitLabels, Digits, Estimate, Review, vote_on_digits
from backend.commands.demo.texts import LabelledTexts, label_texts, running_server

_REVIEWED = 20
"""Digits that "you" label."""


def run_demo(*, console: Console, serve: bool, port: int | None = None) -> None:
    """Run the demo.

    Args:
        console: where it prints.
        serve: whether the server runs on until Ctrl-C.
        port: the server's port; a free one by default.

    Raises:
        CamvoError: the server does not start.
    """
    started = time.monotonic()
    console.rule("[bold]1. A real server labels texts")
    _say(
        console,
        "Texts are sent as Label Studio sends them, to seven weak zero-shot classifiers that need no API key"
        " and no network.\n",
    )
    with console.status("starting the server (importing torch takes a while) …"):
        context = running_server(port or _free_port())
        server = context.__enter__()
    try:
        _print_texts(console, label_texts(console, server))
        _show_digits(console)
        _print_next_steps(console, time.monotonic() - started)
        if serve:
            console.rule("[bold]Still running")
            _say(
                console,
                f"What the server has learnt: [bold]{server.url}/status[/]\n"
                f"For Label Studio: the backend [bold]{server.url}[/] with the title [bold]camvo[/]\n"
                "Its ledger is temporary. Press Ctrl-C to stop it.",
            )
            server.process.wait()
    except KeyboardInterrupt:
        console.print("stopped")
    finally:
        context.__exit__(None, None, None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False)


def _print_texts(console: Console, labelled: LabelledTexts) -> None:
    bought = "all votes were" if labelled.calls == labelled.full else f"{labelled.calls} votes were"
    _say(
        console,
        f"…\n{labelled.right} of {labelled.texts} labels are right. Here {bought} bought: a project first"
        f" learns how its models vote. {labelled.annotations} human labels came back by webhook.\n",
    )


def _show_digits(console: Console) -> None:
    """Label the digits in three ways and review some, printing each result as soon as it is there."""
    console.rule("[bold]2. Real errors: handwritten digits")
    with console.status("training eight classifiers …"):
        digits = vote_on_digits()
    studied = sorted(each.images for each in digits.classifiers)
    _say(
        console,
        f"Eight classifiers studied {studied[0]} to {studied[-1]} of scikit-learn's digits, and vote on"
        f" {len(digits):,} others. Prices are nominal.\n",
    )
    _print_classifiers(console, digits)
    everyone = digits.ask_everyone()
    _print_outcome(console, "asking everyone", everyone, everyone)
    best = digits.best()
    alone = DigitLabels(best.right, best.price * len(digits))
    _print_outcome(console, "the best single one", alone, everyone, "unknown beforehand")
    with console.status("CaMVo asks, decides and learns …"):
        found = digits.ask_camvo()
    _print_outcome(console, "CaMVo", found, everyone, "no human label")
    with console.status("counting the votes again …"):
        review = digits.review(_REVIEWED)
    _print_review(console, review, found)


def _print_classifiers(console: Console, digits: Digits) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("classifier", "studied", "right", "$ per 1,000"):
        table.add_column(name, justify="left" if name == "classifier" else "right", no_wrap=True)
    for each in digits.classifiers:
        table.add_row(each.name, str(each.images), f"{each.right:.1%}", f"{1000 * each.price:.2f}")
    console.print(table)
    console.print()


def _print_outcome(
    console: Console, name: str, outcome: DigitLabels, everyone: DigitLabels, remark: str = ""
) -> None:
    cost, share = f"${outcome.cost:.2f}", outcome.cost / everyone.cost
    what = f"[bold]{name:<20}[/] {outcome.right:>6.1%} right  {cost:>6}  {share:>4.0%} of the cost"
    _say(console, f"{what}  [dim]{remark}[/]" if remark else what)


def _print_review(console: Console, review: Review, found: DigitLabels) -> None:
    flipped = "1 other label flipped" if review.changed == 1 else f"{review.changed} other labels flipped"
    rows = (
        f"lowest scores first: {review.corrected} were wrong",
        f"{flipped}: {review.mended} to right, {review.broken} to wrong",
        f"estimate of CaMVo's share of right labels: {_interval(review.before)},",
        f"now {_interval(review.after)} (95% intervals; in truth {found.right:.1%})",
    )
    _say(console, f"[bold]{f'you label {review.labelled}':<20}[/] {review.right:>6.1%} right  {rows[0]}")
    for row in rows[1:]:
        _say(console, f"{'':<20} {row}")
    console.print()


def _interval(estimate: Estimate) -> str:
    return f"{estimate.low:.0%} to {estimate.high:.0%}"


def _print_next_steps(console: Console, seconds: float) -> None:
    console.rule("[bold]Next")
    _say(
        console,
        "camvo demo --serve                   the same, and then shows /status\n"
        "camvo serve --config camvo.yaml      a server with your models, as in the README\n"
        "camvo connect --config camvo.yaml --project 1      your Label Studio project\n\n"
        f"Every number above was computed in these {seconds:.0f} seconds.",
    )
