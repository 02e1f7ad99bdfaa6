"""What the rest of a job will cost, from rounds that asked everyone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.joint.joint_fit import JointFit
from camvo.joint.vote_rows import Rows, renumber
from camvo.policies.joint import FIRST
from camvo.quotes.joint_project import JointProject
from camvo.quotes.known_votes import KnownVotes
from camvo.state.vote_patterns import UNASKED
from camvo.typing import Array

REPLAYS: Final = 12

DRIFT: Final = 1.11
"""How many times as much projects cost as their replays from the first rounds: plans that are fitted to more
rounds find more votes worth their price. Measured by ``benchmarks/quotes.py``."""

DRIFT_SPREAD: Final = 0.08
"""The standard deviation of its logarithm over projects."""

WIDEST: Final = 1.5
"""A forecast ends at this many times its lower end, ±20% of the middle: the run keeps to the upper end."""

KEPT_FROM: Final = 150
"""The rounds that asked everyone from which on a run keeps to its forecast. Fewer say too little."""

_NORMAL: Final = 1.96

_MOST: Final = 50_000
"""The most tasks that are replayed; in larger jobs, the others cost what these do."""


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """What the tasks to come will cost on average, in prices of asking everyone about one task.

    Attributes:
        low: the lower end of the 95% interval.
        likely: the most likely share.
        high: the upper end, to which the run keeps.
        free: the upper end if nothing keeps the run to it.
        asked: arm → how often it is asked, in [0, 1].
        agreement: how often the label is that of everyone, in [0, 1].
        worth: the policy's worth.
        fits: the last fit of each replay.
    """

    low: float
    likely: float
    high: float
    free: float
    asked: dict[str, float]
    agreement: float
    worth: float
    fits: tuple[JointFit, ...] = ()


def forecast(
    known: KnownVotes,
    tasks: int,
    worth: float,
    rng: np.random.Generator,
    *,
    replays: int = REPLAYS,
    progress: Callable[[int], object] = lambda replays: None,
) -> Forecast:
    """Replay the rest of a project of the joint policy several times.

    Args:
        known: the rounds so far.
        tasks: how many tasks are to come.
        worth: the policy's worth.
        rng: draws votes, and the rounds that ask everyone.
        replays: how many replays.
        progress: called with 1 after each replay.

    Raises:
        InvalidParameterError: fewer rounds are known than the policy needs for its first plan, or no task is
            to come.
    """
    if len(known.rows) < FIRST or tasks < 1:
        raise InvalidParameterError(
            f"a forecast needs {FIRST} rounds that asked everyone, and a task to come; got"
            f" {len(known.rows)} and {tasks}"
        )
    projects = []
    for _ in range(replays):
        further = known.draw(min(tasks, _MOST), worth, rng)
        projects.append(JointProject(known, further, worth, rng).run())
        progress(1)
    shares = np.array([project.share for project in projects])
    low, likely, high, free = interval(shares, kept=len(known.rows) >= KEPT_FROM)
    asked = np.mean([project.asked.mean(axis=0) for project in projects], axis=0)
    return Forecast(
        low,
        likely,
        high,
        free,
        dict(zip(known.arms, asked.tolist(), strict=True)),
        float(np.mean([agreement(project) for project in projects])),
        worth,
        tuple(project.fit for project in projects if project.fit is not None),
    )


def interval(shares: Array, *, kept: bool = True) -> tuple[float, float, float, float]:
    """The 95% interval of the bill: low, likely, high where the run keeps to it, and high where it is free.

    Args:
        shares: the shares of some replays, shape (B,), positive.
        kept: whether the run keeps to the upper end.
    """
    logs = np.log(np.clip(shares, 1e-9, 1.0))
    spread = math.hypot(float(logs.std(ddof=1)) * math.sqrt(1.0 + 1.0 / len(logs)), DRIFT_SPREAD)
    middle = float(logs.mean()) + math.log(DRIFT)
    low, likely, free = (min(math.exp(middle + times * spread), 1.0) for times in (-_NORMAL, 0.0, _NORMAL))
    return low, likely, min(free, WIDEST * low) if kept else free, free


def agreement(project: JointProject) -> float:
    """How often the label is that of everyone, for the tasks that were decided after the last fit."""
    fit = project.fit
    if fit is None:
        return 1.0
    rows, asked = project.further[-2000:], project.asked[-2000:]
    return float((labels_by(fit, rows, asked) == labels_by(fit, rows, np.ones_like(asked))).mean())


def labels_by(fit: JointFit, rows: Rows, asked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The most probable label of each row by the votes that were asked for, as a number of the row.

    Args:
        fit: the fit.
        rows: all votes, as vote rows, shape (n, K).
        asked: which arms were asked, shape (n, K).

    Returns:
        Shape (n,); −1 where nobody that was asked gave a vote.
    """
    partial = np.where(asked, rows, UNASKED)
    numbered = partial if len(fit.labels) == 2 else renumber(partial)
    right, _ = fit.model.beliefs(numbered)
    leaders = right.argmax(axis=1)
    said = numbered == leaders[:, None]
    if len(fit.labels) == 2:
        return np.where((numbered >= 0).any(axis=1), leaders, -1)
    return np.where(said.any(axis=1), rows[np.arange(len(rows)), said.argmax(axis=1)], -1)
