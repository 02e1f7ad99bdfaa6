"""What the rest of a job will cost, from rounds that asked everyone, and the cheapest mix with people.

Models label every task, and people label those of which the models are least sure; a person's label counts
as right. The tasks that people have labelled already show how many labels are wrong above each confidence.
This needs no assumption about scores, but it needs the votes that the policy would have asked for. Tasks
about which everyone was asked have these votes for any worth of a right label; other tasks have them only for
the worth at which they were asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.joint.joint_fit import JointFit
from camvo.joint.lattice import most_arms
from camvo.joint.plans import Worth, caution, plan_by_worth, prices_without, shadow_price, walk
from camvo.joint.regret import regret_of
from camvo.joint.votes import Rows, VoteRows, distinct, renumber
from camvo.joint.votes_fit import VotesFit
from camvo.numerics.small import upper_bound
from camvo.policies.joint import FIRST, LEAST_PACE, MOST_FIRST, exploration_pace, exploration_within
from camvo.policies.parameters import WORTH
from camvo.stages.stages import cheapest_first
from camvo.state.earlier import NOTHING_EARLIER, SkillPrior
from camvo.state.exploration import SILENT, UNASKED
from camvo.typing import Array

_SHARES: Final[Mapping[str, tuple[float, float]]] = {
    "joint": (0.1, 0.6),
    "baseline": (1.0, 1.0),
    "majority": (1.0, 1.0),
}
"""Policy → the lowest and the highest share of the price of asking everyone that its rounds cost.

