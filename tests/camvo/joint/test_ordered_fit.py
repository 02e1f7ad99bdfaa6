"""Ordered labels: the model of votes, how votes are read, and the answer with the least expected error."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from camvo.joint.ordered_fit import OrderedFit, _ScaleReadings, _ScaleVotes
from camvo.state.contribution import KeptRound, LatestRounds
from camvo.state.exploration import PatternCounts, VotePattern
from camvo.votes.labels import OrderedVote

SCALE = ("1", "2", "3", "4", "5")
NO_LABELS = LatestRounds()
ARMS = ("a", "b", "c", "d", "e")


def ratings(rounds=400, seed=0, *, spreads=(0.7,) * 5, bias=0.0, reversed_arm=None):
    """Truths and votes as positions, shapes (n,) and (n, 5)."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(5, size=rounds)
    votes = truth[:, None] + bias + rng.normal(size=(rounds, 5)) * np.array(spreads)
    if reversed_arm is not None:
        votes[:, reversed_arm] = 4 - votes[:, reversed_arm]
    return truth, np.clip(np.rint(votes), 0, 4).astype(np.int64)


def evidence_of(votes, *, everyone=True):
    named = tuple(sorted(SCALE))
    patterns = Counter(
        VotePattern.of(ARMS, cast(row), everyone=everyone, labels=named) for row in votes.tolist()
    )
    return PatternCounts(dict(patterns), len(votes))


def cast(row):
    return {arm: SCALE[vote] for arm, vote in zip(ARMS, row, strict=True) if vote >= 0}


def kept(truth, votes):
    rounds = zip(truth.tolist(), votes.tolist(), strict=True)
    return LatestRounds(tuple(KeptRound.of(cast(row), SCALE[right]) for right, row in rounds))


def fit(votes, labelled=NO_LABELS, error="absolute"):
    vote = OrderedVote(SCALE, error)
    return OrderedFit.fit(evidence_of(votes), labelled, vote, dict.fromkeys(ARMS, 0.0))


def answer(fitted, votes):
    worths = fitted.worths(fitted.probabilities(votes))
    return max(worths, key=lambda label: worths[label])


def errors(fitted, truth, votes):
    said = [SCALE.index(answer(fitted, cast(row))) for row in votes.tolist()]
    return np.abs(np.array(said) - truth)


def test_votes_that_agree_decide():
    assert answer(fit(ratings()[1]), dict.fromkeys(ARMS, "4")) == "4"


def test_without_rounds_the_median_decides():
    fitted = fit(np.zeros((0, 5), dtype=np.int64))
    assert answer(fitted, dict(zip(ARMS, "11455", strict=True))) == "4"


@pytest.mark.parametrize("label", ["1", "2", "6", "10"])
@pytest.mark.parametrize("error", ["exact", "absolute"])
def test_without_rounds_votes_that_agree_decide_at_and_beside_the_ends_too(label, error):
    stars = tuple(str(number + 1) for number in range(10))
    vote = OrderedVote(stars, error)
    fitted = OrderedFit.fit(PatternCounts(), NO_LABELS, vote, dict.fromkeys("ab", 0.0))
    assert answer(fitted, {"a": label, "b": label}) == label


def test_arm_with_a_wide_spread_counts_less():
    _, votes = ratings(spreads=(0.4, 2.0, 0.7, 0.7, 0.7))
    weights = fit(votes).model.reading.weights
    assert weights[0] > 2.0 * weights[1]


def test_reversed_arm_is_turned_round():
    truth, votes = ratings(reversed_arm=2)
    fitted = fit(votes)
    assert fitted.describe()["reversed"] == ["c"]
    assert errors(fitted, truth, votes).mean() < np.abs(np.median(votes, axis=1) - truth).mean()


def test_arm_that_is_only_poor_is_not_turned_round():
    assert not fit(ratings(spreads=(0.5, 0.5, 4.0, 0.5, 0.5))[1]).model.reading.reversed.any()


def test_bias_of_all_models_is_learnt_from_few_human_labels():
    truth, votes = ratings(bias=1.0)
    free, taught = fit(votes), fit(votes, kept(truth[:30], votes[:30]))
    held = slice(100, 300)
    assert taught.human_labels == 30
    assert (
        errors(taught, truth[held], votes[held]).mean() < 0.7 * errors(free, truth[held], votes[held]).mean()
    )


def test_human_labels_that_agree_change_little():
    truth, votes = ratings()
    free, taught = fit(votes), fit(votes, kept(truth[:30], votes[:30]))
    held = slice(100, 400)
    assert (
        errors(taught, truth[held], votes[held]).mean() < 1.15 * errors(free, truth[held], votes[held]).mean()
    )


