"""Arms that agree with one another far more than with the rest."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_votes import draw_votes, rows_of

from camvo.joint.votes import (
    VoteRows,
    confirmed_excess,
    excess_agreement,
    families,
    possible_excess,
    tempers,
)

SKILLS = np.array([0.75, 0.7, 0.65, 0.8, 0.85, 0.7])


@pytest.mark.parametrize("labels", [2, 4, 10])
@pytest.mark.parametrize("seed", range(3))
def test_copies_are_found_and_nobody_else(labels, seed):
    votes, _ = draw_votes(SKILLS, labels=labels, items=800, copies=2, seed=seed)
    rows = rows_of(votes, labels)
    excess, unclear = confirmed_excess(possible_excess(rows, labels), rows, labels)
    if unclear:  # two labels and weak others do not always tell
        assert (labels, unclear) == (2, (0, 1, 2))
        return
    related = {(i, j) for i, j in np.argwhere(excess > 0.0).tolist() if i < j}
    assert related == {(0, 1), (0, 2), (1, 2)}
    assert (excess == excess.T).all()


@pytest.mark.parametrize("labels", [2, 3, 8])
@pytest.mark.parametrize("seed", range(5))
def test_independent_arms_are_no_family(labels, seed):
    votes, _ = draw_votes(SKILLS, labels=labels, items=400, seed=seed)
    assert not excess_agreement(rows_of(votes, labels), labels).any()


@pytest.mark.parametrize("decoy", [0.3, 0.6])
def test_errors_that_all_arms_share_make_no_family(decoy):
    votes, _ = draw_votes(SKILLS, labels=5, items=600, decoy=decoy)
    assert not excess_agreement(rows_of(votes, 5), 5).any()


def test_one_copied_voice_counts_about_once():
    votes, _ = draw_votes(SKILLS, labels=4, items=2000, copies=2)
    exponents = tempers(excess_agreement(rows_of(votes, 4), 4))
    assert 1.0 <= exponents[:3].sum() < 1.6
    assert exponents[3:].tolist() == [1.0, 1.0, 1.0]


def test_few_rounds_show_no_family():
    votes, _ = draw_votes(SKILLS, labels=4, items=29, copies=2)
    assert not excess_agreement(rows_of(votes, 4), 4).any()


def test_two_arms_cannot_be_told_from_two_good_ones():
    votes = np.tile(np.arange(400)[:, None] % 4, (1, 2))
    assert not excess_agreement(rows_of(votes, 4), 4).any()


def test_rounds_that_stopped_early_do_not_count():
    rows = rows_of(draw_votes(SKILLS, labels=4, items=800, copies=2)[0], 4)
    partial = VoteRows(rows.rows, np.zeros(len(rows.counts)), rows.counts)
    assert not excess_agreement(partial, 4).any()


def test_arms_that_never_vote_are_related_to_nobody():
    votes, _ = draw_votes(SKILLS, labels=4, items=300)
    votes[:, 3:] = -1
    assert not excess_agreement(rows_of(votes, 4), 4).any()


@pytest.mark.parametrize(
    ("related", "expected"),
    [([], []), ([(0, 3)], [[0, 3]]), ([(0, 3), (3, 4), (1, 5)], [[0, 3, 4], [1, 5]])],
)
def test_a_family_is_whom_relations_link(related, expected):
    excess = np.zeros((6, 6))
    for one, other in related:
        excess[one, other] = excess[other, one] = 0.8
    assert families(excess) == expected


@pytest.mark.parametrize("labels", [2, 3, 5, 10])
@pytest.mark.parametrize("good", [3, 4])
def test_good_arms_among_weak_ones_are_no_family(good, labels):
    skills = np.array([0.93] * good + [0.55] * 4)
    for seed in range(3):
        votes, _ = draw_votes(skills, labels=labels, items=400, decoy=0.6, seed=seed)
        assert not excess_agreement(rows_of(votes, labels), labels).any()


def test_copies_of_a_good_arm_among_weak_ones_count_as_several():
    skills = np.array([0.92, 0.92, 0.92, 0.58, 0.57, 0.56, 0.55])
    votes, _ = draw_votes(skills, labels=4, items=800, copies=2)
    assert not excess_agreement(rows_of(votes, 4), 4).any()


def test_copies_of_a_weak_arm_among_good_ones_are_a_family():
    skills = np.array([0.6, 0.6, 0.6, 0.84, 0.83, 0.82, 0.81])
    votes, _ = draw_votes(skills, labels=4, items=800, copies=2)
    assert families(excess_agreement(rows_of(votes, 4), 4)) == [[0, 1, 2]]


def test_all_arms_but_one_cannot_be_told_from_good_ones():
    votes, _ = draw_votes(np.array([0.6, 0.6, 0.6, 0.84]), labels=4, items=800, copies=2)
    assert not excess_agreement(rows_of(votes, 4), 4).any()


def copied(skills, labels, seed):
    """Votes of arms of which the second repeats the first in three of four items."""
    votes, _ = draw_votes(np.array(skills), labels=labels, items=800, decoy=0.6, seed=seed)
    same = np.random.default_rng([seed, 1]).random(800) < 0.75
    votes[same, 1] = votes[same, 0]
    return rows_of(votes, labels)


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_two_copies_among_arms_that_are_alike_are_a_family_or_leave_doubt(labels, seed):
    rows = copied([0.7, 0.7, 0.78, 0.77, 0.76, 0.75, 0.74], labels, seed)
    kept, unclear = confirmed_excess(possible_excess(rows, labels), rows, labels)
    assert [*families(kept), *([[*unclear]] if unclear else [])] == [[0, 1]]
    assert labels == 2 or not unclear


@pytest.mark.parametrize("seed", range(3))
def test_two_good_arms_among_fair_ones_are_no_family(seed):
    votes, _ = draw_votes(np.array([0.95, 0.94, *[0.72] * 5]), labels=4, items=800, decoy=0.6, seed=seed)
    assert not excess_agreement(rows_of(votes, 4), 4).any()


def test_two_copies_beside_two_other_arms_cannot_be_told_from_good_ones():
    rows = copied([0.7, 0.7, 0.78, 0.77], 4, 0)
    assert not excess_agreement(rows, 4).any()
