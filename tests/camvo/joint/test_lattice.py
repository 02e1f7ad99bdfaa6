"""The lattice's nodes, beside counts of set partitions, and its steps."""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
import pytest
from made_up_votes import every_row

from camvo.errors import InvalidParameterError
from camvo.joint.lattice import MOST_NODES, most_arms, vote_lattice
from camvo.joint.votes import renumber


@cache
def partitions(arms, blocks):
    """Stirling numbers of the second kind."""
    if arms == 0 or blocks == 0:
        return int(arms == blocks)
    return blocks * partitions(arms - 1, blocks) + partitions(arms - 1, blocks - 1)


def nodes(arms, labels):
    """Choose who has voted, and partition them by their vote; two labels are named."""
    if labels == 2:
        return 3**arms
    return sum(
        comb(arms, j) * sum(partitions(j, b) for b in range(min(j, labels) + 1)) for j in range(arms + 1)
    )


SIZES = [(1, 1), (3, 1), (1, 2), (4, 2), (1, 3), (3, 3), (4, 3), (5, 3), (4, 7), (6, 22)]


@pytest.mark.parametrize(("arms", "labels"), SIZES)
def test_it_has_a_node_for_everything_that_votes_can_show(arms, labels):
    lattice = vote_lattice(arms, labels)
    assert len(lattice.rows) == nodes(arms, labels)
    assert len(lattice.node_of) == len(lattice.rows)
    if arms <= 4:
        expected = {tuple(row) for row in every_row(arms, labels, silent=False).tolist()}
        assert lattice.node_of.keys() == expected


@pytest.mark.parametrize(("arms", "bell"), [(3, 15), (4, 52), (6, 877)])
def test_with_many_labels_the_nodes_are_a_bell_number(arms, bell):
    assert len(vote_lattice(arms, 30).rows) == bell


@pytest.mark.parametrize("labels", [1, 2, 3, 5, 8, 50])
def test_the_most_arms_are_those_whose_lattice_is_small_enough(labels):
    most = most_arms(labels)
    assert nodes(most, labels) <= MOST_NODES < nodes(most + 1, labels)


@pytest.mark.parametrize(("arms", "labels"), SIZES)
def test_every_node_finds_itself(arms, labels):
    lattice = vote_lattice(arms, labels)
    assert lattice.find(lattice.rows).tolist() == list(range(len(lattice.rows)))


def test_a_silent_arm_is_found_as_one_that_was_not_asked():
    lattice = vote_lattice(3, 4)
    assert lattice.find(np.array([[0, -1, 1]])).tolist() == [lattice.node_of[0, -2, 1]]


@pytest.mark.parametrize(("arms", "labels"), [(3, 2), (3, 3), (4, 5), (2, 1)])
def test_a_step_adds_one_vote(arms, labels):
    lattice = vote_lattice(arms, labels)
    for votes, level in zip(reversed(range(arms)), lattice.steps, strict=True):
        for step in level:
            before = lattice.rows[step.nodes]
            assert ((before >= 0).sum(axis=1) == votes).all()
            for number in range(lattice.numbers):
                possible = step.following[number] >= 0
                after = before[possible].copy()
                after[:, step.arm] = number
                expected = after if lattice.named else renumber(after)
                np.testing.assert_array_equal(lattice.rows[step.following[number, possible]], expected)
                np.testing.assert_array_equal(
                    lattice.after[step.arm, number, step.nodes], step.following[number]
                )


@pytest.mark.parametrize(("arms", "labels"), [(3, 2), (3, 3), (4, 5), (3, 9), (2, 1)])
def test_the_numbers_of_a_step_stand_for_all_labels(arms, labels):
    for step in (step for level in vote_lattice(arms, labels).steps for step in level):
        stood_for = np.where(step.following >= 0, step.labels, 0.0).sum(axis=0)
        assert (stood_for == labels).all()


def test_a_vote_without_a_list_of_labels_has_no_lattice():
    with pytest.raises(InvalidParameterError, match="needs labels"):
        most_arms(0)
