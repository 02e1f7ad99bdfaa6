"""The texts of the demo, before and after the server labelled them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backend.ledger.rounds import Round


@dataclass(frozen=True, slots=True)
class DemoText:
    """A text of the demo: the task as Label Studio sends it, and the right label."""

    task: dict[str, Any]
    gold: str


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text with its prediction and its round in the ledger."""

    text: DemoText
    prediction: dict[str, Any]
    round: Round

    @property
    def right(self) -> bool:
        """Whether the voted label is the right one."""
        return self.round.label == self.text.gold
