"""The output of ``camvo review``, as a table and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend import settings
from backend.commands.connect import tabs
from backend.commands.review.review_list import (
    DisputedTask,
    ReviewList,
    SuggestedTask,
    disputed_tasks,
    load_pricing,
    review_list,
)
from backend.commands.shared.setup import existing_ledger, stored_project
from backend.label_studio import payloads
from backend.label_studio.client import Client
from backend.server.status.report import dollars, of
from backend.settings import Environment


def show_disputed(
    console: Console,
    environment: Environment,
    client: Client | None,
    number: int,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Print a project's disputed tasks, and show them in a tab if there is a client of Label Studio."""
    key = str(number) if client is None else payloads.project_key(client.project(number))
    with existing_ledger(environment) as ledger, ledger.read() as connection:
        tasks = disputed_tasks(connection, stored_project(connection, key).key, limit)
    _print(console, tasks, as_json=as_json)
    if client is not None:
        unique = list(dict.fromkeys(disputed.task for disputed in tasks))
        address = tabs.show_in_tab(client, number, unique, tabs.DISPUTED_TITLE)
        line = f"Tab {tabs.DISPUTED_TITLE!r}: {address}"
        Console(stderr=as_json).print(line, highlight=False, soft_wrap=True)


def _print(console: Console, tasks: Sequence[DisputedTask], *, as_json: bool) -> None:
    if as_json:
        rows = [dataclasses.asdict(disputed) | {"why": disputed.why} for disputed in tasks]
        console.out(json.dumps({"disputed": rows}, indent=2), highlight=False)
        return
    if not tasks:
        console.print("No task is disputed.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("task", "wrong", "score"):
        table.add_column(name, justify="right")
    table.add_column("question", overflow="fold", max_width=24)
    table.add_column("why", overflow="fold")
    for disputed in tasks:
        score = "–" if disputed.score is None else f"{disputed.score:.2f}"
        table.add_row(
            str(disputed.task), f"{disputed.wrong:.2f}", score, escape(disputed.control), escape(disputed.why)
        )
    console.print(table)
    console.print("Mark the right annotation of a task as ground truth, and it is settled.", highlight=False)


def load_review_list(environment: Environment, project: str, limit: int) -> ReviewList:
    """Load one project's review list from the ledger."""
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
    """Print how many labels are worth their price, and where models gain more for the same money."""
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
