"""The answer for one task of a request: its prediction, or why it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backend.label_studio.prediction import Prediction
from camvo.errors import CamvoError

DEADLINE, AUDIT, UNREADABLE, CROWDED, INTERNAL = "deadline", "audit", "task_unreadable", "busy", "internal"
NOT_STORED = "not_stored"
"""Codes of reasons that are no error of the task."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a task has no prediction.

    Attributes:
        code: a stable name: one of those above, or the code of an error.
        message: what happened, without any text of the task.
        fix: what to do; ``None`` if nothing can be done.
    """

    code: str
    message: str
    fix: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The reason in the body of an answer."""
        return {"code": self.code, "message": self.message, "fix": self.fix}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request gets for one of its tasks.

    Attributes:
        prediction: as Label Studio takes it; ``[]`` for none.
        reason: why there is none.
    """

    prediction: Prediction
    reason: Reason | None = None


NOT_READY = Answer([], Reason(DEADLINE, "models are still at work on it", "ask again"))
BLIND = Answer([], Reason(AUDIT, "it is kept blind, so that people label it without seeing a prediction"))
UNSTORED = Answer([], Reason(NOT_STORED, "it is undecided or kept blind, and no model was to be asked"))
NO_TASK = Answer([], Reason(UNREADABLE, "it has no id or no data", "send it as Label Studio does"))
TOO_MANY = Answer([], Reason(CROWDED, "too many tasks are waiting", "ask again later"))


def failure(error: BaseException) -> Answer:
    """The answer for a task that ended with an error; the text of an unexpected one is withheld."""
    if isinstance(error, CamvoError):
        return Answer([], Reason(error.code, error.message, error.fix))
    return Answer([], Reason(INTERNAL, "an error in CaMVo", "see CaMVo's log"))
