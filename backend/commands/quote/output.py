"""A quote on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend.quotes.quote import Lever, ModelQuote, Quote, Range

_COLUMNS = ("in a prompt", "input tokens", "output tokens", "for all tasks", "hours", "asked about")

_NOTHING = ("", "1")
"""Cells that say nothing if all of a column say it."""


def print_quote(console: Console, quote: Quote) -> None:
    """Print a quote."""
    for line in lines(quote):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    if not quote.to_come:
        return
    console.print(_table(quote))


def _table(quote: Quote) -> Table:
    """What each model costs; columns that say nothing about any model are left out."""
    rows = {escape(name): _cells(model) for name, model in quote.models.items()}
    names = [name for name in _COLUMNS if any(cells[name] not in _NOTHING for cells in rows.values())]
    table = Table("model")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for model, cells in rows.items():
        table.add_row(model, *(cells[name] for name in names))
    return table


def lines(quote: Quote) -> Iterator[str]:
    """The quote as sentences."""
    done = quote.tasks - quote.to_come - quote.unreadable
    yield f"{quote.project}: {quote.tasks:,} tasks, {done:,} labelled, {quote.to_come:,} to come" + (
        f", {quote.unreadable:,} cannot be asked about" if quote.unreadable else ""
    )
    if quote.spent:
        yield f"spent so far: {dollars(quote.spent)}"
    if not quote.to_come:
        yield from target_lines(quote)
        return
    yield f"asking everyone: {money(quote.everyone)}{_why_a_range(quote)}"
    yield f"this policy ({quote.policy}): {money(quote.bill)}{_basis(quote)}"
    if quote.student and quote.evidence.rounds:
        yield "the student is not counted: where texts show their label, it makes the bill smaller"
    if quote.hours is not None:
        yield f"time at the configured limits: {hours(quote.hours)}"
    evidence = quote.evidence
    if evidence.agreement is not None:
        yield f"labels as everyone together gives them: {evidence.agreement:.1%}"
    if evidence.accuracy is not None and evidence.accuracy.likely is not None:
        right = evidence.accuracy
        yield (
            f"right labels: {right.likely:.1%}, from {right.low:.1%} to {right.high:.1%}, by"
            f" {evidence.labelled} human labels"
        )
    if quote.levers and not any(lever.on for lever in quote.levers):
        yield "batches and packing are set at some models only; each line below is about all models"
    for lever in quote.levers:
        yield (
            f"{_way(lever)}: everyone {dollars(lever.everyone)}, this policy about {dollars(lever.policy)}"
            + (" (as it is set)" if lever.on else "")
        )
    yield from target_lines(quote)


def target_lines(quote: Quote) -> Iterator[str]:
    """What reaches the target, as sentences; none without a target."""
    if quote.target is None:
        return
    right, mix = f"{quote.target.target:.1%}".replace(".0%", "%"), quote.target.mix
    if mix is None:
        yield f"{right} right: unknown: {quote.target.unknown}"
        return
    labels = dollars(mix.labels * mix.label_usd)
    yield (
        f"{right} right: {dollars(mix.models_usd)} for models and {mix.labels:,} human labels"
        f" ({labels}), {dollars(mix.usd)} in all; people alone {dollars(mix.people_alone_usd)}"
    )
    yield (
        f"{right} right with a probability of 95%: {mix.labels_sure:,} human labels,"
        f" {dollars(mix.usd_sure)} in all, as far as {quote.target.labelled:,} human labels so far can tell"
    )
    if mix.setting is not None:
        yield f"models ask as much as that with policy: {{{mix.setting}}}"


def _way(lever: Lever) -> str:
    pack = "off" if lever.pack is None else f"up to {lever.pack} tasks in a prompt"
    return f"batches {'on' if lever.batch else 'off'}, packing {pack}"


def dollars(usd: float) -> str:
    """An amount with two significant digits at least."""
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:.2g}"


def money(usd: Range) -> str:
    """A range of amounts."""
    low, high = dollars(usd.low), dollars(usd.high)
    if low == high:
        return low
    return f"{low} to {high}" if usd.likely is None else f"{dollars(usd.likely)}, from {low} to {high}"


def hours(time: Range) -> str:
    """A range of times."""
    likely, low, high = (f"{value:.2g}" for value in (time.middle, time.low, time.high))
    if low == high:
        return f"{low} h"
    return f"{low} to {high} h" if time.likely is None else f"{likely} h, from {low} to {high} h"


def _why_a_range(quote: Quote) -> str:
    unmeasured = [name for name, model in quote.models.items() if not model.measured]
    if not unmeasured or quote.everyone.low == quote.everyone.high:
        return ""
    return f" (the answers of {', '.join(unmeasured)} were never measured: up to max_tokens)"


def _basis(quote: Quote) -> str:
    if quote.evidence.rounds:
        return f" (95% interval, by {quote.evidence.rounds:,} rounds of this project that asked everyone)"
    if quote.bill.low == quote.bill.high or quote.bill.likely is not None:
        return ""
    return " (by what is documented of other projects; --pilot 200 narrows it)"


def _cells(model: ModelQuote) -> dict[str, str]:
    low, high = (_thousands(tokens) for tokens in (model.output_tokens.low, model.output_tokens.high))
    cells = [
        "1" if model.pack == 1 else f"up to {model.pack}",
        _thousands(model.input_tokens),
        low if low == high else f"{low} to {high}",
        money(model.usd),
        "" if model.hours is None else f"{model.hours:.2g}",
        "" if model.asked is None else f"{model.asked:.0%}",
    ]
    return dict(zip(_COLUMNS, cells, strict=True))


def _thousands(tokens: float) -> str:
    """Tokens in thousands, as ``1,197k``; below a thousand, the number itself."""
    return f"{tokens:,.0f}" if tokens < 1000.0 else f"{tokens / 1000.0:,.0f}k"
