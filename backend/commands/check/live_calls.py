"""``camvo check --live``: one small call to each model, with its answer, time, usage and price."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend.errors import BadAnswerError, ModelError
from backend.models import Pool
from backend.models.calls import ModelAnswer
from backend.questions import TaskQuestion
from backend.questions.prompts.answers import answer_schema, parse_answer
from backend.questions.prompts.message_parts import Messages
from backend.server.status.formats import dollars, seconds

_PATIENCE = 60.0
"""Seconds for which a model is waited for."""


@dataclass(frozen=True, slots=True)
class LiveCall:
    """What one model did with one call.

    Attributes:
        name: the model's name in the pool.
        vote: the label it gave; ``None`` if it gave none.
        answer: its answer; ``None`` if the call failed.
        problem: what is wrong and what to do; ``None`` if it voted.
    """

    name: str
    vote: str | None = None
    answer: ModelAnswer | None = None
    problem: str | None = None


def call_each(pool: Pool, question: TaskQuestion, messages: Messages) -> list[LiveCall]:
    """Ask each model of a pool the same question, at once; this costs money."""

    async def all_calls() -> Sequence[LiveCall]:
        return await asyncio.gather(*(_call(pool, name, question, messages) for name in pool.names))

    return list(asyncio.run(all_calls()))


async def _call(pool: Pool, name: str, question: TaskQuestion, messages: Messages) -> LiveCall:
    try:
        answer = await pool.attempt(
            name, messages, answer_schema([question]), _PATIENCE, questions=[question]
        )
    except ModelError as error:
        return LiveCall(name, problem=_told(error))
    try:
        vote = parse_answer(answer.content, [question])[question.name]
    except BadAnswerError:
        problem = "its answer names none of the labels (set structured_output: true, or name another model)"
        return LiveCall(name, None, answer, problem)
    return LiveCall(name, vote, answer)


def _told(error: ModelError) -> str:
    """What went wrong and what to do; the table names the model already."""
    plain = type(error)(error.message, fix=error.fix or _FIXES.get(error.code))
    return str(plain)


_FIXES = {
    "model_timeout": "raise its timeout, or look whether it is overloaded",
    "model_unavailable": "look at the provider's status page, and check api_base",
    "model_refused": "look at the provider's content filter",
}
"""What to do about errors that carry no fix of their own, by code."""


def print_calls(console: Console, calls: Sequence[LiveCall]) -> bool:
    """Print the calls; return whether every model voted."""
    table = Table(title="One call to each model", title_justify="left")
    for column in ("model", "answer", "time", "tokens in", "out", "paid"):
        table.add_column(column, justify="left" if column in {"model", "answer"} else "right")
    for call in calls:
        table.add_row(escape(call.name), escape(call.vote or "✗"), *_usage(call.answer))
    console.print(table)
    for call in calls:
        if call.problem is not None:
            text = f"[red]✗[/] {escape(call.name)}: {escape(call.problem)}"
            console.print(text, highlight=False, soft_wrap=True)
    paid = sum(call.answer.cost for call in calls if call.answer is not None)
    line = f"{dollars(paid)} paid for these calls. The times include loading the client libraries."
    console.print(line, highlight=False)
    return all(call.problem is None for call in calls)


def _usage(answer: ModelAnswer | None) -> tuple[str, str, str, str]:
    if answer is None:
        return "", "", "", ""
    estimated = "~" if answer.estimated else ""
    return (
        seconds(answer.seconds),
        f"{estimated}{answer.input_tokens}",
        f"{estimated}{answer.output_tokens}",
        dollars(answer.cost),
    )
