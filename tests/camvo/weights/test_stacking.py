from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.state.confidences import ConfidenceCounts, ConfidenceSums
from camvo.state.kept_rounds import CastVote, KeptRound
from camvo.votes.labels import weighted_vote
from camvo.weights.grades import NO_GRADES, learn_grades
from camvo.weights.stacking import StackedVote
from camvo.weights.stacking_fit import fit_stacked_vote

ARMS = ("a", "b", "c", "d")
LABELS = ("w", "x", "y", "z")
WEIGHTS = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}
RIGHT = {"a": 0.9, "b": 0.6, "c": 0.6, "d": 0.6}


def rounds(n, seed=0, right=RIGHT, labels=LABELS, asked=1.0):
    """b, c and d err together: they name the same wrong label where they are wrong."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        truth, tempting = rng.choice(len(labels), 2, replace=False)
        shared = rng.random()
        votes = []
        for arm in ARMS:
            luck = rng.random() if arm == "a" or rng.random() < 0.2 else shared
            label = labels[truth if luck < right[arm] else tempting]
            if rng.random() < asked:
                votes.append(CastVote(arm, None if rng.random() < 0.05 else label, WEIGHTS[arm]))
        rows.append(KeptRound(tuple(votes), labels[truth], everyone=asked == 1.0))
    return rows


def cast(row):
    return {vote.arm: vote.label for vote in row.votes}


def share_right(rows, decide):
    rows = [row for row in rows if any(cast(row).values())]
    return np.mean([decide({a: v for a, v in cast(row).items() if v}) == row.label for row in rows])


@pytest.fixture(scope="module")
def stack():
    return fit_stacked_vote(rounds(300), LABELS)


VOTES = st.dictionaries(st.sampled_from(ARMS), st.sampled_from(LABELS), min_size=1)


@given(VOTES, st.fixed_dictionaries({arm: st.floats(0.01, 1.0) for arm in ARMS}))
def test_without_human_labels_it_is_the_weighted_vote(votes, weights):
    leader, margin = fit_stacked_vote([], LABELS).leader(votes, weights, LABELS)
    if margin > 1e-9:
        assert leader == weighted_vote(votes, weights, LABELS, weights)


def test_rounds_without_a_human_label_teach_nothing():
    assert (
        fit_stacked_vote([KeptRound(row.votes, None, row.everyone) for row in rounds(50)], LABELS)
        == StackedVote()
    )


def test_models_that_err_together_are_outvoted_by_one_that_does_not(stack):
    votes = {"a": "x", "b": "y", "c": "y", "d": "y"}
    assert weighted_vote(votes, WEIGHTS, LABELS, WEIGHTS) == "y"
    assert stack.leader(votes, WEIGHTS, LABELS)[0] == "x"


def test_it_is_right_more_often_than_the_weighted_vote(stack):
    new = rounds(2000, seed=1)
    plain = share_right(new, lambda votes: weighted_vote(votes, WEIGHTS, LABELS, WEIGHTS))
    assert share_right(new, lambda votes: stack.leader(votes, WEIGHTS, LABELS)[0]) > plain + 0.1


def test_the_probabilities_are_calibrated(stack):
    new = rounds(2000, seed=1)
    scores = [
        max(stack.probabilities(cast(r), WEIGHTS, LABELS).values()) for r in new if any(cast(r).values())
    ]
    right = share_right(new, lambda votes: stack.leader(votes, WEIGHTS, LABELS)[0])
    assert np.mean(scores) == pytest.approx(right, abs=0.04)


def test_a_handful_of_labels_changes_only_the_scale():
    stack = fit_stacked_vote(rounds(4), LABELS)
    assert stack.trust == 0.0
    assert not any(stack.arms.values())
    assert stack.leader({"a": "x", "b": "y", "c": "y"}, WEIGHTS, LABELS)[0] == "y"


def test_withdrawn_labels_have_no_effect(stack):
    assert stack.trust > 0.99
    fewer = rounds(300)[:10]
    assert fit_stacked_vote(fewer, LABELS) == fit_stacked_vote(rounds(10), LABELS)
    assert fit_stacked_vote(fewer, LABELS).trust < stack.trust


@given(VOTES)
@settings(max_examples=30)
def test_probabilities_sum_to_one_over_all_labels(stack, votes):
    chances = stack.probabilities(votes, WEIGHTS, LABELS)
    assert list(chances) == list(LABELS)
    assert sum(chances.values()) == pytest.approx(1.0)


@given(VOTES, st.sampled_from(ARMS), st.sampled_from(LABELS))
def test_a_vote_for_a_label_makes_it_likelier(stack, votes, arm, label):
    if stack.scale * WEIGHTS[arm] + stack.arms[arm] + min(stack.pairs[arm].values()) <= 0.0:
        return
    without = {**votes, arm: None}
    if not any(without.values()):
        return
    before = stack.probabilities(without, WEIGHTS, LABELS)
    after = stack.probabilities({**votes, arm: label}, WEIGHTS, LABELS)
    if label in votes.values():
        assert after[label] >= before[label] - 1e-12


@given(st.permutations(LABELS), VOTES)
@settings(max_examples=5, deadline=None)
def test_renaming_labels_renames_the_answer(stack, names, votes):
    new = dict(zip(LABELS, names, strict=True)) | {None: None}
    renamed = [
        KeptRound(tuple(v._replace(label=new[v.label]) for v in row.votes), new[row.label], row.everyone)
        for row in rounds(300)
    ]
    renamed_chances = fit_stacked_vote(renamed, names).probabilities(
        {a: new[v] for a, v in votes.items()}, WEIGHTS, names
    )
    here = stack.probabilities(votes, WEIGHTS, LABELS)
    assert [renamed_chances[new[label]] for label in LABELS] == pytest.approx(list(here.values()), abs=1e-3)


@given(st.permutations(ARMS), VOTES)
@settings(max_examples=5, deadline=None)
def test_renaming_models_changes_nothing(stack, names, votes):
    new = dict(zip(ARMS, names, strict=True))
    renamed = [
        KeptRound(tuple(v._replace(arm=new[v.arm]) for v in row.votes), row.label, row.everyone)
        for row in rounds(300)
    ]
    weights = {new[arm]: weight for arm, weight in WEIGHTS.items()}
    renamed_chances = fit_stacked_vote(renamed, LABELS).probabilities(
        {new[a]: v for a, v in votes.items()}, weights, LABELS
    )
    here = stack.probabilities(votes, WEIGHTS, LABELS)
    assert list(renamed_chances.values()) == pytest.approx(list(here.values()), abs=1e-3)


def test_an_unknown_model_counts_by_its_weight_alone(stack):
    with_it = stack.log_odds({"a": "x", "new": "x"}, WEIGHTS | {"new": 0.5})["x"]
    assert with_it == pytest.approx(
        stack.log_odds({"a": "x"}, WEIGHTS)["x"] + 0.5 * (stack.scale + stack.alone * 0.75)
    )


def test_a_model_that_labels_only_with_its_favourite_is_believed_elsewhere():
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(400):
        truth = LABELS[rng.integers(4)]
        biased = "w" if rng.random() < 0.5 else truth
        other = truth if rng.random() < 0.7 else LABELS[rng.integers(4)]
        rows.append(KeptRound((CastVote("a", biased, 0.7), CastVote("b", other, 0.7)), truth, everyone=True))
    stack = fit_stacked_vote(rows, LABELS)
    assert stack.leader({"a": "w", "b": "x"}, WEIGHTS, LABELS)[0] == "x"
    assert stack.leader({"a": "y", "b": "x"}, WEIGHTS, LABELS)[0] == "y"


def test_partly_asked_rounds_teach_too():
    stack = fit_stacked_vote(rounds(400, asked=0.6), LABELS)
    assert stack.leader({"a": "x", "b": "y", "c": "y", "d": "y"}, WEIGHTS, LABELS)[0] == "x"


def test_the_same_rounds_give_the_same_stack(stack):
    assert fit_stacked_vote(rounds(300), LABELS) == stack


def test_a_single_label_is_certain():
    assert StackedVote().probabilities({"a": "x"}, WEIGHTS, ("x",)) == {"x": 1.0}
    assert StackedVote().leader({"a": "x"}, WEIGHTS, ("x",)) == ("x", np.inf)


def sure_rounds(n, seed=0):
    """Rounds whose arms are right as often as they say; half of them say ½ or less."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        truth, wrong = rng.choice(len(LABELS), 2, replace=False)
        confidence = rng.choice([0.3, 0.5, 0.95], size=len(ARMS)).tolist()
        votes = [
            CastVote(arm, LABELS[truth if rng.random() < sure else wrong], 1.0, sure)
            for arm, sure in zip(ARMS, confidence, strict=True)
        ]
        rows.append(KeptRound(tuple(votes), LABELS[truth], everyone=True))
    return rows