For ``joint`` the range covers every table of docs/results.md, excluding rounds that ask everyone. A pool of
two arms may cost anything above its cheaper one, and so may policies that are not listed.
"""

_WITH_AGREEMENT: Final = (0.15, 0.9)
"""The same for ``joint`` where an agreement is required."""


_WITH_STUDENT: Final = 0.12
"""The same, all rounds counted, where a student votes, which may make every model unnecessary."""


def documented_share(
    policy: str,
    tasks: int,
    prices: Sequence[float],
    asked: int = 1,
    *,
    student: bool = False,
    agreement: bool = False,
) -> tuple[float, float]:
    """The range of a policy's cost, in prices of asking everyone.

    ``asked`` is the fewest arms that it asks (``k_min``).
    """
    total = sum(prices)
    least = sum(sorted(prices)[:asked]) / total if total > 0.0 else 0.0
    low, high = _WITH_AGREEMENT if agreement else _SHARES.get(policy, (least, 1.0))
    if policy != "joint":
        return low, high
    low, high = max(low, least), 1.0 if len(prices) == 2 else high
    first, paces = (MOST_FIRST, (FIRST, FIRST)) if agreement else (FIRST, (LEAST_PACE, FIRST))
    few, many = (_everyone(tasks, first, pace) / max(tasks, 1) for pace in paces)
    lowest, highest = few + (1.0 - few) * low, many + (1.0 - many) * max(low, high)
    return (max(few, min(lowest, _WITH_STUDENT)) if student else lowest), highest


def _everyone(tasks: int, first: int, pace: float) -> float:
    """How many rounds of a project ask everyone: the first ``first`` rounds, and later ones by a draw."""
    return float(tasks) if tasks <= first else min(math.sqrt(first**2 + pace * (tasks - first)), tasks)


@dataclass(frozen=True, eq=False)
class KnownVotes:
    """The votes of n tasks about which everyone was asked, on one question.

    Attributes:
        labels: the label set, sorted by name, M labels.
        arms: the arms, sorted by name, K arms.
        prices: the mean price of asking each arm, in any one unit, shape (K,).
        rows: the position of each vote among ``labels``, shape (n, K); −1 for an arm that gave none.

    Raises:
        InvalidParameterError: the shapes do not agree, or the names are not sorted.
    """

    labels: tuple[str, ...]
    arms: tuple[str, ...]
    prices: Array
    rows: Rows

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.rows.shape[1] != len(self.arms) or len(self.prices) != len(self.arms):
            raise InvalidParameterError(f"{len(self.arms)} arms do not fit votes of {self.rows.shape}")
        if sorted(self.arms) != list(self.arms) or sorted(self.labels) != list(self.labels):
            raise InvalidParameterError("labels and arms must be sorted by name")

    @cached_property
    def canonical(self) -> Rows:
        """The votes as vote rows: with more than two labels, numbered by first appearance."""
        return self.rows if len(self.labels) == 2 else renumber(self.rows)

    @cached_property
    def shares(self) -> Array:
        """Each arm's share of the price of all, as the policy rounds it, shape (K,)."""
        order, shares = cheapest_first(dict(zip(self.arms, self.prices.tolist(), strict=True)))
        by_arm = dict(zip(order, shares, strict=True))
        return np.array([by_arm[arm] for arm in self.arms])

    @cached_property
    def relative_prices(self) -> Array:
        """Each arm's share of the price of all, shape (K,)."""
        total = float(self.prices.sum())
        return self.prices / total if total > 0.0 else np.full(len(self.prices), 1.0 / len(self.prices))

    def fit(self, rows: VoteRows, worth: float) -> JointFit:
        """The joint policy's fit to some votes of these arms."""
        few = len(self.arms) <= most_arms(len(self.labels))
        prices = np.zeros(len(self.arms)) if few else self.shares / worth
        votes = VotesFit.of_rows(rows, len(self.labels), prior=self._prior)
        return JointFit.label_free(
            votes, self.labels, self.arms, dict(zip(self.arms, prices.tolist(), strict=True))
        )

    def pace(self, worth: float) -> float:
        """The pace at which rounds go on to ask everyone, by the regret of a fit to these votes."""
        return exploration_pace(None if self._regret is None else self._regret * worth, len(self.rows))

    @cached_property
    def _regret(self) -> float | None:
        numbered, counts = distinct(self.canonical)
        rows = VoteRows(numbered, counts, np.zeros(len(counts)))
        shortlist = self.fit(rows, WORTH).shortlist
        positions = [*map(self.arms.index, shortlist)]
        return regret_of(rows, self.arms, self.labels, positions, prior=self._prior)

    @cached_property
    def _prior(self) -> SkillPrior | None:
        """What prices say about two arms."""
        prices = dict(zip(self.arms, self.prices.tolist(), strict=True))
        return NOTHING_EARLIER.priced(prices).prior(self.arms)

    def paid(self, fit: JointFit) -> Array:
        """What a vote of each arm that plans ask costs, as a share of the price of all, shape (K,)."""
        positions = [fit.arms.index(arm) for arm in fit.shortlist]
        return np.asarray(self.shares[positions] / [fit.answering[arm] for arm in fit.shortlist])

    def planned(self, fit: JointFit, rows: Rows, worth: float) -> NDArray[np.bool_]:
        """Whom the plan of a fit asks about each task, shape (n, K), without the draw that may ask everyone.

        ``rows`` are vote rows, and ``worth`` that of one more right label, in prices of asking everyone.
        """
        positions = [fit.arms.index(arm) for arm in fit.shortlist]
        prices: list[float] = (self.paid(fit) / worth).tolist()

        def without(silent: Sequence[int]) -> Worth:
            return plan_by_worth(fit.beliefs, prices_without(silent, range(len(prices)), prices))

        unique, place = np.unique(rows, axis=0, return_inverse=True)
        asked = np.zeros(unique.shape, dtype=np.bool_)
        asked[:, positions], _ = walk(without(()), unique[:, positions], 1.0 / len(self.labels), without)
        # A task without any vote asks the cheapest arm next. That this arm gives no vote either is rare.
        asked[~(asked & (unique >= 0)).any(axis=1), int(self.shares.argmin())] = True
        return asked[place.reshape(-1)]

    def draw(self, count: int, worth: float, rng: np.random.Generator) -> Rows:
        """Draw the votes of further tasks, as vote rows, shape (count, K).

        The distribution is uncertain itself, so each call first draws one: these rounds with random weights
        (the Bayesian bootstrap, Rubin 1981). Drawing from these rounds alone would repeat them, and a plan
        that was fitted to them would seem to know every task. So votes are drawn one after another from the
        beliefs of a fit to the weighted rounds, which blend the model of votes with the rounds at each node.
        """
        weights = rng.dirichlet(np.ones(len(self.rows))) * len(self.rows)
        if len(self.arms) > most_arms(len(self.labels)):
            return self.canonical[rng.choice(len(self.rows), count, p=weights / weights.sum())]
        unique, place = np.unique(self.canonical, axis=0, return_inverse=True)
        counts = np.bincount(place.reshape(-1), weights, len(unique)).astype(np.float64)
        beliefs = self.fit(VoteRows(unique, counts, np.zeros(len(unique))), worth).beliefs
        lattice, nodes = beliefs.lattice, np.zeros(count, dtype=np.int64)
        for arm, (level, votes) in enumerate(
            zip(reversed(lattice.steps), reversed(beliefs.votes), strict=True)
        ):
            step, probabilities = level[arm], votes[arm]
            at = np.searchsorted(step.nodes, nodes)
            chances = probabilities[:, at].cumsum(axis=0)
            number = (rng.random(count) * chances[-1] >= chances).sum(axis=0)
            nodes = step.following[np.minimum(number, len(chances) - 1), at]
        drawn = lattice.rows[nodes].copy()
        silent = rng.random(drawn.shape) < (self.rows < 0).mean(axis=0)
        drawn[silent] = SILENT
        return drawn if lattice.named else renumber(drawn)


