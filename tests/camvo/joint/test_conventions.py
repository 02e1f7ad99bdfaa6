"""Conventions: what people say where the votes say a label, taken only if held-out labels prove them."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.joint.conventions import Conventions

LABELS = ("bad", "poor", "fair", "good")
SIZE = 60


def votes_of(sureness=0.9, seed=0):
    """The label by the votes of each task, and its probabilities, which are right as often as they say."""
    rng = np.random.default_rng(seed)
    leads = rng.integers(len(LABELS), size=SIZE)
    right = np.full((SIZE, len(LABELS)), (1.0 - sureness) / (len(LABELS) - 1))
    right[np.arange(SIZE), leads] = sureness
    other = (leads + rng.integers(1, len(LABELS), size=SIZE)) % len(LABELS)
    return np.where(rng.random(SIZE) < sureness, leads, other), right


def fit(right, truth, rival=None, sure=None):
    theirs = right if rival is None else rival
    return Conventions.fit(
        LABELS, right, truth, lambda held: theirs[held], np.full(SIZE, True) if sure is None else sure
    )


def one_lower(truth):
    return np.maximum(truth - 1, 0)


def test_people_who_rate_one_lower_than_the_models_are_followed():
    truth, right = votes_of()
    found = fit(right, one_lower(truth))
    assert found.describe()["people_say"] == {"poor": "bad", "fair": "poor", "good": "fair"}


def test_a_label_that_nobody_votes_for_can_come_out():
    truth, right = votes_of()
    found = fit(right, one_lower(truth))
    said = found.said({"bad": 0.0, "poor": 0.0, "fair": 0.0, "good": 1.0})
    assert max(said, key=lambda label: said[label]) == "fair"


@pytest.mark.parametrize("seed", range(20))
def test_people_who_say_what_the_votes_say_prove_no_convention(seed):
    truth, right = votes_of(seed=seed)
    assert fit(right, truth) is None


@pytest.mark.parametrize("seed", range(20))
def test_people_who_err_at_random_prove_no_convention(seed):
    truth, right = votes_of(seed=seed)
    noise = np.random.default_rng([seed, 1])
    said = np.where(noise.random(SIZE) < 0.3, noise.integers(len(LABELS), size=SIZE), truth)
    assert fit(right, said) is None


def test_a_rival_that_knows_as_much_is_kept():
    truth, right = votes_of()
    people = one_lower(truth)
    assert fit(right, people, rival=np.eye(len(LABELS))[people] * 0.9 + 0.025) is None


def test_labels_of_doubtful_tasks_alone_prove_nothing():
    truth, right = votes_of()
    assert fit(right, one_lower(truth), sure=np.full(SIZE, False)) is None


@pytest.mark.parametrize(("sure", "taken"), [(30, True), (15, False)])
def test_sure_tasks_have_to_prove_it_alone_only_if_they_were_labelled_less_often(sure, taken):
    leads = np.array([0] * 30 + [1, 2, 3] * 10)
    right = np.full((SIZE, len(LABELS)), 0.1 / 3)
    right[np.arange(SIZE), leads] = 0.9
    order = np.random.default_rng(0).permutation(SIZE)
    # the sure tasks are of the lowest label, which has none below it, and so cannot prove anything
    found = fit(right[order], one_lower(leads)[order], sure=np.arange(SIZE)[order] < sure)
    assert (found is not None) == taken


def test_fewer_than_ten_labels_prove_nothing():
    truth, right = votes_of()
    people = one_lower(truth)
    few = np.full(9, True)
    assert Conventions.fit(LABELS, right[:9], people[:9], lambda held: right[:9][held], few) is None


def test_certain_votes_teach_the_counts_of_what_people_say():
    truth, _ = votes_of()
    found = fit(np.eye(len(LABELS))[truth], one_lower(truth))
    counts = np.zeros((len(LABELS), len(LABELS)))
    np.add.at(counts, (truth, one_lower(truth)), 1.0)
    spread = (counts.sum(axis=0) + 1.0) / (SIZE + len(LABELS))
    fits = []
    for own in (3.0, 10.0, 30.0):
        expected = counts + own * np.eye(len(LABELS)) + spread
        fits.append(np.abs(found.matrix - expected / expected.sum(axis=1, keepdims=True)).max())
    assert min(fits) < 1e-9


def test_probabilities_sum_to_one():
    truth, right = votes_of(sureness=0.7)
    found = fit(right, one_lower(truth))
    for row in right:
        said = found.said(dict(zip(LABELS, row.tolist(), strict=True)))
        assert sum(said.values()) == pytest.approx(1.0, abs=1e-12)
        assert min(said.values()) >= 0.0
