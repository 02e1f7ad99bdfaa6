"""A project of the joint policy about one question, by its own fits, plans and draws.

A replay gives nearly the same labels and takes twenty times as long, because it learns what has no effect on
labels and cost, and plans every task anew. Here tasks with the same votes share a plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from camvo.joint.joint_fit import JointFit
from camvo.joint.plans import caution
from camvo.policies.joint import Joint
from camvo.policies.policy import JointFitData
from camvo.replays.replay import VotesTable
from camvo.stages.stages import QuestionStages, cheapest_first, next_arms
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import ExplorationRound, ExplorationSums, VotePattern, named_labels
from camvo.typing import Array

_GROWTH, _LEAST = 1.2, 64

Cast = dict[str, str | None]


@dataclass(frozen=True, eq=False)
class Decided:
    """What became of n tasks.

    Attributes:
        labels: positions in the label set, shape (n,).
        likely: the probability of each label by the fit at the time, shape (n, M).
        asked: which models were asked, shape (n, K).
        cost: the cost as a share of asking everyone.
        fit: the last fit.
    """

    labels: NDArray[np.int64]
    likely: Array
    asked: NDArray[np.bool_]
    cost: float
    fit: JointFit


def run(policy: Joint, table: VotesTable, seed: int = 0) -> Decided:
    """Run a project."""
    names, tasks = list(table.prices), len(table.truth)
    order, shares = cheapest_first(table.prices)
    draws, sums = np.random.default_rng([seed, 1]).random(tasks), ExplorationSums()
    asked = np.zeros(table.votes.shape, dtype=np.bool_)
    labels, likely = np.zeros(tasks, dtype=np.int64), np.zeros((tasks, len(table.labels)))
    everyone, start, fit = 0, 0, None
    while start < tasks:
        fit = _fit(policy, table, sums)
        end = min(max(start + _LEAST, int(start * _GROWTH)), tasks)
        worth = policy.worth_in_askings(table.prices) * caution(everyone)
        prices = {arm: share / worth for arm, share in zip(order, shares, strict=True)}
        stages = QuestionStages(fit.options, fit, tuple([prices[arm] for arm in fit.shortlist]))
        decide = _shared(stages, tuple(names), prices)
        rate = policy.exploration_rate(everyone)
        for task in range(start, end):
            row = table.votes[task]
            whole = {
                name: table.labels[vote] if vote >= 0 else None for name, vote in zip(names, row, strict=True)
            }
            explored = bool(draws[task] < rate)
            cast, labels[task], likely[task] = decide(whole, explored)
            asked[task] = [name in cast for name in names]
            everyone += explored
            rate = policy.exploration_rate(everyone)
            pattern = VotePattern.of(
                sorted(names), cast, everyone=explored, labels=named_labels(table.labels)
            )
            sums.add(ExplorationRound(pattern, None), +1)
        start = end
    cost = float((asked @ np.array([*table.prices.values()])).sum()) / (table.full_cost * tasks)
    return Decided(labels, likely, asked, cost, _fit(policy, table, sums))


def recounted(table: VotesTable, decided: Decided) -> Array:
    """The probability of each label by the last fit, given the votes that were asked for, shape (n, M)."""
    names, seen = list(table.prices), {}
    rows = np.where(decided.asked, table.votes, -2)
    unique, place = np.unique(rows, axis=0, return_inverse=True)
    for at, row in enumerate(unique.tolist()):
        cast = {
            name: table.labels[vote] if vote >= 0 else None
            for name, vote in zip(names, row, strict=True)
            if vote > -2
        }
        said = decided.fit.probabilities(cast)
        seen[at] = [said[label] for label in table.labels]
    return np.array([seen[at] for at in range(len(unique))])[place.reshape(-1)]


def _fit(policy: Joint, table: VotesTable, sums: ExplorationSums) -> JointFit:
    arms = tuple([(arm, 0.0) for arm in sorted(table.prices)])
    losses = policy.losses(table.labels)
    fit = JointFitData(sums.evidence, LatestRounds(), table.labels, arms, losses=losses).compute().joint
    assert isinstance(fit, JointFit)
    return fit


def _shared(
    stages: QuestionStages, names: tuple[str, ...], prices: dict[str, float]
) -> Callable[[Cast, bool], tuple[Cast, int, list[float]]]:
    """A function that asks and decides; tasks with the same votes share the work."""
    fit = stages.fit
    assert isinstance(fit, JointFit)
    further: dict[tuple[str | None, ...], list[str]] = {}
    decisions: dict[tuple[str | None, ...], tuple[int, list[float]]] = {}
    silent = "-"

    def key(cast: Cast) -> tuple[str | None, ...]:
        return tuple([cast.get(name, silent) for name in names])

    def decide(whole: Cast, explored: bool) -> tuple[Cast, int, list[float]]:
        cast: Cast = dict(whole) if explored else {}
        while not explored:
            at = key(cast)
            if at not in further:
                votes = {arm: {} if vote is None else {"q": vote} for arm, vote in cast.items()}
                further[at] = next_arms({"q": stages}, prices, votes)
            if not further[at]:
                break
            cast |= {arm: whole[arm] for arm in further[at]}
        at = key(cast)
        if at not in decisions:
            said = fit.probabilities(cast)
            values = fit.values(said)
            best = max(values, key=lambda label: values[label])
            decisions[at] = fit.options.index(best), [said[label] for label in fit.options]
        return (cast, *decisions[at])

    return decide


def one_against_rest(table: VotesTable, label: int) -> VotesTable:
    """The table with two labels: one, and all others."""
    votes, truth = (
        np.where(each < 0, each, (each == label).astype(np.int64)) for each in (table.votes, table.truth)
    )
    return replace(table, labels=("others", table.labels[label]), votes=votes, truth=truth)


def first(table: VotesTable, items: int) -> VotesTable:
    """The first items of a table."""
    return replace(
        table, contexts=table.contexts[:items], votes=table.votes[:items], truth=table.truth[:items]
    )
