"""Exploration: before any vote, a random draw decides whether a round asks more arms than it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal, TypeAlias

import numpy as np

from camvo.typing import Array

Exploration: TypeAlias = Literal["everyone", "nobody"]
"""The outcome of the exploration draw: ``"everyone"`` asks all arms, and ``"nobody"`` follows the plan.

Rounds of older versions may have a third one, ``"certificate"``: they were asked until the label was certain.
"""


def uniform_draw(tasks: Iterable[Array | str], rounds: int) -> float:
    """A number in [0, 1) derived from the task and the number of earlier rounds, never from votes.

    The same ledger gives the same draw in every process.

    Args:
        tasks: what tells the task from others, for each question: a name, or its embedding, shape (d,).
        rounds: the number of earlier rounds.
    """
    digest = hashlib.blake2b(rounds.to_bytes(8, "little"), digest_size=8)
    for task in tasks:
        if isinstance(task, str):
            digest.update(task.encode())
        else:
            digest.update(np.ascontiguousarray(task, dtype="<f8").tobytes())
    return int.from_bytes(digest.digest(), "little") / 2.0**64
