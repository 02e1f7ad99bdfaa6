"""Simulated annotators: labels of people with known accuracies, and votes of models that share errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from camvo.annotators import PeoplesTask

MODELS = (0.7, 0.75, 0.8)


def simulate(
    seed: int, accuracies: Sequence[float], tasks: int, each: int, labels: int, *, models: bool = True
) -> tuple[list[PeoplesTask], list[str]]:
    """Tasks with the labels of ``each`` random people and the votes of three models, and the true labels.

    A quarter of the tasks are hard for all models, which then often name the same wrong label.
    """
    draws = np.random.default_rng(seed)
    found, truths = [], []
    for _ in range(tasks):
        truth = int(draws.integers(labels))
        wrong = [label for label in range(labels) if label != truth]
        decoy, hard = draws.choice(wrong), draws.random() < 0.25
        chosen = draws.choice(len(accuracies), each, replace=False)
        people = {
            str(person): str(truth if draws.random() < accuracies[person] else draws.choice(wrong))
            for person in chosen
        }
        votes = {}
        for number, right in enumerate(MODELS):
            share = right - 0.35 if hard else right + 0.35 / 3.0
            error = decoy if draws.random() < 0.5 else draws.choice(wrong)
            votes[f"m{number}"] = str(truth if draws.random() < share else error)
        found.append(PeoplesTask(people, votes if models else {}))
        truths.append(str(truth))
    return found, truths
