"""The votes on one question of a task, and which rounds are kept whole."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from camvo.typing import Confidences

Cast: TypeAlias = Mapping[str, str | None]
"""Votes on one question: arm → label, ``None`` if it gave no vote. Arms that were not asked are absent."""

Sure: TypeAlias = Mapping[str, float]
"""Confidences on one question: arm → confidence in [0, 1]. Arms that gave none are absent."""

UNKNOWN: Final[Sure] = MappingProxyType({})
"""The confidences on one question if no arm gave one."""

KeptKind: TypeAlias = Literal["labelled", "everyone"]
"""Which rounds a policy keeps whole.

``"labelled"`` keeps rounds with a human label. ``"everyone"``, which only rounds of older versions have, also
keeps rounds that asked all arms.
"""


def on_question(confidences: Confidences, question: str) -> Sure:
    """The confidences of the arms' votes on one question."""
    return {arm: answers[question] for arm, answers in confidences.items() if question in answers}
