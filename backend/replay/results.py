"""What a replay found out: a row for each run, and the mean over the shuffles of each setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.replay import Trace


@dataclass(frozen=True)
class Row:
    """One run in numbers; ``None`` where the table does not tell."""

    policy: str
    delta: float | None
    k_min: int | None
    seed: int
    accuracy: float | None
    full_accuracy: float | None
    relative_accuracy: float | None
    target_met: bool | None
    agreement: float | None
    cost: float | None
    cost_share: float | None
    mean_subset: float | None
    ece: float | None
    aurc: float | None
    rounds_per_second: float | None
    calls: Mapping[str, int]
    per_label: Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True, eq=False)
class Run:
    """A row and the trace it was computed from; ``order[i]`` is the item at position i of the trace."""

    row: Row
    trace: Trace
    order: NDArray[np.int64]


@dataclass(frozen=True)
class Summary:
    """The mean of one setting over its shuffles, and the 95% intervals, by the names of the row's fields."""

    policy: str
    delta: float | None
    k_min: int | None
    shuffles: int
    means: dict[str, float | None]
    intervals: dict[str, tuple[float, float] | None]
