"""The rounds of a project that asked everyone, as the ledger has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from backend.learning.states import StateKey
from backend.ledger import rounds
from camvo.quotes.known_votes import KnownVotes

_MOST = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class KnownRounds:
    """Rounds that asked everyone about one question.

    Attributes:
        votes: their votes.
        human: the position of the human label among the labels, shape (n,); −1 where there is none.
    """

    votes: KnownVotes
    human: NDArray[np.int64]


def read_known_rounds(
    connection: Connection, key: StateKey, labels: Sequence[str], prices: Mapping[str, float]
) -> KnownRounds:
    """Read the latest rounds on a question that asked all arms of today by a draw.

    Args:
        connection: a read transaction.
        key: the question.
        labels: its labels.
        prices: arm → the mean price of asking it about a task, $.
    """
    arms, names = tuple(sorted(prices)), tuple(sorted(labels))
    place = {label: number for number, label in enumerate(names)}
    found = rounds.everyone_votes(connection, key.project, key.control, key.epoch, set(arms), _MOST)
    rows = [[place.get(votes[arm] or "", -1) for arm in arms] for votes, _ in found]
    return KnownRounds(
        KnownVotes(
            names,
            arms,
            np.array([prices[arm] for arm in arms]),
            np.array(rows, dtype=np.int64).reshape(-1, len(arms)),
        ),
        np.array([place.get(human or "", -1) for _, human in found], dtype=np.int64),
    )
