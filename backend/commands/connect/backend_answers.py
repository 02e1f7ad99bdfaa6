"""What CaMVo's own server answers to the commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.annotation.queue.answer import DEADLINE


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """Why a task ended without a prediction, and when by the server's clock, in unix seconds."""

    code: str
    failed_at: float


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """What the server says about one task.

    Attributes:
        predictions: one, several (each model's own before the ensemble's), or none.
        code: why there is none: a stable name; ``None`` if there are some.
        fix: what to do about it; ``None`` if nothing can be done.
    """

    predictions: list[dict[str, Any]]
    code: str | None = None
    fix: str | None = None

    @classmethod
    def of(cls, result: Any, reason: Mapping[str, Any] | None) -> TaskAnswer:
        """One entry of ``results`` in a body of ``/predict``, with its entry of ``reasons``."""
        predictions = [result] if isinstance(result, dict) else list(result)
        if predictions:
            return cls(predictions)
        reason = reason or {"code": DEADLINE}
        return cls([], str(reason["code"]), reason.get("fix"))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a project is.

    Attributes:
        tasks: tasks decided since the round that was asked about.
        last_round: the number of the project's latest round.
        spent_usd: what the project has spent, in $.
    """

    tasks: int
    last_round: int
    spent_usd: float


@dataclass(frozen=True, slots=True)
class TasksInDoubt:
    """The tasks on which further votes are worth most.

    Attributes:
        tasks: their numbers, the most right labels per dollar first.
        least: what a dollar must bring for another vote on any of them, in right labels.
        spent_usd: what further votes have cost so far, in $.
    """

    tasks: Sequence[int]
    least: float
    spent_usd: float
