"""How long the Oracle takes, beside a numpy brute force of the same run.

    OMP_NUM_THREADS=1 python benchmarks/subset_search.py [--problems 300] [--arms 7 12 20]

Problems look like those of a project: L uniform in [0.5, 0.97]; costs log-uniform over two decades; weights
μ·q with μ and q near L; δ one of 0.85 … 0.99; k_min 1 or 3; whatever is infeasible stays in. Every answer is
checked against the brute force where that is run. Times are microseconds of the processor; read the ratios.
"table" is what a policy with the Beta approximation does for up to twelve models, "window" the same for 64
tasks, per task; "beta", "exact" and "copula" are the search with each confidence.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import NamedTuple

import numpy as np
from scipy.special import betainc

from camvo.subsets.copula import Copula
from camvo.subsets.oracle import cheapest_subset
from camvo.subsets.table_search import MOST_SETS, cheapest_subsets

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


def brute_force(given: Problem, form: str) -> float | None:
    """The cost of the cheapest set by δ_A of all 2^K sets, vectorised."""
    n = len(given.costs)
    sets = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.float64)
    if form in ("beta", "table"):
        right, wrong = sets @ (given.weights * given.lower), sets @ (given.weights * (1.0 - given.lower))
        reached = np.zeros(2**n)
        reached[1:] = betainc(wrong[1:], right[1:], 0.5)
    else:
        # Every arm is out, in and wrong, or in and right: 3^K states.
        lead, chance, number = np.zeros(1), np.ones(1), np.zeros(1, dtype=np.int64)
        for arm, (p, w) in enumerate(zip(given.lower, given.weights, strict=True)):
            lead = np.concatenate((lead, lead - w, lead + w))
            chance = np.concatenate((chance, chance * (1.0 - p), chance * p))
            number = np.concatenate((number, number | 1 << arm, number | 1 << arm))
        reached = np.bincount(number, weights=chance * (lead > 1e-12), minlength=2**n)
    enough = (reached >= given.delta - 1e-12) & (sets.sum(axis=1) >= given.k_min)
    return float((sets @ given.costs)[enough].min()) if enough.any() else None


def microseconds(function: object, repeats: int) -> tuple[float, object]:
    times = []
    for _ in range(repeats):
        start = time.process_time_ns()
        answer = function()
        times.append((time.process_time_ns() - start) / 1e3)
    return float(np.median(times)), answer


def searched(given: Problem, form: str) -> object:
    """The answer for one task: from the table of all sets, or by the search with one of the confidences."""
    if form == "table":
        demand = (given.lower[None], given.weights[None])
        return cheapest_subsets(given.costs, [demand], given.delta, given.k_min, held=[])[0]
    arms = len(given.costs)
    copulas = [Copula(np.full((arms, arms), 0.3) + 0.7 * np.eye(arms))] if form == "copula" else []
    demand = (given.lower, given.weights)
    return cheapest_subset(given.costs, [demand], given.delta, given.k_min, confidence=form, copulas=copulas)


def together(arms: int, count: int) -> str:
    """What a task costs that is planned with 63 others."""
    rng = np.random.default_rng(arms)
    took = []
    for _ in range(count):
        tasks = [problem(rng, arms) for _ in range(TASKS)]
        demand = (np.array([task.lower for task in tasks]), np.array([task.weights for task in tasks]))
        first = tasks[0]

        def search(first: Problem = first, demand: tuple[np.ndarray, np.ndarray] = demand) -> object:
            return cheapest_subsets(first.costs, [demand], first.delta, first.k_min, held=[])

        search()
        took.append(microseconds(search, 3)[0] / TASKS)
    return f"{'window':7} {arms:3} {np.median(took):10.1f} {np.quantile(took, 0.9):10.1f} {max(took):10.1f}"


def measure(form: str, arms: int, count: int, brute: int) -> str:
    rng = np.random.default_rng(arms)
    problems = [problem(rng, arms) for _ in range(count)]
    took, gave_up, ratios, infeasible = [], 0, [], 0
    for number, given in enumerate(problems):

        def search(given: Problem = given) -> object:
            return searched(given, form)

        search()
        time_taken, found = microseconds(search, 3)
        took.append(time_taken)
        gave_up += found is not None and not found.complete
        infeasible += found is None
        if number < brute:
            brute_time, cost = microseconds(lambda given=given: brute_force(given, form), 1)
            ratios.append(brute_time / time_taken)
            if found is None or found.complete:
                mine = None if found is None else given.costs[list(found.arms)].sum()
                assert (mine is None) == (cost is None), (given, mine, cost)
                assert mine is None or abs(mine - cost) <= 1e-9 * cost, (given, mine, cost)
    ratio = f"{np.median(ratios):9.1f}" if ratios else "        –"
    return (
        f"{form:7} {arms:3} {np.median(took):10.0f} {np.quantile(took, 0.9):10.0f} {max(took):10.0f}"
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
                print(together(arms, 20), flush=True)


if __name__ == "__main__":
    main()
