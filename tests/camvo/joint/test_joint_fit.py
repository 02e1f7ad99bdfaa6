"""The fit of one question: what votes say, whoever is named how, and whichever arms there are."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_up_votes import draw_votes, evidence_of

from camvo.joint.joint_fit import JointFit
from camvo.joint.lattice import most_arms
from camvo.state.contribution import KeptRound, LatestRounds
from camvo.state.exploration import PatternCounts

ARMS = ("a", "b", "c", "d")
ACCURACY = np.array([0.85, 0.75, 0.65, 0.8])
NAMES = ("red", "green", "blue", "white", "black")
NO_HUMANS = LatestRounds(())


def prices(arms):
    return {arm: 0.01 * (1 + number) for number, arm in enumerate(arms)}


def fit(votes, labels, arms=ARMS, latest=NO_HUMANS):
    return JointFit.fit(evidence_of(votes, arms, labels), latest, labels, prices(arms))


def votes_of(labels, accuracy=ACCURACY, items=300, **draw):
    return draw_votes(accuracy, labels=labels, items=items, **draw)[0]


def cases(labels, count=40, arms=ARMS, seed=9):
    """Votes of some of the arms, some of them silent."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        asked = [arm for arm in arms if rng.random() < 0.7]
        yield {arm: None if rng.random() < 0.2 else str(rng.choice(labels)) for arm in asked}


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_renamed_labels_have_the_same_probabilities(labels):
    votes, names = votes_of(labels), NAMES[:labels]
    renamed = dict(zip(names, reversed(names), strict=True))
    plain = fit(votes, names)
    other = fit(votes, tuple(renamed[name] for name in names))
    for cast in cases(names):
        found = other.probabilities({arm: vote and renamed[vote] for arm, vote in cast.items()})
        for label, probability in plain.probabilities(cast).items():
            assert found[renamed[label]] == pytest.approx(probability, abs=1e-9)


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_renamed_arms_have_the_same_probabilities(labels):
    votes, names = votes_of(labels), NAMES[:labels]
    renamed = dict(zip(ARMS, reversed(ARMS), strict=True))
    plain, other = fit(votes, names), fit(votes[:, ::-1], names)
    for cast in cases(names):
        found = other.probabilities({renamed[arm]: vote for arm, vote in cast.items()})
        assert found == pytest.approx(plain.probabilities(cast), abs=1e-9)


@pytest.mark.parametrize("labels", [1, 2, 3, 5])
@pytest.mark.parametrize("arms", [1, 2, 4])
def test_probabilities_sum_to_one(labels, arms):
    names, pool = NAMES[:labels], ARMS[:arms]
    votes = votes_of(labels, ACCURACY[:arms]) if labels > 1 else np.zeros((50, arms), dtype=np.int64)
    found = fit(votes, names, pool)
    for cast in [{}, *cases(names, arms=pool)]:
        probabilities = found.probabilities(cast)
        assert probabilities.keys() == set(names)
        assert sum(probabilities.values()) == pytest.approx(1.0)
        assert min(probabilities.values()) >= 0.0


def test_with_one_label_it_is_certainly_right():
    found = fit(np.zeros((50, 4), dtype=np.int64), ("only",))
    assert found.probabilities({"a": "only"}) == {"only": pytest.approx(1.0)}


@pytest.mark.parametrize("labels", [2, 3])
def test_one_arm_alone_is_believed(labels):
    names = NAMES[:labels]
    found = fit(votes_of(labels, ACCURACY[:1]), names, ("a",))
    for label in names:
        probabilities = found.probabilities({"a": label})
        assert max(probabilities, key=probabilities.get) == label
        assert probabilities[label] > 0.55


@pytest.mark.parametrize("vote", [None, "purple"], ids=["silent", "outside the label set"])
def test_an_arm_without_a_vote_says_nothing(vote):
    found = fit(votes_of(3), NAMES[:3])
    assert found.probabilities({"a": "red", "b": vote}) == found.probabilities({"a": "red"})


def test_before_any_vote_more_labels_than_two_are_alike():
    assert set(fit(votes_of(4), NAMES[:4]).probabilities({}).values()) == {0.25}


def test_without_rounds_the_majority_leads():
    found = JointFit.fit(PatternCounts(), NO_HUMANS, NAMES[:3], prices(ARMS))
    probabilities = found.probabilities({"a": "red", "b": "red", "c": "blue"})
    assert max(probabilities, key=probabilities.get) == "red"
    assert found.everyone == 0.0
    assert found.effective_votes() == 4.0


SEVEN = ("a", "b", "c", "d", "e", "f", "g")
"""The first three copy one another."""


