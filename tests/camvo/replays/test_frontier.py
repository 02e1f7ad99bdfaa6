from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from camvo.errors import InvalidParameterError
from camvo.replays import measures
from camvo.replays.measures import _MOST_SETS, fixed_sets, pareto_positions, set_accuracy
from camvo.votes.labels import weighted_vote

LABELS = ("a", "b", "c", "d")


def sets_of(models, seed=0):
    return fixed_sets(models, np.random.default_rng(seed))


@st.composite
def voted(draw):
    """Votes of up to five models, some of them missing, with weights that are often tied or zero."""
    items, models = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    votes = draw(arrays(np.int64, (items, models), elements=st.integers(-1, 3)))
    weights = draw(arrays(np.float64, models, elements=st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.6])))
    truth = draw(arrays(np.int64, items, elements=st.integers(-1, 3)).filter(lambda t: (t >= 0).any()))
    return votes, weights, truth


def by_hand(members, votes, weights, truth):
    right = []
    for row, label in zip(votes.tolist(), truth.tolist(), strict=True):
        if label < 0:
            continue
        cast = {str(k): LABELS[row[k]] for k in np.flatnonzero(members) if row[k] >= 0}
        weigh = {str(k): weight for k, weight in enumerate(weights)}
        right.append(bool(cast) and weighted_vote(cast, weigh, LABELS, weigh) == LABELS[label])
    return np.mean(right)


def test_with_up_to_twelve_models_every_set_is_listed():
    assert {tuple(row) for row in sets_of(4).tolist()} == {
        tuple(bool(number >> bit & 1) for bit in range(4)) for number in range(1, 16)
    }
    assert len(sets_of(12)) == 4095


def test_with_more_models_a_sample_of_all_sizes_is_drawn():
    sets = sets_of(14)
    assert len(sets) <= _MOST_SETS + 15
    assert len(np.unique(sets, axis=0)) == len(sets)
    sizes = np.bincount(sets.sum(axis=1), minlength=15)
    assert sizes[0] == 0
    assert (sizes[3:12] > 200).all()


@pytest.mark.parametrize("models", [1, 2, 5, 14])
def test_the_single_models_come_first_and_the_set_of_all_models_last(models):
    sets = sets_of(models)
    assert np.array_equal(sets[:models], np.eye(models, dtype=np.bool_))
    assert sets[-1].all()


def test_the_same_seed_draws_the_same_sample():
    assert np.array_equal(sets_of(14), sets_of(14))
    assert not np.array_equal(sets_of(14), sets_of(14, seed=1))


def test_fixed_sets_of_no_models_are_refused():
    with pytest.raises(InvalidParameterError):
        sets_of(0)


@given(voted())
def test_a_set_is_as_accurate_as_its_weighted_votes_counted_one_by_one(drawn):
    votes, weights, truth = drawn
    sets = sets_of(votes.shape[1])
    expected = [by_hand(members, votes, weights, truth) for members in sets]
    assert set_accuracy(sets, votes, weights, truth, len(LABELS)) == pytest.approx(expected)


def test_counting_in_small_chunks_changes_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    votes, truth, weights = rng.integers(-1, 4, (200, 5)), rng.integers(0, 4, 200), rng.random(5)
    at_once = set_accuracy(sets_of(5), votes, weights, truth, 4)
    monkeypatch.setattr(measures, "_CHUNK", 1)
    assert np.array_equal(set_accuracy(sets_of(5), votes, weights, truth, 4), at_once)


def test_accuracy_without_a_known_truth_is_refused():
    with pytest.raises(InvalidParameterError):
        set_accuracy(sets_of(2), np.zeros((3, 2), dtype=np.int64), np.ones(2), np.full(3, -1), 2)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=20))
def test_the_frontier_is_what_no_other_point_beats(points):
    costs, values = np.array(points, dtype=np.float64).T
    unbeaten = {
        (cost, value)
        for cost, value in points
        if not any(c <= cost and v >= value and (c, v) != (cost, value) for c, v in points)
    }
    best = pareto_positions(costs, values).tolist()
    assert [points[position] for position in best] == sorted(unbeaten)
    assert all(points.index(points[position]) == position for position in best)
