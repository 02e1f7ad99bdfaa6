"""Exploration: a random draw, made before anyone voted, that asks more arms than the votes would."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal, TypeAlias

import numpy as np

from camvo.typing import Array

Exploration: TypeAlias = Literal["everyone", "certificate", "nobody"]
"""What the draw says of a round: ask everyone, ask until the label is certain, or follow the learned stop."""

_EVERYONE, _EVERYONE_DECAY = 2.0, 2.0 / 3.0
_CERTIFICATE, _CERTIFICATE_DECAY = 8.0, 0.5


def propensities(rounds: int) -> tuple[float, float]:
    """The probabilities of asking everyone, and of asking at least until the label is certain.

    After n rounds the first has happened about 6·n^⅓ times and the second about 16·n^½ times. Certainty costs
    little more than the learned stop, so it can be had often. Only the weights need all votes.
    """
    t = rounds + 1.0
    return min(1.0, _EVERYONE * t**-_EVERYONE_DECAY), min(1.0, _CERTIFICATE * t**-_CERTIFICATE_DECAY)


def uniform_draw(contexts: Iterable[Array], rounds: int) -> float:
    """A number in [0, 1) derived from the contexts and the number of earlier rounds, but from no vote.

    The same ledger gives the same draw in every process.
    """
    digest = hashlib.blake2b(rounds.to_bytes(8, "little"), digest_size=8)
    for context in contexts:
        digest.update(np.ascontiguousarray(context, dtype="<f8").tobytes())
    return int.from_bytes(digest.digest(), "little") / 2.0**64


def explore(draw: float, everyone: float, certificate: float) -> Exploration:
    """What a draw says.

    Args:
        draw: a number in [0, 1).
        everyone: the probability of asking everyone.
        certificate: the probability of asking at least until the label is certain.
    """
    return "everyone" if draw < everyone else "certificate" if draw < certificate else "nobody"