def test_answer_minimises_the_error_that_is_named():
    likely = dict(zip(SCALE, (0.36, 0.0, 0.2, 0.1, 0.34), strict=True))
    votes = ratings()[1]
    answers = {}
    for error in ("exact", "absolute", "quadratic"):
        worths = fit(votes, error=error).worths(likely)
        answers[error] = max(worths, key=lambda label: worths[label])
    assert answers == {"exact": "1", "absolute": "3", "quadratic": "3"}


def test_stopping_is_worth_one_less_the_expected_error():
    fitted = fit(ratings()[1])
    right = fitted.beliefs.right @ OrderedVote(SCALE).losses
    assert fitted.beliefs.surest == pytest.approx(1.0 - right.min(axis=1))


def test_beliefs_before_a_vote_are_those_expected_after_it():
    """Without counted rounds the belief at each node is the mean of those that may follow."""
    fitted = fit(np.zeros((0, 5), dtype=np.int64))
    lattice, right = fitted.beliefs.lattice, fitted.beliefs.right
    for level, level_votes in zip(lattice.steps, fitted.beliefs.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            after = (votes[:, :, None] * right[step.following]).sum(axis=0)
            assert right[step.nodes] == pytest.approx(after, abs=1e-9)


def test_votes_are_probabilities_at_every_node():
    fitted = fit(ratings()[1])
    for level in fitted.beliefs.votes:
        for votes in level:
            assert votes.sum(axis=0) == pytest.approx(1.0)


def test_arm_with_a_bias_is_expected_to_vote_higher():
    _, votes = ratings()
    votes[:, 0] = np.minimum(votes[:, 0] + 2, 4)
    model = _ScaleVotes.fit(votes, np.ones(len(votes)), 5)
    expected = model.expected(np.array([[-2, 1, 1, 1, 1]]))[0, 0] @ np.arange(5)
    assert expected > 2.3


def test_few_votes_at_a_level_are_filled_by_bias_and_spread():
    """Levels 0 and 4 never occur: an arm's votes there follow from its votes elsewhere."""
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 4, size=300)
    votes = np.clip(truth[:, None] + rng.integers(-1, 2, size=(300, 5)) * (rng.random((300, 5)) < 0.2), 0, 4)
    model = _ScaleVotes.fit(votes, np.ones(300), 5)
    levels = np.array([confusion @ np.arange(5) for confusion in model.confusions])
    assert (np.diff(levels, axis=1) > 0.0).all()


def test_missing_vote_counts_as_it_is_expected():
    _, votes = ratings()
    model = _ScaleVotes.fit(votes, np.ones(len(votes)), 5)
    expected = model.expected(np.array([[4, 4, -2, 4, -1]]))[0]
    assert expected[0].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert expected[[2, 4]].argmax(axis=1).tolist() == [4, 4]


def test_more_arms_than_a_plan_holds_are_read_all():
    arms = tuple("abcdefgh")
    rng = np.random.default_rng(0)
    truth = rng.integers(5, size=300)
    votes = np.clip(truth[:, None] + rng.integers(-1, 2, size=(300, 8)), 0, 4)
    patterns = Counter(
        VotePattern.of(
            arms, dict(zip(arms, map(SCALE.__getitem__, row), strict=True)), everyone=True, labels=SCALE
        )
        for row in votes.tolist()
    )
    fitted = OrderedFit.fit(
        PatternCounts(dict(patterns), 300), LatestRounds(), OrderedVote(SCALE), dict.fromkeys(arms, 0.01)
    )
    assert len(fitted.shortlist) == 5
    assert answer(fitted, dict.fromkeys(arms, "2")) == "2"


def test_reading_without_human_labels_corrects_no_bias():
    _, votes = ratings(bias=1.0)
    assert not _ScaleReadings.of_votes(votes, np.ones(len(votes)), OrderedVote(SCALE)).biases.any()


def test_end_of_the_scale_stands_for_all_places_beyond_it():
    """On a scale that goes on past its ends each label has the same term."""
    votes = np.array([[0, 0], [4, 3], [2, 4]])
    reading = _ScaleReadings.of_votes(votes, np.ones(3), OrderedVote(SCALE))
    further = np.arange(-200, 205)
    for row, right in zip(votes, reading.right(np.eye(5)[votes]), strict=True):
        mass = np.exp(-np.abs(further[:, None] - row) @ reading.weights)
        beyond = np.bincount(np.clip(further, 0, 4), mass)
        assert right == pytest.approx(beyond / beyond.sum())


def test_people_who_map_labels_otherwise_are_followed():
    """All models say 3 where people say 5: an answer that nobody voted for."""
    truth, votes = ratings(spreads=(0.3,) * 5)
    said = np.array([0, 1, 4, 3, 4])[truth]
    fitted = fit(votes, kept(said[:100], votes[:100]), error="exact")
    assert answer(fitted, dict.fromkeys(ARMS, "3")) == "5"
    assert answer(fitted, dict.fromkeys(ARMS, "1")) == "1"
