"""The rivals that learn from human labels: the single best model, and routing by context."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.errors import InvalidParameterError
from camvo.policies.rivals import BestSingle, Router
from camvo.replays.replay import VotesTable, replay

PRICES = {"dear": 9.0, "middle": 3.0, "cheap": 1.0}


def table(right: np.ndarray, contexts: np.ndarray | None = None) -> VotesTable:
    """Votes on two labels, right or wrong as given, shape (n, 3)."""
    n = len(right)
    truth = np.arange(n) % 2
    contexts = np.ones((n, 2)) if contexts is None else contexts
    return VotesTable(
        ("no", "yes"), PRICES, contexts, np.where(right, truth[:, None], 1 - truth[:, None]), truth
    )


def asked_after(trace, first):
    return {tuple(row) for row in trace.asked[first:].tolist()}


def first_labelled(n, count):
    return np.arange(n) < count


# the single best model


def test_the_model_that_is_right_most_often_on_the_labelled_items_is_asked_alone():
    right = np.tile([False, True, True], (50, 1))
    right[::5, 2] = False
    trace = replay(BestSingle(first=20), table(right), human=first_labelled(50, 20))
    assert trace.asked[:20].all()
    assert asked_after(trace, 20) == {(False, True, False)}


def test_of_models_that_are_right_equally_often_the_cheapest_is_asked():
    trace = replay(BestSingle(first=20), table(np.ones((50, 3), dtype=bool)), human=first_labelled(50, 20))
    assert asked_after(trace, 20) == {(False, False, True)}


def test_without_a_human_label_every_model_is_asked():
    trace = replay(BestSingle(first=5), table(np.tile([True, True, False], (30, 1))))
    assert trace.asked.all()


def test_agreement_teaches_it_nothing():
    right = np.tile([True, False, False], (60, 1))
    trace = replay(BestSingle(first=40), table(right), human=first_labelled(60, 3))
    assert asked_after(trace, 40) == {(True, False, False)}


def test_a_best_model_without_a_vote_is_replaced_by_the_next_best():
    right = np.tile([False, True, True], (40, 1))
    right[:20:4, 2] = False
    votes = table(right)
    votes.votes[30, 1] = -1
    trace = replay(BestSingle(first=20), votes, human=first_labelled(40, 20))
    assert trace.asked[30].tolist() == [False, True, True]
    assert trace.labels[30] == votes.votes[30, 2]


def test_a_model_that_often_gives_no_vote_is_not_the_best():
    right = np.tile([True, True, False], (60, 1))
    right[:40:8, 0] = False
    votes = table(right)
    votes.votes[:40:2, 1] = -1
    trace = replay(BestSingle(first=40), votes, human=first_labelled(60, 40))
    assert asked_after(trace, 40) == {(True, False, False)}


# the router


def split(n=200, seed=0):
    """Items of two kinds that the context tells apart: the cheap model is wrong on the second."""
    hard = np.random.default_rng(seed).random(n) < 0.5
    contexts = np.where(hard[:, None], [0.0, 1.0], [1.0, 0.0])
    right = np.column_stack([np.ones(n, bool), np.ones(n, bool), ~hard])
    return table(right, contexts), hard


@pytest.mark.parametrize("labelled", [0, 60], ids=["label-free", "with human labels"])
def test_the_dearest_is_asked_where_the_context_says_that_the_cheapest_is_wrong(labelled):
    votes, hard = split()
    trace = replay(Router(threshold=0.1, first=60), votes, human=first_labelled(200, labelled))
    assert not trace.asked[:, 1].any()
    assert trace.asked[:60, [0, 2]].all()
    assert trace.asked[60:, 0].tolist() == hard[60:].tolist()
    assert trace.asked[60:, 2].tolist() == (~hard[60:]).tolist()
    assert (trace.labels == votes.truth).all()


def test_a_dearest_model_that_is_not_better_is_not_asked_again():
    right = np.tile([False, True, True], (80, 1))
    trace = replay(Router(threshold=0.0, first=30), table(right), human=first_labelled(80, 30))
    assert asked_after(trace, 30) == {(False, False, True)}


@pytest.mark.parametrize(("threshold", "asked"), [(1.0, (False, False, True)), (-1.0, (True, False, False))])
def test_the_threshold_decides_between_always_the_one_and_always_the_other(threshold, asked):
    votes, _ = split()
    assert asked_after(replay(Router(threshold=threshold, first=0), votes), 0) == {asked}


def test_a_model_without_a_vote_is_replaced_by_the_other():
    votes, _ = split()
    votes.votes[100, 2] = -1
    trace = replay(Router(threshold=1.0, first=60), votes)
    assert trace.asked[100].tolist() == [True, False, True]


@pytest.mark.parametrize(
    "make",
    [
        lambda: BestSingle(first=-1),
        lambda: Router(threshold=0.1, first=-1),
        lambda: Router(threshold=1.5),
        lambda: Router(threshold=float("nan")),
    ],
)
def test_a_parameter_out_of_its_range_is_refused(make):
    with pytest.raises(InvalidParameterError):
        make()
