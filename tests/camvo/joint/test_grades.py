"""Grades of confidence: how many, where they begin, and what they are worth."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.joint.grades import NO_GRADES, Grades
from camvo.state.contribution import TOP_LEVEL, ConfidenceCounts, SureVote, level_of

TABLES = st.dictionaries(
    st.builds(SureVote, st.sampled_from("ab"), st.just("yes"), st.integers(0, TOP_LEVEL), st.booleans()),
    st.integers(1, 400),
    max_size=30,
)


def drawn(n, seed=0, arm="a", accuracy=0.8, error=0.0):
    """An arm that is calibrated; ``error``: how often the label that it is compared with is wrong itself."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(5.0 * accuracy, 5.0 * (1.0 - accuracy), size=n)
    right = (rng.random(n) < confidence) ^ (rng.random(n) < error)
    levels = [level_of(each) for each in confidence.tolist()]
    return Counter(
        SureVote(arm, "yes", level, was) for level, was in zip(levels, right.tolist(), strict=True)
    )


@given(TABLES, TABLES)
def test_there_are_three_grades_at_most_and_their_worth_is_finite(by_others, by_people):
    for grades in Grades.learnt(ConfidenceCounts(by_others, by_people)).arms.values():
        assert 2 <= len(grades.log_ratios) == len(grades.cuts) + 1 <= 3
        assert list(grades.cuts) == sorted(set(grades.cuts))
        assert all(map(math.isfinite, grades.log_ratios))


@given(TABLES, TABLES)
def test_a_grade_speaks_for_a_vote_only_if_another_speaks_against_it(by_others, by_people):
    """Both are distributions over the same grades, so no arm is better in all of its grades."""
    for grades in Grades.learnt(ConfidenceCounts(by_others, by_people)).arms.values():
        assert min(grades.log_ratios) <= 1e-9
        assert max(grades.log_ratios) >= -1e-9


def test_a_calibrated_arms_grades_are_worth_their_likelihood_ratio():
    """The oracle is a count over another draw."""
    grades = Grades.learnt(ConfidenceCounts({}, drawn(40_000))).arms["a"]
    shares = np.zeros((2, 3))
    for vote, count in drawn(40_000, seed=1).items():
        shares[int(vote.right), np.searchsorted(grades.cuts, vote.level, side="right")] += count
    shares /= shares.sum(axis=1, keepdims=True)
    assert grades.log_ratios == pytest.approx(np.log(shares[1] / shares[0]), abs=0.1)


def test_the_others_votes_teach_nearly_the_same_without_a_human_label():
    by_people = Grades.learnt(ConfidenceCounts({}, drawn(5000))).arms["a"].log_ratios
    by_others = Grades.learnt(ConfidenceCounts(drawn(5000, error=0.1), {})).arms["a"].log_ratios
    assert np.sign(by_others).tolist() == np.sign(by_people).tolist()
    assert np.all(np.abs(by_others) <= np.abs(by_people) + 0.1)  # errors of the others only weaken it


def test_human_labels_overrule_the_others_votes():
    inverted = Counter({vote._replace(right=not vote.right): n for vote, n in drawn(5000).items()})
    few, many = (
        Grades.learnt(ConfidenceCounts(drawn(5000), people)).arms["a"].log_ratios
        for people in (Counter(), inverted)
    )
    assert few[0] < 0.0 < few[-1]
    assert many[0] > 0.0 > many[-1]


def test_a_confidence_that_says_nothing_is_worth_nothing():
    rng = np.random.default_rng(0)
    votes = Counter(
        SureVote("a", "yes", int(rng.integers(30, 60)), bool(rng.random() < 0.8)) for _ in range(4000)
    )
    assert Grades.learnt(ConfidenceCounts(votes, {})).arms["a"].log_ratios == pytest.approx(
        [0.0] * 3, abs=0.25
    )


@pytest.mark.parametrize(
    "votes",
    [drawn(49), Counter({SureVote("a", "yes", 80, True): 500, SureVote("a", "yes", 80, False): 100})],
    ids=["too few votes", "one level"],
)
def test_without_evidence_there_are_no_grades(votes):
    assert Grades.learnt(ConfidenceCounts(votes, {})).arms == {}


def test_arms_are_learnt_apart():
    both = drawn(1000) + drawn(1000, seed=1, arm="b", accuracy=0.6)
    alone = Grades.learnt(ConfidenceCounts(drawn(1000), {}))
    assert Grades.learnt(ConfidenceCounts(both, {})).arms["a"] == alone.arms["a"]


def test_votes_for_a_label_have_a_scale_of_their_own_where_people_labelled_enough():
    """The arm is sure of "no" whether or not it is right."""
    sure_of_no = Counter(
        {
            SureVote("a", "no", level, right): 20 * (4 if right else 1)
            for level in (70, 75, 80)
            for right in (False, True)
        }
    )
    by_others = Grades.learnt(ConfidenceCounts(drawn(1000) + sure_of_no, {}))
    assert by_others.labels == {}
    grades = Grades.learnt(ConfidenceCounts({}, drawn(1000) + sure_of_no))
    assert grades.log_ratio("a", "no", 1.0) == pytest.approx(0.0, abs=0.1)
    assert grades.log_ratio("a", "yes", 1.0) > 0.5
    assert grades.log_ratio("a", "rare", 1.0) == grades.arms["a"].log_ratio(1.0)


def test_an_arm_without_grades_or_without_a_confidence_adds_nothing():
    grades = Grades.learnt(ConfidenceCounts(drawn(1000), {}))
    assert grades.log_ratio("a", "yes", None) == grades.log_ratio("other", "yes", 0.9) == 0.0
    assert grades.log_ratios({"a": "yes", "other": "no"}, {"a": 1.0, "other": 1.0}) == {
        "a": grades.arms["a"].log_ratios[-1],
        "other": 0.0,
    }
    assert NO_GRADES.log_ratios({"a": "yes"}, {"a": 1.0}) == {}


def test_they_are_described_as_json():
    described = Grades.learnt(ConfidenceCounts(drawn(1000), {})).describe()
    assert json.loads(json.dumps(described)) == described
