"""The output of ``camvo review``, as a table and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend import settings
from backend.commands.review.pricing import load_pricing
from backend.commands.review.review_list import ReviewList, SuggestedTask, review_list
from backend.commands.stored_projects import existing_ledger, stored_project
from backend.server.status.formats import dollars, of
from backend.settings import Environment


def load_review_list(environment: Environment, project: str, limit: int) -> ReviewList:
    """Load one project's review list from the ledger.

    Args:
        environment: has the ledger's address.
        project: the project's key, or its number in Label Studio.
        limit: the most tasks to suggest.

    Raises:
        ConfigError: the ledger has no such project, or labels have a price and right ones no worth.
        LedgerError: the ledger cannot be read.
    """
    with existing_ledger(environment) as ledger:
        with ledger.read() as connection:
            key = stored_project(connection, project).key
        pricing = load_pricing(ledger, key, settings.load(environment.config))
        with ledger.read() as connection:
            return review_list(connection, stored_project(connection, key), limit, pricing)


def print_review_list(console: Console, review: ReviewList, *, as_json: bool) -> None:
    """Print the suggested tasks, the best first."""
    if as_json:
        tasks = [dataclasses.asdict(suggested) | {"why": suggested.why} for suggested in review.tasks]
        console.out(json.dumps(dataclasses.asdict(review) | {"tasks": tasks}, indent=2), highlight=False)
        return
    if review.tasks:
        console.print(_table(review.tasks))
    console.print(f"{review.open} tasks have a prediction and no annotation.", highlight=False)
    for line in _about_prices(review):
        console.print(line, highlight=False, soft_wrap=True)
    if review.blind:
        line = f"{review.blind} more are blind for the audit. Label them in this order: "
        console.print(line + ", ".join(map(str, review.blind_next)), highlight=False)


def _about_prices(review: ReviewList) -> Iterator[str]:
    """Say how many labels are worth their price, and where models bring more for the same money."""
    if review.label_usd is None or review.worth_usd is None:
        return
    prices = f"A label costs {dollars(review.label_usd)}, a right one is worth {dollars(review.worth_usd)}."
    if review.worthwhile:
        yield f"{prices} Labels of {of(review.worthwhile, 'task')} are worth their price."
    else:
        yield f"{prices} No other label is worth its price."
    if review.models_first:
        command = f"camvo predict --project {review.project.partition('.')[0]} --recount --ask-more USD"
        where = f"On {of(review.models_first, 'task')} a dollar brings more"
        yield f"{where} if models are asked first: {command}"


def _table(tasks: tuple[SuggestedTask, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    priced = any(suggested.value_usd is not None for suggested in tasks)
    for name in ("task", "gain", *(["value"] if priced else []), "score"):
        table.add_column(name, justify="right")
    table.add_column("label", overflow="fold", max_width=30)
    table.add_column("why")
    for suggested in tasks:
        table.add_row(
            str(suggested.task),
            f"{suggested.gain:.2f}",
            *([dollars(suggested.value_usd or 0.0)] if priced else []),
            "\n".join(f"{answer.score:.2f}" for answer in suggested.answers),
            "\n".join(escape(answer.label or "–") for answer in suggested.answers),
            suggested.why,
        )
    return table
