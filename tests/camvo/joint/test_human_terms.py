"""What human labels add to the model of votes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_up_votes import COINS, draw_votes, every_row, made_up_kinds, rows_of

from camvo.joint.human_terms import HumanTerms
from camvo.joint.models import fit_vote_model
from camvo.state.contribution import KeptRound

ARMS = ("a", "b", "c")
LABELS = ("neg", "neutral", "other", "pos")
NOTHING = HumanTerms(1.0, np.zeros(3), {}, 0.0, 0)


def right_of(model):
    """The beliefs of a model of votes alone."""
    return lambda rows: model.beliefs(rows)[0]


def kept(votes, label):
    """A round in which arms "a", "b", "c" voted for these labels, and a person for ``label``."""
    return KeptRound.of(dict(zip(ARMS, votes, strict=True)), label)


MODELS = [(COINS, 2), (made_up_kinds(3, 3), 3), (made_up_kinds(3, 6), 6)]


@pytest.mark.parametrize(("model", "labels"), MODELS)
def test_terms_that_say_nothing_change_nothing(model, labels):
    rows = every_row(3, labels)
    right, _ = model.beliefs(rows)
    named = ("neg", "pos") if labels == 2 else ()
    np.testing.assert_allclose(NOTHING.correct(rows, right, named), right, atol=1e-12)


@pytest.mark.parametrize(("model", "labels"), [(COINS, 2), (made_up_kinds(3, 5), 5)])
def test_corrected_probabilities_are_probabilities(model, labels):
    terms = HumanTerms(0.4, np.array([3.0, -2.0, 0.5]), {"neg": 4.0, "pos": -1.0}, -0.7, 9)
    rows = every_row(3, labels)
    right, _ = model.beliefs(rows)
    corrected = terms.correct(rows, right, ("neg", "pos") if labels == 2 else ())
    assert (corrected >= 0.0).all()
    assert (corrected.sum(axis=1) <= 1.0 + 1e-12).all()
    if labels == 2:
        np.testing.assert_allclose(corrected.sum(axis=1), 1.0)


def test_a_corrected_label_follows_its_definition():
    """p_j ∝ p_j · exp(terms of the arms that voted for j / exponent); what is left has no term."""
    terms = HumanTerms(0.7, np.array([0.5, -0.3, 0.2]), {}, 0.4, 5)
    right = np.array([[0.5, 0.2, 0.0]])
    unscaled = np.array([0.5 * np.exp(0.7 / 0.7), 0.2 * np.exp(-0.3 / 0.7), 0.3])
    expected = unscaled / unscaled.sum()
    found = terms.correct(np.array([[0, 1, 0]]), right)
    np.testing.assert_allclose(found[0, :2], expected[:2])


@pytest.mark.parametrize("others", [False, True])
def test_a_calibrated_label_follows_its_definition(others):
    """p_j ∝ p_j^exponent · exp(term of label j), beside what is left if there are other labels."""
    terms = HumanTerms(0.5, np.zeros(3), {"neg": 1.0}, 0.0, 5)
    odds = {"neg": 0.5**0.5 * np.e, "pos": 0.2**0.5}
    total = sum(odds.values()) + (0.3**0.5 if others else 0.0)
    found = terms.calibrate({"neg": 0.5, "pos": 0.2}, terms.labels, others=others)
    assert found == pytest.approx({label: value / total for label, value in odds.items()})


@pytest.mark.parametrize("exponent", [0.12, 0.5, 1.4])
@pytest.mark.parametrize("named", [False, True])
def test_a_label_counts_each_term_once_whatever_the_exponent(exponent, named):
    """p_j ∝ p_j^exponent · exp(terms of label j and of the arms that voted for it)."""
    terms = HumanTerms(exponent, np.array([0.5, -0.3, 0.2]), {"neg": 0.6, "pos": -0.1}, 0.4, 5)
    right, names = np.array([[0.5, 0.5 if named else 0.2]]), ("neg", "pos")
    planned = terms.correct(np.array([[0, 1, 0]]), right, names if named else ())[0]
    added = terms.left_to_add({"a": "neg", "b": "pos", "c": "neg"}, ARMS, named=named)
    found = terms.calibrate(dict(zip(names, planned, strict=True)), added, others=not named)
    odds = right[0] ** exponent * np.exp([0.6 + 0.5 + 0.2, -0.1 - 0.3])
    none = 0.0 if named else 0.3**exponent * np.exp(0.4)
    assert [*found.values()] == pytest.approx(odds / (odds.sum() + none))


def test_plans_count_a_term_three_times_at_most():
    arms, rows, right = np.array([0.5, 0.0, 0.0]), np.array([[0, 1, 1]]), np.array([[0.5, 0.3]])
    low, third = (HumanTerms(e, arms, {}, 0.0, 5).correct(rows, right) for e in (0.12, 1.0 / 3.0))
    np.testing.assert_allclose(low, third)


def test_the_exponent_keeps_the_order_of_the_labels():
    probabilities = {"neg": 0.6, "other": 0.3, "pos": 0.05}
    surer, less = (
        HumanTerms(e, np.zeros(3), {}, 0.0, 5).calibrate(probabilities, {}, others=True) for e in (2, 0.3)
    )
    assert (
        list(probabilities) == sorted(surer, key=surer.get, reverse=True) == sorted(less, key=less.get)[::-1]
    )
    assert surer["neg"] > probabilities["neg"] > less["neg"]


def test_with_two_labels_a_labels_term_holds_without_votes_too():
    rows = np.array([[-2, -2, -2]])
    terms = HumanTerms(1.0, np.zeros(3), {"pos": np.log(3.0)}, 0.0, 5)
    np.testing.assert_allclose(terms.correct(rows, np.array([[0.5, 0.5]]), ("neg", "pos")), [[0.25, 0.75]])


@pytest.mark.parametrize(
    "round_",
    [kept((None, None, None), "pos"), kept(("pos", "neg", "pos"), None), kept(("pos", "neg", "pos"), "gone")],
    ids=["no vote", "no human label", "a label that no longer exists"],
)
def test_a_round_without_votes_or_a_human_label_of_the_label_set_does_not_count(round_):
    assert HumanTerms.fit(right_of(made_up_kinds(3, 4)), [round_], ARMS, LABELS) is None


def test_without_rounds_there_are_no_terms():
    assert HumanTerms.fit(right_of(COINS), [], ARMS, ("neg", "pos")) is None


def model_of(votes, labels):
    rows = rows_of(votes, labels)
    return right_of(fit_vote_model(rows.rows, rows.counts, labels, np.ones(3)))


@pytest.fixture(scope="module")
def votes():
    return draw_votes(np.array([0.8, 0.75, 0.7]), labels=4, items=600)


def labelled(votes, human):
    return [
        kept(tuple(LABELS[vote] for vote in row), LABELS[label])
        for row, label in zip(votes, human, strict=True)
    ]


def test_the_arm_that_people_agree_with_gains(votes):
    cast, _ = votes
    terms = HumanTerms.fit(model_of(cast, 4), labelled(cast[:80], cast[:80, 2]), ARMS, LABELS)
    assert terms.arms.argmax() == 2
    assert terms.arms[2] > 0.3


def test_labels_that_the_model_expects_leave_the_arms_nearly_alone(votes):
    cast, truth = votes
    terms = HumanTerms.fit(model_of(cast, 4), labelled(cast, truth), ARMS, LABELS)
    assert np.abs(terms.arms).max() < 0.4
    assert 0.5 < terms.exponent < 1.5


def test_a_label_that_people_prefer_gains(votes):
    cast, truth = votes
    named = (cast == 3).any(axis=1)
    human = np.where(named, 3, truth)
    terms = HumanTerms.fit(model_of(cast, 4), labelled(cast[:150], human[:150]), ARMS, LABELS)
    assert max(terms.labels, key=terms.labels.get) == "pos"


def test_people_who_often_choose_a_label_without_a_vote_raise_what_is_left(votes):
    cast, truth = votes
    missing = (cast[:, :, None] == np.arange(4)).any(axis=1).argmin(axis=1)
    model = model_of(cast, 4)
    often, never = (
        HumanTerms.fit(model, labelled(cast[:80], human[:80]), ARMS, LABELS) for human in (missing, truth)
    )
    assert often.none > never.none
    assert often.count == 80


def test_the_terms_are_described_in_plain_json(votes):
    cast, truth = votes
    described = HumanTerms.fit(model_of(cast, 4), labelled(cast[:60], truth[:60]), ARMS, LABELS).describe()
    assert json.loads(json.dumps(described, allow_nan=False)) == described


@pytest.mark.parametrize("count", [16, 24])
def test_an_arm_that_people_side_with_against_all_others_decides(count):
    """The model of votes is always wrong then, which no exponent of its probabilities can say."""
    cast = np.array([[1, 1, 0], [0, 0, 1]] * 30)
    terms = HumanTerms.fit(model_of(cast, 4), labelled(cast[:count], cast[:count, 2]), ARMS, LABELS)
    right = model_of(cast, 4)(np.array([[0, 0, 1]]))
    corrected = dict(
        zip(("neg", "neutral"), terms.correct(np.array([[0, 0, 1]]), right)[0].tolist(), strict=False)
    )
    votes = {"a": "neg", "b": "neg", "c": "neutral"}
    said = terms.calibrate(corrected, terms.left_to_add(votes, ARMS, named=False), others=True)
    assert right[0, 0] > right[0, 1]
    assert said["neutral"] > said["neg"]
