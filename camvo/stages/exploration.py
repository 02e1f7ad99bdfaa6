"""Exploration: before any vote, a random draw decides whether a round asks more arms than it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal, TypeAlias

import numpy as np

from camvo.typing import Array

Exploration: TypeAlias = Literal["everyone", "certificate", "nobody"]
"""The outcome of the exploration draw.

``"everyone"`` asks all arms, ``"certificate"`` asks until the label is certain, and ``"nobody"`` follows the
learned rule.
"""

_EVERYONE, _EVERYONE_DECAY = 2.0, 2.0 / 3.0
_CERTIFICATE, _CERTIFICATE_DECAY = 8.0, 0.5


def propensities(rounds: int) -> tuple[float, float]:
    """The probabilities of asking all arms, and of asking at least until the label is certain.

    Over n rounds the first happens about 6·n^⅓ times and the second about 16·n^½ times. Asking until the
    label is certain costs little more than the learned rule, so it can happen often. Only the weights need
    the votes of all arms.

    Args:
        rounds: the number of earlier rounds.
    """
    t = rounds + 1.0
    return min(1.0, _EVERYONE * t**-_EVERYONE_DECAY), min(1.0, _CERTIFICATE * t**-_CERTIFICATE_DECAY)


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


def explore(draw: float, everyone: float, certificate: float) -> Exploration:
    """Turn a draw into its outcome.

    Args:
        draw: a number in [0, 1).
        everyone: the probability of asking all arms.
        certificate: the probability of asking at least until the label is certain.
    """
    return "everyone" if draw < everyone else "certificate" if draw < certificate else "nobody"
