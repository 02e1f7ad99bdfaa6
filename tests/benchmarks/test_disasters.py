"""The made-up kinds on which a model of votes may fail have what their names say."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pytest
from disasters import casts, outcome, plain_votes
from joint_fits import fitted, labelled_by
from made_up.disasters import KINDS
from made_up.drawing import drawn

from camvo.joint.joint_fit import JointFit
from camvo.replays.replay import VotesTable

BY_NAME = {kind.name: kind for kind in KINDS}
MENDED = (
    *(name for name in BY_NAME if re.match("[2345] good .* [23] labels", name)),
    *(name for name in BY_NAME if name.startswith("three copies of")),
    *(name for name in BY_NAME if "constant" in name),
    *(name for name in BY_NAME if name.endswith("third label")),
    *(name for name in BY_NAME if name.startswith("labels that nobody")),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_table_has_its_labels_and_a_seed_draws_it_again(kind):
    first, again, other = (drawn(kind, seed, items=200).table for seed in (0, 0, 1))
    assert len(first.labels) == kind.labels
    assert (first.votes == again.votes).all()
    assert (first.votes.shape, first.votes.sum()) != (other.votes.shape, other.votes.sum())


def test_a_stray_third_label_has_one_vote():
    table = drawn(BY_NAME["a stray third label"], 0).table
    assert ((table.votes == 2).sum(), (table.truth == 2).sum()) == (1, 0)


def test_all_models_miss_the_same_label():
    table = drawn(BY_NAME["a label that all models miss"], 0).table
    labels, _ = plain_votes(table)
    assert np.mean(labels[table.truth == 2] == 0) > 0.8


def test_labels_that_nobody_votes_are_in_the_config():
    table = drawn(BY_NAME["labels that nobody votes, 3 of 10 used"], 0).table
    assert (len(table.labels), table.votes.max()) == (10, 2)


@pytest.mark.parametrize("seed", [3, 4])
def test_weak_models_that_err_together_do_not_outvote_two_good_ones(seed):
    fitted = outcome(BY_NAME["2 good among weak, 2 labels"], seed)
    assert fitted.joint > fitted.majority + 20.0


@pytest.mark.parametrize("name", MENDED)
def test_a_label_free_fit_is_not_below_the_majority(name):
    fitted = outcome(BY_NAME[name], 0)
    assert fitted.joint > fitted.majority - 0.5


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("one constant voter, 2 labels", 33),
        ("three copies of a model among alike, 4 labels", 33),
        ("two modes, 2 labels", 45),
        ("three copies of a model among alike, 2 labels", 75),
        ("three copies of a good model, 2 labels", 76),
        ("4 good among weak, 2 labels", 78),
        ("2 good among weak, 2 labels", 93),
    ],
)
def test_the_worst_draws_found_are_hardly_below_the_majority(name, seed):
    fitted = outcome(BY_NAME[name], seed)
    assert fitted.joint > fitted.majority - 1.5


def fit_with(table: VotesTable, items: Iterable[int]) -> JointFit:
    """A fit to 300 rounds that asked every model, and to people's labels of some items."""
    rounds = list(casts(table))
    known = [(rounds[item], table.labels[table.truth[item]]) for item in items]
    return fitted(rounds[:300], known, dict(table.prices), table.labels)


def taught(name: str, seed: int, labels: int) -> tuple[float, float, bool]:
    """The shares of right labels of the majority and of a fit with human labels, and whether it fell back."""
    table = drawn(BY_NAME[name], seed).table
    fit = fit_with(table, np.random.default_rng(seed).permutation(300)[:labels])
    majority, _ = plain_votes(table)
    labelled = labelled_by(fit, list(casts(table)))
    return float(np.mean(majority == table.truth)), float(np.mean(labelled == table.truth)), fit.contradicted


def test_human_labels_that_contradict_the_model_of_votes_let_all_models_count_alike():
    contradicted = [taught("three copies of a model among alike, 2 labels", 2, labels=100)]
    found = [(right, majority) for majority, right, alike in contradicted if alike]
    assert found
    assert all(right > majority for right, majority in found)


def test_human_labels_decide_whether_arms_are_a_family_of_which_the_others_tell_nothing():
    missed = outcome(BY_NAME["three copies of a model among alike, 2 labels"], 15)
    assert missed.joint == pytest.approx(missed.majority, abs=0.5)
    majority, right, contradicted = taught("three copies of a model among alike, 2 labels", 15, labels=100)
    assert not contradicted
    assert right > majority


@pytest.mark.parametrize("seed", [2, 12, 13])
def test_two_modes_count_all_models_alike_until_human_labels_choose_one(seed):
    free = outcome(BY_NAME["two modes, 2 labels"], seed)
    assert free.joint > free.majority - 0.5
    majority, right, _ = taught("two modes, 2 labels", seed, labels=200)
    assert right > majority + 0.01


def test_human_labels_that_confirm_the_model_of_votes_keep_it():
    majority, right, contradicted = taught("three constant voters, 4 labels", 0, labels=50)
    assert not contradicted
    assert right > majority + 0.1


def corrected(name: str, share: float, labels: int) -> tuple[JointFit, JointFit]:
    """The fits without human labels, and with some of which this share corrects the label of the first."""
    table = drawn(BY_NAME[name], 1).table
    free = fit_with(table, [])
    wrong = labelled_by(free, list(casts(table))) != table.truth
    corrections = round(share * labels)
    items = [*np.flatnonzero(wrong)[:corrections], *np.flatnonzero(~wrong)[: labels - corrections]]
    return free, fit_with(table, items)


@pytest.mark.parametrize("labels", [2, 4])
def test_labels_of_wrong_predictions_alone_change_no_label(labels):
    name = f"three copies of a weak model, {labels} labels"
    free, fit = corrected(name, 1.0, 50)
    assert fit.corrections
    rounds = list(casts(drawn(BY_NAME[name], 1).table))
    assert (labelled_by(fit, rounds) == labelled_by(free, rounds)).all()


@pytest.mark.parametrize("seed", range(4))
def test_labels_of_wrong_predictions_alone_do_not_turn_a_pool_over(seed):
    kind = BY_NAME["three copies of a weak model, 2 labels"]
    free, corrections = outcome(kind, seed), outcome(kind, seed, labels=50, wrong=True)
    assert corrections.joint > free.joint - 0.5


@pytest.mark.parametrize("labels", [2, 4])
def test_labels_of_wrong_and_right_predictions_teach(labels):
    _, fit = corrected(f"three copies of a weak model, {labels} labels", 0.4, 50)
    assert not fit.corrections
    assert fit.human_labels == 50


@pytest.mark.parametrize("name", ["a convention: one lower", "a convention: a map of labels"])
def test_random_labels_that_contradict_a_convention_are_no_mere_corrections(name):
    for labels in (10, 30, 100):
        for seed in range(10):
            items = np.random.default_rng(seed).permutation(300)[:labels]
            assert not fit_with(drawn(BY_NAME[name], seed).table, items).corrections


def test_human_labels_teach_a_convention():
    found = outcome(BY_NAME["a convention: one lower"], 1, labels=100)
    assert found.joint > found.majority + 30.0
