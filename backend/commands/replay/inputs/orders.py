"""The order of the items in a run, and where its human labels fall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from backend.errors import ReplayError

Way: TypeAlias = Literal["random", "first", "lowest"]


@dataclass(frozen=True, slots=True)
class HumanLabels:
    """Which of the replayed items with a known truth a human labels.

    Attributes:
        way: ``random`` ones, the ``first`` ones, or those with the ``lowest`` scores so far, as in a review
            queue.
        share: of those items, in [0, 1].
    """

    way: Way = "random"
    share: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Shuffle:
    """The items of a run.

    Attributes:
        order: their positions in the table, in order.
        human: which of them a human labels right after the decision, whatever their scores.
        reviewed: the share of the items that humans label from a review queue (:func:`camvo.replay`).
    """

    order: NDArray[np.int64]
    human: NDArray[np.bool_] | None = None
    reviewed: float = 0.0


def parse_human_labels(option: str) -> HumanLabels:
    """Parse ``--human-labels``: a share such as 0.05, which means ``random:0.05``, or WAY:SHARE.

    Raises:
        ReplayError: there is no such way, or the share is not in [0, 1].
    """
    way, colon, share = option.rpartition(":")
    if colon and way not in get_args(Way):
        raise ReplayError(
            f"{way!r} is no way to choose items",
            where="--human-labels",
            fix=f"known: {', '.join(f'{name}:SHARE' for name in get_args(Way))}",
        )
    try:
        number = float(share)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise ReplayError(
            f"{share!r} is not a share from 0 to 1", where="--human-labels", fix="give e.g. random:0.05"
        )
    return HumanLabels(way if colon else "random", number)  # type: ignore[arg-type]  # checked above


def shuffle_items(
    truth: NDArray[np.int64],
    seed: int,
    limit: int | None,
    human_labels: HumanLabels,
    *,
    in_order: bool = False,
) -> Shuffle:
    """Draw a random order of the items, and choose which of them have a human label.

    Args:
        truth: the table's right labels, shape (n,); −1 means unknown.
        seed: determines the order and, independently, random human labels.
        limit: how many items are replayed, from the start of the order; ``None`` means all.
        human_labels: which of the replayed items with a known truth a human labels.
        in_order: leave the items as they stand.
    """
    order = np.arange(len(truth)) if in_order else np.random.default_rng([seed, 0]).permutation(len(truth))
    order = order[:limit]
    if not human_labels.share:
        return Shuffle(order)
    if human_labels.way == "lowest":
        return Shuffle(order, reviewed=human_labels.share)
    (known,) = np.nonzero(truth[order] >= 0)
    count = round(human_labels.share * len(known))
    if human_labels.way == "random":
        known = np.random.default_rng([seed, 1]).permutation(known)
    return Shuffle(order, np.isin(np.arange(len(order)), known[:count]))
