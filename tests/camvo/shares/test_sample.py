"""Which blind labels are a random sample, and of which tasks."""

from __future__ import annotations

from camvo.shares import Arrival, random_sample


def queue(places, counted):
    """Blind tasks in the order of their rounds, at these places; those at a counted place are labelled."""
    return [Arrival(number, place, number, place in counted) for number, place in enumerate(places, start=1)]


def sampled(places, counted, ends):
    found = random_sample(queue(places, counted), ends)
    return None if found is None else ({arrival.place for arrival in found[0]}, found[1])


def test_all_blind_tasks_are_a_sample_of_all_tasks():
    assert sampled([3, 1, 2], {1, 2, 3}, [2, 30]) == ({1, 2, 3}, 30)


def test_the_front_of_the_order_is_a_sample_too():
    assert sampled([3, 1, 2], {1, 2}, [3]) == ({1, 2}, 3)


def test_what_is_not_the_front_is_none():
    assert sampled([3, 1, 2], {1, 3}, [3]) is None


def test_tasks_that_came_later_and_are_labelled_in_part_are_left_out():
    assert sampled([2, 1, 4, 3], {1, 2, 3}, [2, 4]) == ({1, 2}, 2)


def test_of_later_cohorts_no_front_is_taken():
    assert sampled([1, 2, 3, 4], {1, 2, 3}, [2, 4]) == ({1, 2}, 2)
    assert sampled([4, 1, 2, 3], {1, 2}, [2, 4]) == ({1}, 2)


def test_without_a_label_there_is_none():
    assert sampled([1, 2], set(), [2]) is None
    assert random_sample([], []) is None


def test_tasks_after_the_last_cohort_are_not_spoken_for():
    assert sampled([2, 1, 3], {1, 2, 3}, [2]) == ({1, 2}, 2)
