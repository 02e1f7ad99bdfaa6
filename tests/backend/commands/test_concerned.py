"""Which tasks new labels may concern: those whose votes leave room for a label that is near."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from backend.commands.relabel.label_changes import _Concern
from backend.ledger.epochs import DecidedTask
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.sets import SubsetVote

OPTIONS = ("hat", "shoe", "coat")
ARMS = ("red", "green", "blue", "grey")


def task(votes: Mapping[str, str | None], label: str, human: str | None = None) -> DecidedTask:
    return DecidedTask(1, (1, ""), label, 0.9, votes, human)


def voted(*votes: str | None, label: str = "hat", human: str | None = None) -> DecidedTask:
    return task(dict(zip(ARMS, votes, strict=False)), label, human)


def blind(*votes: str | None, human: str) -> DecidedTask:
    return replace(voted(*votes, human=human), audit=True)


SEEN = [*[voted("hat", "hat", "hat", "shoe")] * 6, *[voted("hat", "hat", "hat", "hat")] * 14]
"""Grey is often wrong; the others never are."""


def concern(aggregation: Aggregation = LABEL_VOTE) -> _Concern:
    return _Concern({"shoe"}, aggregation, OPTIONS, SEEN)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (voted("shoe", "shoe", "hat", label="shoe"), True),
        (voted("hat", "shoe"), True),
        (voted("hat", "hat", "hat", "shoe"), False),
        (voted("hat", "hat", None, "coat"), False),
        (voted("hat", "hat", "hat", "hat", label="shoe"), True),
        (voted("hat", "shoe", human="hat"), False),
        (voted("hat", "hat", human="shoe"), True),
        (blind("hat", "shoe", human="hat"), True),
        (blind("hat", "hat", human="shoe"), False),
    ],
)
def test_a_task_is_concerned_if_its_votes_leave_room_for_a_label_that_is_near(
    found: DecidedTask, expected: bool
) -> None:
    assert concern()(found) is expected


def test_the_student_counts_as_a_voter() -> None:
    arms = {"student": "shoe", "red": "hat"}
    seen = [task({"student": "shoe", "red": "shoe"}, "shoe")] * 9
    assert _Concern({"shoe"}, LABEL_VOTE, OPTIONS, seen)(task(arms, "hat"))


def test_a_set_is_concerned_if_any_vote_has_the_label() -> None:
    of_sets = concern(SubsetVote(3))
    assert of_sets(task({"red": '["hat"]', "grey": '["hat","shoe"]'}, '["hat"]'))
    assert not of_sets(task({"red": '["hat"]', "grey": '["hat","coat"]'}, '["hat"]'))
