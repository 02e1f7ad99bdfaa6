"""How much of a label is found: the threshold, its bound, and how often the claim is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.errors import InvalidParameterError
from camvo.scores.guarantee import label_found, labels_to_find


def blind(has, *, others=0, unknown=()):
    """Blind tasks: the scores of those with the label, how many have another, and scores without answer."""
    return [(score, True) for score in has] + [(0.9, False)] * others + [(score, None) for score in unknown]


def test_the_threshold_is_the_highest_that_is_certified():
    found = label_found(blind([0.9] * 150 + [0.4] * 20 + [0.1] * 5), 0.9)
    assert found is not None
    assert (found.threshold, found.blind, found.found) == (0.4, 175, 170)


def test_too_few_tasks_with_the_label_certify_nothing():
    needed = labels_to_find(0.95)
    assert label_found(blind([0.9] * (needed - 1), others=5000), 0.95) is None
    assert label_found(blind([0.9] * needed, others=5000), 0.95) is not None


@pytest.mark.parametrize(("target", "needed"), [(0.8, 17), (0.9, 36), (0.95, 74)])
def test_as_many_tasks_with_the_label_are_needed_as_the_target_asks_for(target, needed):
    assert labels_to_find(target) == needed


def test_tasks_with_another_label_change_nothing():
    scores = np.linspace(0.01, 1.0, 200).tolist()
    assert label_found(blind(scores), 0.8) == label_found(blind(scores, others=999), 0.8)


def test_equal_scores_are_found_together():
    found = label_found(blind([0.5] * 90), 0.95)
    assert found is not None
    assert (found.threshold, found.found) == (0.5, 90)


def test_the_bound_is_at_least_the_target_and_below_the_share_that_was_found():
    found = label_found(blind([0.9] * 190 + [0.1] * 10), 0.8)
    assert found is not None
    assert 0.8 <= found.bound < 1.0
    more = label_found(blind([0.9] * 1900 + [0.1] * 100), 0.8)
    assert more is not None
    assert found.bound <= more.bound


def test_a_task_without_an_answer_counts_as_missed_where_it_is_not_found():
    scores = [0.9] * 80 + [0.5] * 20
    free = label_found(blind(scores), 0.9)
    held = label_found(blind(scores, unknown=[0.2] * 40), 0.9)
    above = label_found(blind(scores, unknown=[0.95] * 40), 0.9)
    assert held is None
    assert above == free


def test_a_lower_target_has_no_lower_threshold():
    scores = np.random.default_rng(0).random(300).tolist()
    thresholds = [
        found.threshold for target in (0.6, 0.7, 0.8, 0.9) if (found := label_found(blind(scores), target))
    ]
    assert len(thresholds) == 4
    assert thresholds == sorted(thresholds, reverse=True)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 1.2])
def test_a_target_that_is_no_share_is_refused(bad):
    with pytest.raises(InvalidParameterError):
        label_found([], bad)


def test_the_claim_is_wrong_in_at_most_5_percent_of_the_projects_whoever_looks_after_every_label():
    rng, wrong, projects = np.random.default_rng(5), 0, 300
    for _ in range(projects):
        scores = np.sort(rng.beta(1.0, 2.0, 2000))
        sample = rng.choice(scores, 250, replace=False)
        for looks in range(20, 251, 10):
            found = label_found(blind(sample[:looks].tolist()), 0.8)
            if found is not None and (scores >= found.threshold).mean() < 0.8:
                wrong += 1
                break
    assert wrong <= 0.05 * projects + 2.0 * np.sqrt(0.05 * 0.95 * projects)
