"""One prompt to one model for one task, and how asking it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.ledger.money.accounts import Purse
from backend.questions.prompts.message_parts import Messages
from backend.questions.question import TaskQuestion
from backend.settings import BudgetSettings


@dataclass(frozen=True, slots=True)
class ModelQuery:
    """A prompt for one model.

    Attributes:
        project: the project that pays.
        task: the task that the prompt is about.
        model: the model's name in the pool.
        messages: the prompt.
        schema: JSON schema of the answer.
        budget: the limits on the project's spending.
        questions: the questions in the prompt, for embedded voters; they do not read prompts.
        again: whether the model makes another attempt after its last one.
        purse: an account inside the project's that must cover the call, too; ``None`` for none.
    """

    project: str
    task: int
    model: str
    messages: Messages
    schema: Mapping[str, Any]
    budget: BudgetSettings
    questions: Sequence[TaskQuestion] = ()
    again: bool = False
    purse: Purse | None = None


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """The highest possible cost of a call in $, and our count of the input tokens in its prompt."""

    ceiling: float
    counted_tokens: int


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of a claim: the stored answer's ``content``, or the id of the ``call`` to make.

    ``confidences`` and ``version`` are those of the stored answer.
    """

    content: str | None = None
    call: int | None = None
    confidences: Mapping[str, float] = field(default_factory=dict)
    version: str | None = None


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """A model's answer to a query.

    Attributes:
        content: the text of the answer.
        cost: what this query paid for it, $; 0 for a stored or shared answer.
        stored: whether the ledger had the answer before anybody asked for it in this run.
        confidences: question → the probability of the answer's tokens; empty if the provider sent none.
        version: what the provider says answered: the model's name there and, after a space, the fingerprint
            of its system. ``None`` if it said nothing.
    """

    content: str
    cost: float
    stored: bool = False
    confidences: Mapping[str, float] = field(default_factory=dict)
    version: str | None = None
