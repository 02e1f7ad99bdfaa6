"""The base class of rivals that ask one model after a beginning that asks more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from camvo.errors import InvalidParameterError
from camvo.policies.baselines import Baseline
from camvo.policies.plan import Plan
from camvo.typing import NO_CONFIDENCES, Confidences, Votes


@dataclass(frozen=True, kw_only=True)
class OneModel(Baseline):
    """Ask one model after a beginning that asks more. A model that gives no vote is replaced.

    A subclass defines in :meth:`_candidates` which models replace it, the first choice first.

    Attributes:
        first: how many rounds belong to the beginning, at least 0.
    """

    first: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first < 0:
            raise InvalidParameterError(f"first must not be negative, got {self.first}")

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The models of the plan; then the next candidate, while a question has no vote."""
        if waiting := super().ask(plan, votes, confidences=confidences):
            return waiting
        if all(any(question in answers for answers in votes.values()) for question in plan.estimates):
            return ()
        return next(((arm,) for arm in self._candidates(plan) if arm not in votes), ())

    def _candidates(self, plan: Plan) -> Iterable[str]:
        raise NotImplementedError
