"""How often annotators are right: properties of the fit, and what its intervals promise, by simulation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from scipy.special import betaincinv
from simulated_people import simulate

from camvo.annotators import _ACCURACY_LEVEL, PRIOR_PERSON, PeoplesTask, fit_reliabilities, weighed_label
from camvo.errors import InvalidParameterError
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.registry import agreed_answer

MIXED = (0.95, 0.8, 0.65)


def test_with_ground_truth_the_accuracy_is_the_share_right_with_the_prior() -> None:
    right = [PeoplesTask({"1": "a"}, truth="a")] * 30
    wrong = [PeoplesTask({"1": "b"}, truth="a")] * 10
    [fitted] = fit_reliabilities(right + wrong, 3).people.values()
    assert fitted.right == pytest.approx((30 + 6 * PRIOR_PERSON) / 46)
    assert fitted.labels == 40


@pytest.mark.parametrize(("right", "wrong"), [(30, 10), (9, 1), (1, 0)])
def test_with_ground_truth_the_interval_is_that_of_as_many_labels_as_were_judged(
    right: int, wrong: int
) -> None:
    """Their number is Σ(c − p)² / p(1 − p) for c = 1 where a label is right, else 0; and at least 1."""
    tasks = [PeoplesTask({"1": "a"}, truth="a")] * right + [PeoplesTask({"1": "b"}, truth="a")] * wrong
    [fitted] = fit_reliabilities(tasks, 3).people.values()
    p = fitted.right
    judged = max((right * (1 - p) ** 2 + wrong * p**2) / (p * (1 - p)), 1.0)
    tail = (1 - _ACCURACY_LEVEL) / 2
    assert [fitted.low, fitted.high] == pytest.approx(
        betaincinv(p * judged, (1 - p) * judged, [tail, 1 - tail]).tolist(), rel=1e-6
    )


def test_a_model_and_its_copy_speak_as_one_voter() -> None:
    tasks, _ = simulate(11, MIXED, 60, 2, 3, models=True)
    one = [PeoplesTask(task.people, {"m": next(iter(task.models.values()))}) for task in tasks]
    two = [PeoplesTask(task.people, {**task.models, "copy": task.models["m"]}) for task in one]
    alone, together = fit_reliabilities(one, 3), fit_reliabilities(two, 3)
    assert {name: person.right for name, person in together.people.items()} == pytest.approx(
        {name: person.right for name, person in alone.people.items()}
    )
    assert together.models["copy"] == pytest.approx(alone.models["m"])


def test_the_fit_is_a_stationary_point_of_the_posterior() -> None:
    """The oracle sums over all labels of all tasks, without the EM."""
    tasks, _ = simulate(5, MIXED, 30, 2, 2, models=False)
    fitted = fit_reliabilities(tasks, 2).people

    def log_posterior(right: Sequence[float]) -> float:
        total = sum(6.0 * (PRIOR_PERSON * np.log(p) + (1 - PRIOR_PERSON) * np.log(1 - p)) for p in right)
        for task in tasks:
            chances = [
                np.prod(
                    [right[int(n)] if said == y else 1 - right[int(n)] for n, said in task.people.items()]
                )
                for y in ("0", "1")
            ]
            total += np.log(sum(chances))
        return float(total)

    top = [fitted[str(person)].right for person in range(3)]
    for steps in product((-1e-3, 0.0, 1e-3), repeat=3):
        assert log_posterior(np.add(top, steps).tolist()) <= log_posterior(top) + 1e-9


def test_the_order_of_tasks_changes_nothing() -> None:
    tasks, _ = simulate(3, MIXED, 50, 2, 3)
    one, other = fit_reliabilities(tasks, 3).people, fit_reliabilities(tasks[::-1], 3).people
    assert {name: fit.right for name, fit in one.items()} == pytest.approx(
        {name: fit.right for name, fit in other.items()}
    )


def test_models_alone_judge_nobody() -> None:
    votes = {"m1": "b", "m2": "b", "m3": "b"}
    fitted = fit_reliabilities([PeoplesTask({"1": "a"}, votes)] * 50, 2)
    assert (fitted.people, fitted.tasks) == ({}, 0)


def test_two_people_who_agree_are_believed_against_all_models() -> None:
    votes = {f"m{number}": "b" for number in range(7)}
    agreeing = [PeoplesTask({"1": "a", "2": "a"}, votes)] * 50
    fitted = fit_reliabilities(agreeing, 2)
    assert min(person.right for person in fitted.people.values()) > 0.9
    assert max(fitted.models.values()) < 0.3


def test_a_spammer_is_found_among_three() -> None:
    tasks, _ = simulate(7, (0.9, 0.9, 0.25), 60, 3, 4)
    assert fit_reliabilities(tasks, 4).people["2"].high < 0.5


def test_one_label_is_refused() -> None:
    with pytest.raises(InvalidParameterError):
        fit_reliabilities([], 1)


def shares_right(accuracies: Sequence[float], each: int, labels: int, tasks: int) -> tuple[float, float]:
    """Right labels per task, by the majority and by the weighed label; an undecided task has none."""
    majority = weighed = 0
    for seed in range(20):
        answered, truths = simulate(seed, accuracies, tasks, each, labels)
        people = fit_reliabilities(answered, labels).people
        for task, truth in zip(answered, truths, strict=True):
            said = sorted(task.people.items())
            options = [str(label) for label in range(labels)]
            majority += agreed_answer(LABEL_VOTE, [label for _, label in said], options) == truth
            weighed += weighed_label([(label, people[name].right) for name, label in said], labels) == truth
    return majority / (20 * tasks), weighed / (20 * tasks)


@pytest.mark.parametrize(
    ("accuracies", "each", "labels", "gain"),
    [(MIXED, 3, 2, 0.01), (MIXED, 2, 4, 0.15), ((0.9, 0.9, 0.25, 0.25), 3, 4, 0.2)],
    ids=["three people", "two of three people", "two of four are spammers"],
)
def test_weighed_labels_are_right_more_often_than_the_majority(
    accuracies: Sequence[float], each: int, labels: int, gain: float
) -> None:
    majority, weighed = shares_right(accuracies, each, labels, 100)
    assert weighed > majority + gain


def test_few_labels_do_no_harm() -> None:
    majority, weighed = shares_right((0.9, 0.9, 0.9), 3, 2, 8)
    assert weighed > majority - 0.01


@pytest.mark.parametrize("tasks", [20, 100])
@pytest.mark.parametrize("models", [True, False])
def test_intervals_hold_the_accuracy_as_often_as_they_say(tasks: int, models: bool) -> None:
    held, below = [], []
    for seed in range(100):
        answered, _ = simulate(seed, MIXED, tasks, 3, 3, models=models)
        people = fit_reliabilities(answered, 3).people
        fits = [(people[str(number)], right) for number, right in enumerate(MIXED)]
        held += [fit.low <= right <= fit.high for fit, right in fits]
        below += [fit.high < right for fit, right in fits]
    assert np.mean(held) > _ACCURACY_LEVEL - 0.04
    assert np.mean(below) < 0.08, "an annotator is rarely judged worse than they are"