def copied(labels):
    return votes_of(labels, np.array([0.6, 0.6, 0.6, 0.85, 0.8, 0.75, 0.8]), items=800, copies=2)


@pytest.mark.parametrize("labels", [2, 4])
def test_copies_have_fewer_effective_votes_than_arms(labels):
    found = fit(copied(labels), NAMES[:labels], SEVEN)
    assert 5.0 <= found.effective_votes() < 5.8
    assert (found.excess[:3, :3] > 0.0).sum() == (found.excess > 0.0).sum() == 6


def test_copies_do_not_outvote_two_good_arms():
    found = fit(copied(4), NAMES[:4], SEVEN)
    cast = dict.fromkeys("abc", "red") | dict.fromkeys("de", "blue")
    probabilities = found.probabilities(cast)
    assert probabilities["blue"] > probabilities["red"]


def human_rounds(votes, human, names, arms=ARMS):
    rounds = [
        KeptRound.of({arm: names[vote] for arm, vote in zip(arms, row, strict=True)}, names[label])
        for row, label in zip(votes.tolist(), human.tolist(), strict=True)
    ]
    return LatestRounds(tuple(rounds))


@pytest.mark.parametrize("labels", [2, 4])
def test_people_who_agree_with_the_worst_arm_raise_what_it_says(labels):
    votes, names = votes_of(labels), NAMES[:labels]
    taught = fit(votes, names, latest=human_rounds(votes[:100], votes[:100, 2], names))
    cast = {"a": "red", "b": "red", "c": "green", "d": "red"}
    assert taught.probabilities(cast)["green"] > fit(votes, names).probabilities(cast)["green"]
    assert taught.model.accuracy.tolist() == fit(votes, names).model.accuracy.tolist()


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_probabilities_sum_to_one_with_human_labels_that_contradict_the_votes(labels):
    votes, names = votes_of(labels), NAMES[:labels]
    human = np.where(np.arange(80) % 3 == 0, votes[:80, 0], (votes[:80, 0] + 1) % labels)
    taught = fit(votes, names, latest=human_rounds(votes[:80], human, names))
    if labels == 2:
        assert taught.human.exponent < 1.0
    else:
        assert taught.conventions.describe()["people_say"]
    for cast in [{}, *cases(names)]:
        probabilities = taught.probabilities(cast)
        assert sum(probabilities.values()) == pytest.approx(1.0, abs=1e-9)
        assert min(probabilities.values()) >= 0.0


def test_a_pool_of_fifteen_arms_plans_with_a_shortlist():
    arms = tuple(f"arm{number:02}" for number in range(15))
    accuracy = np.linspace(0.4, 0.85, 15)
    found = fit(votes_of(3, accuracy, items=120), NAMES[:3], arms)
    assert len(found.shortlist) == most_arms(3)
    assert list(found.shortlist) == sorted(set(found.shortlist) & set(arms))
    whole = dict.fromkeys(arms, "red")
    assert found.probabilities(whole)["red"] > 0.95
    assert found.node(whole) == found.node(dict.fromkeys(found.shortlist, "red"))


def test_the_shortlist_prefers_arms_that_are_worth_their_price():
    arms = tuple(f"arm{number:02}" for number in range(10))
    accuracy = np.where(np.arange(10) % 2 == 0, 0.9, 0.35)
    evidence = evidence_of(votes_of(3, accuracy, items=200), arms, NAMES[:3])
    found = JointFit.fit(evidence, NO_HUMANS, NAMES[:3], dict.fromkeys(arms, 0.001))
    assert set(arms[::2]) <= set(found.shortlist)


def test_partial_rounds_teach_the_model_but_are_no_rounds_of_everyone():
    votes, names = votes_of(3), NAMES[:3]
    partial = evidence_of(votes, ARMS, names, everyone=False)
    found = JointFit.fit(partial, NO_HUMANS, names, prices(ARMS))
    assert found.everyone == 0.0
    assert np.ptp(found.model.accuracy @ found.model.share) > 0.05


@pytest.mark.parametrize("labels", [1, 2, 4])
def test_a_fit_is_described_in_plain_json(labels):
    votes = votes_of(labels) if labels > 1 else np.zeros((50, 4), dtype=np.int64)
    names = NAMES[:labels]
    latest = human_rounds(votes[:60], votes[:60, 2], names) if labels > 1 else NO_HUMANS
    described = fit(votes, names, latest=latest).describe()
    assert json.loads(json.dumps(described, allow_nan=False)) == described
    assert described["accuracy"].keys() == set(ARMS)
    assert ("human" in described) == (labels > 1)
