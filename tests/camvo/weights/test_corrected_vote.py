from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.state.kept_rounds import CastVote, KeptRound
from camvo.votes.labels import weighted_vote
from camvo.weights.corrected_vote import CorrectedVote
from camvo.weights.corrected_vote_fit import fit_corrected_vote

ARMS = ("a", "b", "c", "d")
LABELS = ("w", "x", "y", "z")
WEIGHTS = {"a": 1.8, "b": 1.6, "c": 1.4, "d": 1.2}
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


def leader(vote, votes):
    odds = vote.log_odds(votes, WEIGHTS)
    return max(sorted(odds, key=LABELS.index), key=odds.__getitem__)


def share_right(rows, decide):
    rows = [row for row in rows if any(cast(row).values())]
    return np.mean([decide({a: v for a, v in cast(row).items() if v}) == row.label for row in rows])


@pytest.fixture(scope="module")
def vote():
    return fit_corrected_vote(rounds(300), LABELS)


VOTES = st.dictionaries(st.sampled_from(ARMS), st.sampled_from(LABELS), min_size=1)


@given(VOTES, st.fixed_dictionaries({arm: st.floats(0.01, 1.0) for arm in ARMS}))
def test_without_human_labels_it_is_the_weighted_vote(votes, weights):
    odds = fit_corrected_vote([], LABELS).log_odds(votes, weights)
    first, *others = sorted(odds, key=odds.__getitem__, reverse=True)
    if not others or odds[first] > odds[others[0]] + 1e-9:
        assert first == weighted_vote(votes, weights, LABELS, weights)


def test_rounds_without_a_human_label_teach_nothing():
    unlabelled = [KeptRound(row.votes, None, row.everyone) for row in rounds(50)]
    assert fit_corrected_vote(unlabelled, LABELS) == fit_corrected_vote([], LABELS)


def test_models_that_err_together_are_outvoted_by_one_that_does_not(vote):
    votes = {"a": "x", "b": "y", "c": "y", "d": "y"}
    assert weighted_vote(votes, WEIGHTS, LABELS, WEIGHTS) == "y"
    assert leader(vote, votes) == "x"


def test_it_is_right_more_often_than_the_weighted_vote(vote):
    new = rounds(2000, seed=1)
    plain = share_right(new, lambda votes: weighted_vote(votes, WEIGHTS, LABELS, WEIGHTS))
    assert share_right(new, lambda votes: leader(vote, votes)) > plain + 0.1


def test_the_probabilities_are_calibrated(vote):
    new = rounds(2000, seed=1)
    scores = [
        max(vote.probabilities(cast(r), WEIGHTS, LABELS).values()) for r in new if any(cast(r).values())
    ]
    right = share_right(new, lambda votes: leader(vote, votes))
    assert np.mean(scores) == pytest.approx(right, abs=0.04)


def test_a_handful_of_labels_changes_only_the_scale():
    vote = fit_corrected_vote(rounds(4), LABELS)
    assert vote.trust == 0.0
    assert not any(vote.arms.values())
    assert leader(vote, {"a": "x", "b": "y", "c": "y"}) == "y"


def test_withdrawn_labels_have_no_effect(vote):
    assert vote.trust > 0.99
    fewer = rounds(300)[:10]
    assert fit_corrected_vote(fewer, LABELS) == fit_corrected_vote(rounds(10), LABELS)
    assert fit_corrected_vote(fewer, LABELS).trust < vote.trust


@given(VOTES)
@settings(max_examples=30)
def test_probabilities_sum_to_one_over_all_labels(vote, votes):
    chances = vote.probabilities(votes, WEIGHTS, LABELS)
    assert list(chances) == list(LABELS)
    assert sum(chances.values()) == pytest.approx(1.0)


@given(VOTES, st.sampled_from(ARMS), st.sampled_from(LABELS))
def test_a_vote_for_a_label_makes_it_likelier(vote, votes, arm, label):
    if vote.scale * WEIGHTS[arm] + vote.arms[arm] <= 0.0:
        return
    without = {**votes, arm: None}
    if not any(without.values()):
        return
    before = vote.probabilities(without, WEIGHTS, LABELS)
    after = vote.probabilities({**votes, arm: label}, WEIGHTS, LABELS)
    if label in votes.values():
        assert after[label] >= before[label] - 1e-12


@given(st.permutations(LABELS), VOTES)
@settings(max_examples=5, deadline=None)
def test_renaming_labels_renames_the_answer(vote, names, votes):
    new = dict(zip(LABELS, names, strict=True)) | {None: None}
    renamed = [
        KeptRound(tuple(v._replace(label=new[v.label]) for v in row.votes), new[row.label], row.everyone)
        for row in rounds(300)
    ]
    renamed_chances = fit_corrected_vote(renamed, names).probabilities(
        {a: new[v] for a, v in votes.items()}, WEIGHTS, names
    )
    here = vote.probabilities(votes, WEIGHTS, LABELS)
    assert [renamed_chances[new[label]] for label in LABELS] == pytest.approx(list(here.values()), abs=1e-3)


@given(st.permutations(ARMS), VOTES)
@settings(max_examples=5, deadline=None)
def test_renaming_models_changes_nothing(vote, names, votes):
    new = dict(zip(ARMS, names, strict=True))
    renamed = [
        KeptRound(tuple(v._replace(arm=new[v.arm]) for v in row.votes), row.label, row.everyone)
        for row in rounds(300)
    ]
    weights = {new[arm]: weight for arm, weight in WEIGHTS.items()}
    renamed_chances = fit_corrected_vote(renamed, LABELS).probabilities(
        {new[a]: v for a, v in votes.items()}, weights, LABELS
    )
    here = vote.probabilities(votes, WEIGHTS, LABELS)
    assert list(renamed_chances.values()) == pytest.approx(list(here.values()), abs=1e-3)


def test_an_unknown_model_counts_by_its_weight_alone(vote):
    with_it = vote.log_odds({"a": "x", "new": "x"}, WEIGHTS | {"new": 0.5})["x"]
    assert with_it == pytest.approx(
        vote.log_odds({"a": "x"}, WEIGHTS)["x"] + 0.5 * (vote.scale + vote.alone * 0.75)
    )


def test_partly_asked_rounds_teach_too():
    vote = fit_corrected_vote(rounds(400, asked=0.6), LABELS)
    assert leader(vote, {"a": "x", "b": "y", "c": "y", "d": "y"}) == "x"


def test_the_same_rounds_give_the_same_corrections(vote):
    assert fit_corrected_vote(rounds(300), LABELS) == vote


def test_a_single_label_is_certain():
    assert CorrectedVote().probabilities({"a": "x"}, WEIGHTS, ("x",)) == {"x": 1.0}
