"""The base class of policies that ask in stages along a fixed order of arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from camvo.errors import InvalidParameterError
from camvo.policies.staged import Staged
from camvo.stages.ordered_stages import OrderedStages
from camvo.student.student import STUDENT


@dataclass(frozen=True, kw_only=True)
class StagedInOrder(Staged):
    """Ask in stages, in an order that the votes do not change.

    Attributes:
        max_stages: the largest number of stages. 1 asks one set; K can ask the models one after another.
    """

    _kind = OrderedStages

    max_stages: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_stages < 1:
            raise InvalidParameterError(f"max_stages must be at least 1, got {self.max_stages}")

    def stages_of(self, costs: Mapping[str, float]) -> int:
        """The largest number of stages with these arms. The student answers at once, so it adds one."""
        return self.max_stages + (STUDENT in costs)
