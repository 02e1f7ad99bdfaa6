"""The made-up tables have what their names say."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from made_up import KINDS, MadeUp, drawn
from numpy.typing import NDArray

from camvo.replays.measures import model_accuracy

ITEMS = 4000


@lru_cache
def drawn_kind(name: str) -> MadeUp:
    return drawn(KINDS[name], seed=1, items=ITEMS)


def agreement(votes: NDArray[np.int64], first: int, second: int) -> float:
    return float(np.mean(votes[:, first] == votes[:, second]))


@pytest.mark.parametrize("name", KINDS)
def test_the_same_seed_draws_the_same_table_and_another_seed_another(name):
    first, again, other = (drawn(KINDS[name], seed, items=200) for seed in (0, 0, 1))
    assert (first.table.votes == again.table.votes).all()
    assert (first.table.contexts == again.table.contexts).all()
    assert first.texts == again.texts
    assert (first.table.votes != other.table.votes).any()


@pytest.mark.parametrize("name", KINDS)
def test_a_table_has_the_labels_that_its_kind_states(name):
    table = drawn_kind(name).table
    assert len(table.labels) == KINDS[name].labels
    assert table.truth.min() == 0
    assert max(table.truth.max(), table.votes.max()) == KINDS[name].labels - 1


def test_the_biased_services_are_right_on_one_label_and_wrong_on_half_of_the_other():
    table = drawn_kind("two biased services of four").table
    first, second = (
        model_accuracy(table.votes[table.truth == label], table.truth[table.truth == label])
        for label in (0, 1)
    )
    assert (first[2:] > 0.95).all()
    assert (second[2:] < 0.5).all()
    assert (np.minimum(first, second)[:2] > 0.84).all()


def test_the_related_models_are_weak_and_agree_on_88_percent():
    table = drawn_kind("three weak related models of seven").table
    accuracy = model_accuracy(table.votes, table.truth)
    assert accuracy[4:].max() < accuracy[:4].min()
    assert [agreement(table.votes, *pair) for pair in ((4, 5), (4, 6), (5, 6))] == pytest.approx(
        [0.88] * 3, abs=0.02
    )


@pytest.mark.parametrize("labels", [2, 4])
def test_copies_agree_more_with_the_copied_model_than_with_any_other(labels):
    votes = drawn_kind(f"three copy one another, {labels} labels").table.votes
    related = min(agreement(votes, 4, 5), agreement(votes, 4, 6))
    assert related > 0.85
    assert related > max(agreement(votes, 4, other) for other in range(4)) + 0.1


def test_a_fifth_of_the_votes_is_missing():
    votes = drawn_kind("20% of the votes missing").table.votes
    assert (votes < 0).mean() == pytest.approx(0.2, abs=0.01)


def test_two_models_are_far_better_than_the_other_five():
    table = drawn_kind("two far better of seven").table
    accuracy = np.sort(model_accuracy(table.votes, table.truth))
    assert accuracy[-2] > accuracy[-3] + 0.15


def test_every_model_is_worse_in_the_harder_third():
    made_up = drawn_kind("the last third harder")
    table, change = made_up.table, made_up.change
    before = model_accuracy(table.votes[:change], table.truth[:change])
    assert (model_accuracy(table.votes[change:], table.truth[change:]) < before - 0.1).all()


def test_the_model_that_breaks_is_at_chance_afterwards_and_no_other_changes():
    made_up = drawn_kind("a model that breaks")
    table, change = made_up.table, made_up.change
    after = model_accuracy(table.votes[change:], table.truth[change:])
    before = model_accuracy(table.votes[:change], table.truth[:change])
    assert after[5] == pytest.approx(0.25, abs=0.04)
    assert np.delete(after, 5) == pytest.approx(np.delete(before, 5), abs=0.04)


def test_sorted_items_get_harder_to_the_end():
    table = drawn_kind("sorted by difficulty").table
    right = (table.votes == table.truth[:, None]).mean(axis=1).reshape(8, -1).mean(axis=1)
    assert (np.diff(right) < 0.0).all()


def test_a_surer_vote_is_more_often_right():
    made_up = drawn_kind("confidences that tell")
    right = made_up.table.votes == made_up.table.truth[:, None]
    for model, stated in enumerate(made_up.confidences.T):
        sure = stated > np.median(stated)
        assert right[sure, model].mean() > right[~sure, model].mean() + 0.05


@pytest.mark.parametrize("name", ["twelve tasks in one stream", "seven languages"])
def test_models_have_other_skills_in_other_groups(name):
    made_up = drawn_kind(name)
    groups = np.array(made_up.groups)
    by_group = np.array(
        [
            model_accuracy(made_up.table.votes[groups == group], made_up.table.truth[groups == group])
            for group in sorted(set(made_up.groups))
        ]
    )
    assert len(set(by_group.argmax(axis=1).tolist())) > 1


def test_texts_of_one_topic_share_words():
    made_up = drawn_kind("short texts with topics")
    words: dict[int, set[str]] = {}
    for text, topic in zip(made_up.texts, made_up.table.truth.tolist(), strict=True):
        words.setdefault(topic, set()).update(text.split())
    assert len(words[0] - words[1]) > 50
