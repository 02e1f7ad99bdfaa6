"""How soon drift raises an alarm, and how often an alarm is false.

    python benchmarks/drift.py [--projects 100] [--kinds harder breaks sorted none] [--seed 1] [--rate 0.03]

Made-up projects, of which only the exploration rounds are replayed, because no other round teaches anything
without human labels. They are those of the default policy, or with ``--rate`` those of a policy that asks
everyone in the first 300 rounds and, drawn at random, in that share of the later ones. Without a policy there
are no stops to test, and 100 projects take minutes.

- ``harder``: the last third of 12,000 tasks is harder.
- ``breaks``: one model answers at random in the second half of 16,000 tasks.
- ``sorted``: 10,000 tasks sorted by difficulty, the easiest first.
- ``none``: 20,000 tasks in random order.

Of every project with drift, the exploration rounds from its beginning to the first alarm are counted; for
``sorted``, where drift has no beginning, those in which a learned stop was tested. An alarm before the drift
counts as false.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from camvo.policies.joint import Joint
from camvo.policies.policy import Observation
from camvo.stages.stages import uniform_draw
from camvo.state.contribution import Restart
from camvo.state.exploration import ExplorationRound, VotePattern
from camvo.state.state import DriftTests, State

KINDS = ("harder", "breaks", "sorted", "none")
_TASKS = {"harder": 12_000, "breaks": 16_000, "sorted": 10_000, "none": 20_000}
_HARDER = 1.0
"""By how much the log-odds of a model of usual sensitivity fall."""
_FIRST = 300
_QUESTION = "label"
_CONTEXT = np.array([1.0])


@dataclass(frozen=True)
class Project:
    """A made-up project.

    Attributes:
        votes: positions in the label set, shape (n, K), the cheapest model first; −1 where a model failed.
        prices: model → price, ascending.
        labels: the number of labels.
        begins: the task with which the drift begins; n if there is none.
        broken: the model that breaks, if one does.
    """

    votes: NDArray[np.int64]
    prices: Mapping[str, float]
    labels: int
    begins: int
    broken: str | None = None


def drawn(kind: str, seed: int, tasks: int | None = None) -> Project:
    """Draw a project: 5 to 9 models of different skill, 2 to 20 labels, up to 10% of the votes missing."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n = tasks or _TASKS[kind]
    models, labels = int(rng.integers(5, 10)), int(rng.choice([2, 3, 5, 20]))
    begins = {"harder": n * 2 // 3, "breaks": n // 2, "sorted": 0, "none": n}[kind]
    ease = rng.normal(size=n)
    if kind == "sorted":
        ease = -np.sort(-ease)
    elif kind == "harder":
        ease[begins:] -= _HARDER
    skill, sensitivity = rng.uniform(1.0, 2.5, models), rng.uniform(0.7, 1.5, models)
    skill = skill[np.argsort(skill + 0.5 * rng.normal(size=models))]
    right = rng.random((n, models)) < 1.0 / (1.0 + np.exp(-skill - sensitivity * ease[:, None]))
    truth = rng.integers(labels, size=n)
    decoy = (truth + rng.integers(1, labels, size=n)) % labels
    other = (truth[:, None] + rng.integers(1, labels, size=(n, models))) % labels
    wrong = np.where(rng.random((n, models)) < 0.5, decoy[:, None], other)
    votes = np.where(right, truth[:, None], wrong)
    names = [f"model {number}" for number in range(1, models + 1)]
    broken = None
    if kind == "breaks":
        position = int(rng.integers(models))
        votes[begins:, position] = rng.integers(labels, size=n - begins)
        broken = names[position]
    votes[rng.random((n, models)) < rng.uniform(0.0, 0.1)] = -1
    prices = np.sort(np.exp(1.2 * rng.normal(size=models)))
    return Project(votes, dict(zip(names, prices.tolist(), strict=True)), labels, begins, broken)


@dataclass
class Alarms:
    """What the exploration rounds of a project raised.

    Attributes:
        restarts: the restarts, with the task after which each was due.
        explored: the tasks that exploration chose.
        tested: those of them that tested a learned stop.
    """

    restarts: list[tuple[int, Restart]] = field(default_factory=list)
    explored: list[int] = field(default_factory=list)
    tested: list[int] = field(default_factory=list)


def explore(project: Project, *, only_first: bool = True) -> Alarms:
    """Replay a project's exploration rounds with the default policy.

    Args:
        project: the project.
        only_first: whether to end with the first restart since the drift began.
    """
    policy, state, alarms = Joint(), State(1), Alarms()
    labels = tuple(str(label) for label in range(project.labels))
    for task, row in enumerate(project.votes):
        state.rounds = task
        rate = policy.exploration_rate(state.exploration.everyone_rounds(project.prices))
        if uniform_draw([_CONTEXT], task) >= rate:
            continue
        plan = policy.plan({_QUESTION: Observation(state, _CONTEXT, labels)}, project.prices)
        votes = {
            arm: {_QUESTION: labels[vote]} if vote >= 0 else {}
            for arm, vote in zip(project.prices, row.tolist(), strict=True)
        }
        decision = policy.decide(plan, votes).get(_QUESTION)
        if decision is None:
            continue
        taught = policy.contribution(plan, _QUESTION, votes, decision.label)
        state.add(taught)
        alarms.explored.append(task)
        if taught.exploration is not None and taught.exploration.promised is not None:
            alarms.tested.append(task)
        while (restart := state.restart_due()) is not None:
            alarms.restarts.append((task, restart))
            if only_first and task >= project.begins:
                return alarms
            state.restart_if_due()
    return alarms


def ask_everyone(project: Project, rate: float, seed: int) -> Alarms:
    """The tests alone, on rounds that ask everyone: the first 300, and a share of the later ones.

    Args:
        project: the project.
        rate: that share, in [0, 1].
        seed: draws the rounds.
    """
    tests, alarms = DriftTests(), Alarms()
    chosen = np.random.default_rng(seed).random(len(project.votes)) < rate
    chosen[:_FIRST] = True
    arms = tuple(project.prices)
    for task in np.flatnonzero(chosen).tolist():
        votes = dict(
            zip(arms, [str(vote) if vote >= 0 else None for vote in project.votes[task]], strict=True)
        )
        tests.add(ExplorationRound(VotePattern.of(arms, votes, everyone=True), right=None))
        alarms.explored.append(task)
        alarms.tested += [task] if task >= _FIRST else []
        if (restart := tests.due()) is not None:
            alarms.restarts.append((task, restart))
            if task >= project.begins:
                return alarms
            tests.restart(restart)
    return alarms


def waited(kind: str, project: Project, alarms: Alarms) -> int | None:
    """Exploration rounds from the beginning of the drift to the first alarm; ``None`` without an alarm."""
    end = next((task for task, _ in alarms.restarts if task >= project.begins), None)
    if end is None:
        return None
    counted = alarms.tested if kind == "sorted" else alarms.explored
    return sum(project.begins <= task <= end for task in counted)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--projects", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float)
    options = parser.parse_args()
    for kind in options.kinds:
        started, waits, first, false, blamed = time.monotonic(), [], Counter(), 0, 0
        for number in range(options.projects):
            seed = options.seed * 100_000 + number
            project = drawn(kind, seed)
            alarms = explore(project) if options.rate is None else ask_everyone(project, options.rate, seed)
            false += any(task < project.begins for task, _ in alarms.restarts)
            waits.append(waited(kind, project, alarms))
            found = [restart for task, restart in alarms.restarts if task >= project.begins][:1]
            first.update(restart.kind for restart in found)
            blamed += any(restart.arm == project.broken is not None for restart in found)
        noticed = sorted(wait for wait in waits if wait is not None)
        line = f"{kind:8} {options.projects} projects: {false} with a false alarm"
        if kind != "none":
            soon = sum(wait <= 500 for wait in noticed)
            line += f"; {soon} alarmed within 500 exploration rounds, {len(noticed)} ever"
            if noticed:
                quantiles = np.quantile(noticed, [0.5, 0.9]).round().astype(int).tolist()
                line += f" (median {quantiles[0]}, 90% {quantiles[1]}); by {dict(first)}"
        if kind == "breaks":
            line += f"; the broken model blamed in {blamed}"
        print(f"{line}; {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