def grades_of(rows):
    sums = ConfidenceSums()
    for row in rows:
        sums.add_people(row, +1)
    return learn_grades(ConfidenceCounts({}, dict(sums.by_people)))


def test_what_arms_say_of_how_sure_they_are_makes_the_vote_better():
    taught, others = sure_rounds(200), sure_rounds(1000, seed=1)
    grades = grades_of(taught)
    weights = dict.fromkeys(ARMS, 1.0)

    def right(stack, grades):
        return np.mean(
            [
                stack.leader(
                    cast(row),
                    weights,
                    LABELS,
                    {vote.arm: grades.log_ratio(vote.arm, vote.label, vote.confidence) for vote in row.votes},
                )[0]
                == row.label
                for row in others
            ]
        )

    with_them = right(fit_stacked_vote(taught, LABELS, grades=grades), grades)
    assert with_them > right(fit_stacked_vote(taught, LABELS), NO_GRADES) + 0.1


def test_before_the_first_human_label_confidences_count_by_half():
    assert fit_stacked_vote([], LABELS, grades=grades_of(sure_rounds(100))).sure == 0.5


def test_a_confidence_adds_its_log_ratio_to_the_vote():
    stack, weights = StackedVote(sure=0.5), {"a": 1.0, "b": 1.0}
    odds = stack.log_odds({"a": "x", "b": "y"}, weights, {"a": 2.0, "b": -1.0})
    assert odds == {"x": 2.0, "y": 0.5}
