"""Time the Oracle, compared with a numpy brute force in the same run.

    OMP_NUM_THREADS=1 python benchmarks/subset_search.py [--problems 300] [--arms 7 12 20]

Problems look like those of a project: L uniform in [0.5, 0.97]; costs log-uniform over two decades; weights
μ·q with μ and q near L; δ one of 0.85 … 0.99; k_min 1 or 3; infeasible problems stay in. Every answer is
checked against the brute force where that runs. Times are microseconds of processor time; the ratios matter.

- "table" is the search of a policy with the Beta approximation and up to twelve models.
- "window" is the same for 64 tasks, per task.
- "beta", "exact" and "copula" are the search with each confidence.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import NamedTuple

import numpy as np
from scipy.special import betainc

from camvo.subsets.confidence import Copula
from camvo.subsets.oracle import MOST_SETS, cheapest_subset, cheapest_subsets

TASKS = 64


class Problem(NamedTuple):
    costs: np.ndarray
    lower: np.ndarray
    weights: np.ndarray
    delta: float
    k_min: int


def problem(rng: np.random.Generator, arms: int) -> Problem:
    lower = rng.uniform(0.5, 0.97, arms)
    mu = np.clip(lower + rng.normal(0.0, 0.05, arms), 0.3, 1.0)
    q = np.clip(lower + rng.normal(0.0, 0.08, arms), 0.05, 1.0)
    costs = np.exp(rng.uniform(np.log(0.05), np.log(5.0), arms))
    return Problem(
        costs, lower, mu * q, float(rng.choice([0.85, 0.9, 0.95, 0.97, 0.99])), int(rng.choice([1, 3]))
    )


def brute_force(task: Problem, form: str) -> float | None:
    """The cost of the cheapest of all 2^K sets that reaches δ; ``None`` if there is none."""
    n = len(task.costs)
    sets = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.float64)
    if form in ("beta", "table"):
        right, wrong = sets @ (task.weights * task.lower), sets @ (task.weights * (1.0 - task.lower))
        reached = np.zeros(2**n)
        reached[1:] = betainc(wrong[1:], right[1:], 0.5)
    else:
        # Each arm is out, in and wrong, or in and right: 3^K states.
        lead, chance, number = np.zeros(1), np.ones(1), np.zeros(1, dtype=np.int64)
        for arm, (p, w) in enumerate(zip(task.lower, task.weights, strict=True)):
            lead = np.concatenate((lead, lead - w, lead + w))
            chance = np.concatenate((chance, chance * (1.0 - p), chance * p))
            number = np.concatenate((number, number | 1 << arm, number | 1 << arm))
        reached = np.bincount(number, weights=chance * (lead > 1e-12), minlength=2**n)
    enough = (reached >= task.delta - 1e-12) & (sets.sum(axis=1) >= task.k_min)
    return float((sets @ task.costs)[enough].min()) if enough.any() else None


def microseconds(function: object, repeats: int) -> tuple[float, object]:
    times = []
    for _ in range(repeats):
        start = time.process_time_ns()
        answer = function()
        times.append((time.process_time_ns() - start) / 1e3)
    return float(np.median(times)), answer


def search_one(task: Problem, form: str) -> object:
    """The subset for one task, from the table of all sets or by the search with one of the confidences."""
    if form == "table":
        demand = (task.lower[None], task.weights[None])
        return cheapest_subsets(task.costs, [demand], task.delta, task.k_min, held=[])[0]
    arms = len(task.costs)
    copulas = [Copula(np.full((arms, arms), 0.3) + 0.7 * np.eye(arms))] if form == "copula" else []
    demand = (task.lower, task.weights)
    return cheapest_subset(task.costs, [demand], task.delta, task.k_min, confidence=form, copulas=copulas)


def measure_window(arms: int, count: int) -> str:
    """The line of a task that is planned together with 63 others."""
    rng = np.random.default_rng(arms)
    times = []
    for _ in range(count):
        tasks = [problem(rng, arms) for _ in range(TASKS)]
        demand = (np.array([task.lower for task in tasks]), np.array([task.weights for task in tasks]))
        first = tasks[0]

        def search(first: Problem = first, demand: tuple[np.ndarray, np.ndarray] = demand) -> object:
            return cheapest_subsets(first.costs, [demand], first.delta, first.k_min, held=[])

        search()
        times.append(microseconds(search, 3)[0] / TASKS)
    return (
        f"{'window':7} {arms:3} {np.median(times):10.1f} {np.quantile(times, 0.9):10.1f} {max(times):10.1f}"
    )


def measure(form: str, arms: int, count: int, brute: int) -> str:
    rng = np.random.default_rng(arms)
    problems = [problem(rng, arms) for _ in range(count)]
    times, gave_up, ratios, infeasible = [], 0, [], 0
    for number, task in enumerate(problems):

        def search(task: Problem = task) -> object:
            return search_one(task, form)

        search()
        duration, subset = microseconds(search, 3)
        times.append(duration)
        gave_up += subset is not None and not subset.complete
        infeasible += subset is None
        if number < brute:
            brute_time, cost = microseconds(lambda task=task: brute_force(task, form), 1)
            ratios.append(brute_time / duration)
            if subset is None or subset.complete:
                mine = None if subset is None else task.costs[list(subset.arms)].sum()
                assert (mine is None) == (cost is None), (task, mine, cost)
                assert mine is None or abs(mine - cost) <= 1e-9 * cost, (task, mine, cost)
    ratio = f"{np.median(ratios):9.1f}" if ratios else "        –"
    return (
        f"{form:7} {arms:3} {np.median(times):10.0f} {np.quantile(times, 0.9):10.0f} {max(times):10.0f}"
        f" {ratio} {infeasible / count:10.0%} {gave_up:8}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--arms", type=int, nargs="*", default=[7, 12, 20])
    parser.add_argument("--forms", nargs="*", default=["table", "beta", "exact", "copula"])
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {options.problems} problems a line")
    print("form      K     median        p90      worst   × brute infeasible  gave up")
    for arms in options.arms:
        for form in options.forms:
            if form == "table" and 2**arms > MOST_SETS:
                continue
            brute = {7: 100, 12: 10}.get(arms, 2 if arms > 12 and form == "beta" else 0)
            print(measure(form, arms, options.problems, 0 if form == "copula" else brute), flush=True)
            if form == "table":
                print(measure_window(arms, 20), flush=True)


if __name__ == "__main__":
    main()
