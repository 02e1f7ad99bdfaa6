"""Count false guarantees of 97% under orders of labelling that favour them, with and without the queue.

    OMP_NUM_THREADS=1 python benchmarks/labelling_orders.py [--projects 200] [--tasks 1000]

Each project has blind tasks of two looks. Of the tenth that look difficult 70% are right, of the others
99.89%: 96.9% in all, whatever the score. So the claim that 97% of all labels are right is false. Half of the
scores are above 0.975, the others are spread from 0.5 on. People look at the guarantee after every fifth
label, and stop at the first false claim. "As they come" counts every label that stands, as CaMVo did before
it had the queue.

A second table counts the labels that a claim needs where none is wrong, and where 99.5% are right.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from camvo.scores.guarantee import _GRID, BlindTask, Guarantee, Verdicts, queue_place, unbroken_run

LOOK = 5
TARGET = 0.97
EASY, DIFFICULT, SHARE_DIFFICULT = 0.9989, 0.7, 0.1


@dataclass(frozen=True)
class Project:
    """Blind tasks in the order of their queue: how each looks, its chance of being right, and the outcome."""

    queue: list[BlindTask]
    difficult: NDArray[np.bool_]
    chance: NDArray[np.float64]
    right: NDArray[np.bool_]

    def claim_is_false(self, threshold: float, run: int) -> bool:
        """Whether of the labels that a certificate covers too few are right: see ``covered_labels``.

        It covers finished cohorts, of a later one the share in the run, and the first cohort in any case.
        """
        scores = np.array([blind.score for blind in self.queue])
        first = sum(blind.cohort == 1 for blind in self.queue)
        covered = np.arange(len(self.queue)) < max(run, first)
        return bool(self.chance[covered & (scores >= threshold)].mean() < TARGET)


def draw(rng: np.random.Generator, tasks: int, cohorts: int = 1) -> Project:
    """A project; with two cohorts, all that look easy arrive in the first."""
    difficult = rng.random(tasks) < SHARE_DIFFICULT
    chance = np.where(difficult, DIFFICULT, EASY)
    low = rng.random(tasks) < 0.5
    scores = np.where(low, rng.uniform(0.5, 0.975, tasks), rng.uniform(0.975, 1.0, tasks))
    name = f"{rng.integers(1 << 30)}.1"
    arrived = 1 + (cohorts - 1) * (difficult | (rng.random(tasks) < 0.5))
    queue = [
        BlindTask(int(arrived[task]), queue_place(name, task), task, float(scores[task]), None)
        for task in range(tasks)
    ]
    queue.sort(key=lambda blind: blind.position)
    order = np.array([blind.task for blind in queue])
    return Project(queue, difficult[order], chance[order], (rng.random(tasks) < chance)[order])


@dataclass(frozen=True)
class Answer:
    """An answer on the task at a position of the queue, ``None`` for a skipped or deleted one."""

    position: int
    reward: float | None


Labeller = Callable[[Project, np.random.Generator], Iterator[Answer]]


def in_queue_order(project: Project, rng: np.random.Generator) -> Iterator[Answer]:
    return (Answer(position, float(right)) for position, right in enumerate(project.right))


def easy_first(project: Project, rng: np.random.Generator) -> Iterator[Answer]:
    for position in np.lexsort((rng.random(len(project.queue)), project.difficult)).tolist():
        yield Answer(position, float(project.right[position]))


def _with_wrong(project: Project, rng: np.random.Generator, *instead: float | None) -> Iterator[Answer]:
    """In the order of the queue, with other answers on half of the wrong labels."""
    for position, right in enumerate(project.right):
        answers = (float(right),) if right or rng.random() < 0.5 else instead
        yield from (Answer(position, answer) for answer in answers)


def skip_wrong(project: Project, rng: np.random.Generator) -> Iterator[Answer]:
    return _with_wrong(project, rng, None)


def delete_wrong(project: Project, rng: np.random.Generator) -> Iterator[Answer]:
    return _with_wrong(project, rng, 0.0, None)


def change_wrong(project: Project, rng: np.random.Generator) -> Iterator[Answer]:
    return _with_wrong(project, rng, 0.0, 1.0)


def leave_difficult(project: Project, rng: np.random.Generator) -> Iterator[Answer]:
    """In the order of the queue, but those that look difficult wait until the end."""
    for position in np.argsort(project.difficult, kind="stable").tolist():
        yield Answer(position, float(project.right[position]))


class Counted:
    """The labels in a guarantee, by position; each can be replaced."""

    def __init__(self, queue: list[BlindTask]) -> None:
        self.guarantee, self._queue = Guarantee(target=TARGET), queue
        self._rewards: dict[int, float] = {}

    def put(self, position: int, reward: float | None) -> None:
        score, before = self._queue[position].score, self._rewards.get(position)
        if before == reward:
            return
        self._rewards.pop(position, None)
        if before is not None:
            self.guarantee.update([(score, before)], sign=-1)
        if reward is not None:
            self._rewards[position] = reward
            self.guarantee.update([(score, reward)])


def claims_with_queue(project: Project, answers: Iterator[Answer]) -> bool:
    """Whether a false claim is ever made if the run counts."""
    queue, heard = list(project.queue), [Verdicts()] * len(project.queue)
    counted, run = Counted(queue), 0
    for number, answer in enumerate(answers, start=1):
        at = answer.position
        standing = {} if answer.reward is None else {at: answer.reward}
        heard[at] = heard[at].after(standing)
        queue[at] = replace(queue[at], reward=heard[at].reward(standing))
        if at < run:
            counted.put(at, queue[at].reward)
        if number % LOOK:
            continue
        while grown := unbroken_run(queue[run : run + 50]):
            for position, blind in enumerate(grown, start=run):
                counted.put(position, blind.reward)
            run += len(grown)
        certified = counted.guarantee.certified()
        if certified is not None and project.claim_is_false(certified.threshold, run):
            return True
    return False


def claims_as_they_come(project: Project, answers: Iterator[Answer]) -> bool:
    """Whether a claim is ever made if every label counts that stands; it speaks for all labels."""
    counted = Counted(project.queue)
    for number, answer in enumerate(answers, start=1):
        counted.put(answer.position, answer.reward)
        if number % LOOK == 0 and counted.guarantee.certified() is not None:
            return True
    return False


LABELLERS: dict[str, Labeller] = {
    "in the order of the queue": in_queue_order,
    "easy-looking first": easy_first,
    "the order of the queue, difficult-looking last": leave_difficult,
    "half of the wrong ones skipped": skip_wrong,
    "half of the wrong ones deleted": delete_wrong,
    "half of the wrong ones changed after a second look": change_wrong,
}


def false_claims(labeller: Labeller, *, queue: bool, projects: int, tasks: int, cohorts: int = 1) -> float:
    """The share of projects with a false claim."""
    rng, rule = np.random.default_rng(14), claims_with_queue if queue else claims_as_they_come
    drawn = (draw(rng, tasks, cohorts) for _ in range(projects))
    return float(np.mean([rule(project, labeller(project, rng)) for project in drawn]))


def labels_needed(shares: dict[float, float], accuracy: float, projects: int) -> float:
    """The median number of labels until a claim, for scores with these shares and labels right so often."""
    needed, rng = [], np.random.default_rng(5)
    for _ in range(projects if accuracy < 1.0 else 1):
        guarantee, labels = Guarantee(target=TARGET), 0
        while guarantee.certified() is None and labels < 5000:
            score = rng.choice(list(shares), p=list(shares.values()))
            guarantee.update([(float(score), float(rng.random() < accuracy))])
            labels += 1
        needed.append(labels)
    return median(needed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--projects", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=1000)
    given = vars(parser.parse_args())
    print("| labelled | false claims, labels as they come | with the queue |\n|---|---|---|")
    for name, labeller in LABELLERS.items():
        shares = [false_claims(labeller, queue=queue, **given) for queue in (False, True)]
        print(f"| {name} | {shares[0]:.1%} | {shares[1]:.1%} |", flush=True)
    shares = [false_claims(in_queue_order, queue=queue, cohorts=2, **given) for queue in (False, True)]
    print(f"| easy-looking tasks imported first | {shares[0]:.1%} | {shares[1]:.1%} |\n", flush=True)
    print("| scores | labels needed, none wrong | median, 99.5% right |\n|---|---|---|")
    kinds = {
        "all above 0.975": {0.99: 1.0},
        "half above 0.975": {0.99: 0.5, 0.8: 0.5},
        "evenly over the grid": dict.fromkeys((*_GRID,), 1.0 / len(_GRID)),
        "none above 0.975": {0.9: 1.0},
    }
    for name, scores in kinds.items():
        needed = [labels_needed(scores, accuracy, 50) for accuracy in (1.0, 0.995)]
        print(f"| {name} | {needed[0]:g} | {needed[1]:g} |", flush=True)


if __name__ == "__main__":
    main()