_GROWTH: Final = 1.4
"""The growth of the number of rounds after which the fit is renewed. The policy renews it at 1.2. Plans
change little from fit to fit, and this takes half the time."""

_LEAST: Final = 64
"""The fewest tasks between two fits: a busy server plans about this many at once."""

_LOOKS: Final = 40
"""How often a project checks how much of its budget is left."""


@dataclass(slots=True)
class JointProject:
    """One replay of a project.

    Attributes:
        known: the rounds so far, all of which asked everyone.
        further: the votes of the tasks to come, as vote rows of the same arms, in their order, shape (n, K).
        worth: the policy's worth.
        rng: draws the rounds that ask everyone.
        aim: what the tasks to come may cost in all, in prices of asking everyone about one task.
        growth: of the number of rounds, after which the fit is renewed.
        asked: which arms each task asked, shape (n, K).
        explored: which tasks asked everyone by a draw, shape (n,).
        fit: the latest fit; ``None`` before the first.
    """

    known: KnownVotes
    further: Rows
    worth: float
    rng: np.random.Generator
    aim: float = math.inf
    growth: float = _GROWTH
    asked: NDArray[np.bool_] = field(init=False)
    explored: NDArray[np.bool_] = field(init=False)
    fit: JointFit | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.asked = np.zeros(self.further.shape, dtype=np.bool_)
        self.explored = np.zeros(len(self.further), dtype=np.bool_)

    def run(self) -> JointProject:
        """Go through all tasks."""
        tasks, fitted_at = 0, 0
        while tasks < len(self.further):
            rounds = len(self.known.rows) + tasks
            if self.fit is None or rounds >= max(fitted_at + _LEAST, int(fitted_at * self.growth)):
                self.fit, fitted_at = self.known.fit(self._seen(tasks), self.worth), rounds
            until = max(fitted_at + _LEAST, int(fitted_at * self.growth)) - len(self.known.rows)
            if math.isfinite(self.aim):
                until = min(until, tasks + max(_LEAST, len(self.further) // _LOOKS))
            self._block(slice(tasks, min(until, len(self.further))), self.fit)
            tasks = min(until, len(self.further))
        return self

    @property
    def share(self) -> float:
        """What a task costs on average, in prices of asking everyone."""
        return float((self.asked @ self.known.relative_prices).mean())

    def _block(self, block: slice, fit: JointFit) -> None:
        """Decide about tasks that share a fit."""
        everyone = len(self.known.rows) + int(self.explored[: block.start].sum())
        left = self.aim - float((self.asked[: block.start] @ self.known.relative_prices).sum())
        allowance = max(left, 0.0) / (len(self.further) - block.start)
        rate = _rate(everyone, block.stop - block.start, self.known.pace(self.worth))
        rate, allowance = exploration_within(rate, allowance)
        self.explored[block] = self.rng.random(block.stop - block.start) < rate
        self.asked[block] = self._planned(fit, self.further[block], everyone, allowance)
        self.asked[block][self.explored[block]] = True

    def _seen(self, tasks: int) -> VoteRows:
        """All votes so far, as the policy's fit reads them."""
        explored, further = self.explored[:tasks], self.further[:tasks]
        partial = np.where(self.asked[:tasks], further, UNASKED)[~explored]
        stopped = partial if len(self.known.labels) == 2 else renumber(partial)
        rows = np.concatenate([self.known.canonical, further[explored], stopped])
        everyone = np.arange(len(rows)) < len(rows) - len(stopped)
        unique, place = np.unique(rows, axis=0, return_inverse=True)
        counts = [
            np.bincount(place.reshape(-1), kind, len(unique)).astype(np.float64)
            for kind in (everyone, ~everyone)
        ]
        return VoteRows(unique, *counts)

    def _planned(self, fit: JointFit, rows: Rows, everyone: int, allowance: float) -> NDArray[np.bool_]:
        """Whom the plan asks about each row; under an allowance, two plans share the rows by a draw."""
        worth, shares = self.worth * caution(everyone), self.known.paid(fit)
        asked = np.zeros(rows.shape, dtype=np.bool_)
        dearer: Array = np.ones(len(rows))
        if allowance < 1.0:
            draws = self.rng.random(len(rows))
            paid, asking = tuple(shares.tolist()), tuple((shares / worth).tolist())
            dearer = np.array(
                [shadow_price(fit.beliefs, asking, paid, allowance, draw) for draw in draws.tolist()]
            )
        for times in np.unique(dearer).tolist():
            some = dearer == times
            asked[some] = self.known.planned(fit, rows[some], worth / times)
        return asked


def _rate(everyone: int, tasks: int, pace: float) -> float:
    """The expected share of the next tasks that ask everyone by a draw, after ``everyone`` that did."""
    return min((math.sqrt(everyone**2 + pace * tasks) - everyone) / tasks, 1.0)


REPLAYS: Final = 12

_DRIFT: Final = 1.11
"""The factor by which a project costs more than its replays from the first rounds: plans fitted to more
rounds find more votes worth their price. Measured by ``benchmarks/quotes.py``."""

_DRIFT_SPREAD: Final = 0.08
"""The standard deviation of its logarithm over projects."""

_WIDEST: Final = 1.5
"""A forecast ends at this many times its lower end, ±20% of the middle: the run keeps to the upper end."""

KEPT_FROM: Final = 150
"""A run keeps to its forecast after this many rounds that asked everyone. Fewer are not enough to go by."""

_NORMAL: Final = 1.96

_MOST_TASKS: Final = 50_000
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
    """Replay the rest of a project of the joint policy several times, ``tasks`` of them.

    ``progress`` is called with 1 after each replay.

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
        further = known.draw(min(tasks, _MOST_TASKS), worth, rng)
        projects.append(JointProject(known, further, worth, rng).run())
        progress(1)
    shares = np.array([project.share for project in projects])
    low, likely, high, free = _interval(shares, kept=len(known.rows) >= KEPT_FROM)
    asked = np.mean([project.asked.mean(axis=0) for project in projects], axis=0)
    return Forecast(
        low,
        likely,
        high,
        free,
        dict(zip(known.arms, asked.tolist(), strict=True)),
        float(np.mean([_agreement(project) for project in projects])),
        worth,
        tuple(project.fit for project in projects if project.fit is not None),
    )


def _interval(shares: Array, *, kept: bool = True) -> tuple[float, float, float, float]:
    """The 95% interval of the bill: low, likely, high if the run keeps to it, and high if it is free."""
    logs = np.log(np.clip(shares, 1e-9, 1.0))
    spread = math.hypot(float(logs.std(ddof=1)) * math.sqrt(1.0 + 1.0 / len(logs)), _DRIFT_SPREAD)
    middle = float(logs.mean()) + math.log(_DRIFT)
    low, likely, free = (min(math.exp(middle + times * spread), 1.0) for times in (-_NORMAL, 0.0, _NORMAL))
    return low, likely, min(free, _WIDEST * low) if kept else free, free


def _agreement(project: JointProject) -> float:
    """How often the label is that of everyone, for the tasks that were decided after the last fit."""
    fit = project.fit
    if fit is None:
        return 1.0
    rows, asked = project.further[-2000:], project.asked[-2000:]
    (partial, _), (whole, _) = fit.leaders(np.where(asked, rows, UNASKED)), fit.leaders(rows)
    return float((partial == whole).mean())


_TIMES: Final = (0.1, 0.3, 1.0, 3.0)
"""The worths to try, as multiples of the policy's own worth."""

FEWEST: Final = 30
"""The fewest labelled tasks that a mix may rest on."""

_MOST_TASKS_OF_A_MIX: Final = 3_000
"""The most tasks of a replay; in larger projects, the other tasks count as similar."""

_GROWTH_IN_A_MIX: Final = 2.0
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
    found, few = [], min(tasks, _MOST_TASKS_OF_A_MIX)
    for times in tried:
        replayed = [
            JointProject(
                known, known.draw(few, times * worth, rng), times * worth, rng, growth=_GROWTH_IN_A_MIX
            ).run()
            for _ in range(replays)
        ]
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
        found.append(Mix(times, min(_DRIFT * share, 1.0), *humans, len(of_worth[times].human)))
    return found


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
