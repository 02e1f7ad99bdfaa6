"""The cheapest mix of models and people that makes a given share of all labels right.

Models label every task, and people label those of which the models are least sure; a person's label counts
as right. The tasks that people have labelled already show how many labels are wrong above each confidence.
This needs no assumption about scores, but it needs the votes that the policy would have asked for. Tasks
about which everyone was asked have these votes for any worth of a right label; other tasks have them only for
the worth at which they were asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.joint.joint_fit import JointFit
from camvo.joint.votes import Rows, renumber
from camvo.numerics.small import upper_bound
from camvo.policies.joint import FIRST
from camvo.quotes.forecast import DRIFT, JointProject, KnownVotes
from camvo.state.exploration import UNASKED
from camvo.typing import Array

_TIMES: Final = (0.1, 0.3, 1.0, 3.0)
"""The worths to try, as multiples of the policy's own worth."""

FEWEST: Final = 30
"""The fewest labelled tasks that a mix may rest on."""

_MOST: Final = 3_000
"""The most tasks of a replay; in larger projects, the other tasks count as similar."""

_GROWTH: Final = 2.0
"""The growth of the number of rounds after which a replay renews its fit, less often than in a forecast."""

_LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Mix:
    """One mix that reaches the target.

    Attributes:
        times: the worth of one more right label, in that of the policy as it is set.
        models: the likely price of the models for a task to come, in prices of asking everyone about it.
        humans: the share of all tasks that people label, so that the target is reached on average.
        humans_sure: the same, so that all mixes together reach it with a probability of at least 95%.
        labelled: how many labelled tasks it rests on.
    """

    times: float
    models: float
    humans: float
    humans_sure: float
    labelled: int


@dataclass(frozen=True, slots=True, eq=False)
class LabelledVotes:
    """The votes on tasks that people have labelled without seeing what models said.

    Attributes:
        rows: the position of each vote among the labels, shape (n, K); −1 for an arm that gave none, UNASKED
            for one that was not asked.
        human: the position of the human label, shape (n,).
    """

    rows: Rows
    human: NDArray[np.int64]

    @property
    def whole(self) -> LabelledVotes:
        """The tasks about which everyone was asked."""
        everyone = (self.rows != UNASKED).all(axis=1)
        return LabelledVotes(self.rows[everyone], self.human[everyone])


def mixes(  # noqa: PLR0917 - what is known, and what is wanted
    known: KnownVotes,
    labelled: LabelledVotes,
    tasks: int,
    worth: float,
    target: float,
    rng: np.random.Generator,
    *,
    replays: int = 3,
) -> list[Mix]:
    """The mixes that make a share ``target`` of all labels right, for each worth with enough data.

    ``known`` are rounds that asked everyone, and ``worth`` is that of the policy as it is set, in prices of
    asking everyone.

    Raises:
        InvalidParameterError: too few rounds or labels are known, or the target is off.
    """
    if len(known.rows) < FIRST or len(labelled.human) < FEWEST or tasks < 1 or not 0.0 < target < 1.0:
        raise InvalidParameterError(
            f"a mix needs {FIRST} rounds that asked everyone, {FEWEST} labelled tasks, a task to come, and a"
            f" target in (0, 1); got {len(known.rows)}, {len(labelled.human)}, {tasks} and {target}"
        )
    of_worth = {times: labelled if times == 1.0 else labelled.whole for times in _TIMES}
    tried = [times for times, some in of_worth.items() if len(some.human) >= FEWEST]
    found = []
    for times in tried:
        replayed = [_replayed(known, min(tasks, _MOST), times * worth, rng) for _ in range(replays)]
        share = float(np.mean([project.share for project in replayed]))
        shares = [
            _human_shares(
                *_checked(known, project.fit, of_worth[times], times * worth),
                target,
                (1.0 - _LEVEL) / len(tried),
            )
            for project in replayed
            if project.fit is not None
        ]
        # The order of labels by confidence depends on the fit, and the last fit is not known yet.
        likely, sure = np.array(shares).T
        humans = float(likely.mean()), float(sure.max())
        found.append(Mix(times, min(DRIFT * share, 1.0), *humans, len(of_worth[times].human)))
    return found


def _replayed(known: KnownVotes, tasks: int, worth: float, rng: np.random.Generator) -> JointProject:
    return JointProject(known, known.draw(tasks, worth, rng), worth, rng, growth=_GROWTH).run()


def _human_shares(
    scores: Array, right: NDArray[np.bool_], target: float, error: float
) -> tuple[float, float]:
    """The share of tasks that people have to label, the least sure first.

    The first one reaches the target among these checked labels, the second one among all labels with a
    probability of 1 − ``error`` (Clopper–Pearson, from "all tasks" downwards until it fails).
    """
    tasks = len(right)
    wrong = np.concatenate([[0], np.cumsum(~right[np.argsort(-scores, kind="stable")])])
    # wrong[k]: how many labels are wrong if people label all but the k surest.
    allowed = (1.0 - target) * tasks
    likely = int(np.flatnonzero(wrong <= allowed + 1e-9)[-1])
    passed = upper_bound(wrong.astype(np.float64), float(tasks), 1.0 - error) <= 1.0 - target
    surely = max(int(passed.sum()) - 1, 0)  # the bound grows with the number that models keep
    return 1.0 - likely / tasks, 1.0 - surely / tasks


def _checked(
    known: KnownVotes, fit: JointFit, labelled: LabelledVotes, worth: float
) -> tuple[Array, NDArray[np.bool_]]:
    """The score of each checked label, by the votes that a plan asks for, and whether it is right.

    Tasks about which everyone was asked keep the votes for which the plan asks, the others all of theirs.
    """
    rows = labelled.rows.copy()
    full = np.flatnonzero((rows != UNASKED).all(axis=1))
    whole = rows[full] if len(fit.labels) == 2 else renumber(rows[full])
    rows[full] = np.where(known.planned(fit, whole, worth), rows[full], UNASKED)
    labels, scores = fit.leaders(rows)
    return scores, labels == labelled.human
