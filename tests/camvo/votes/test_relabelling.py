"""Votes under other labels, and what was learnt from them."""

from __future__ import annotations

import numpy as np
import pytest
from same_state import assert_same_state

from camvo.state.contribution import Change, Contribution, KeptRound, SureVote
from camvo.state.exploration import ExplorationRound, VotePattern
from camvo.state.state import State
from camvo.student import TaughtText, hashed_ngrams
from camvo.votes.labels import LABEL_VOTE, OrderedVote
from camvo.votes.numbers import NumericVote
from camvo.votes.relabelling import LabelChange, Relabelling, steps_since
from camvo.votes.sets import SubsetVote
from camvo.votes.spans import SpanVote

MERGED = {"a": "x", "b": "x", "c": None, "d": "d"}


@pytest.mark.parametrize(
    ("aggregation", "vote", "expected"),
    [
        (LABEL_VOTE, "a", "x"),
        (LABEL_VOTE, "c", None),
        (OrderedVote(("x", "d", "e")), "b", "x"),
        (LABEL_VOTE, "d", "d"),
        (SubsetVote(2), '["a","b","c","d"]', '["d","x"]'),
        (SubsetVote(2), '["c"]', "[]"),
        (SpanVote(), '[[0,2,"a"],[0,2,"b"],[3,4,"c"],[5,6,"d"]]', '[[0,2,"x"],[5,6,"d"]]'),
        (NumericVote(0.0, 5.0), "4", "4"),
    ],
)
def test_a_vote_is_written_in_the_labels_of_now(aggregation: object, vote: str, expected: str | None) -> None:
    assert Relabelling(aggregation, MERGED, ("d", "x")).vote(vote) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "exact"),
    [({"a": "x", "b": "b"}, True), ({"a": "x", "b": "x"}, False), ({"a": "a", "b": None}, False)],
)
def test_only_labels_that_stay_apart_leave_votes_as_they_agree(
    labels: dict[str, str | None], exact: bool
) -> None:
    assert Relabelling(LABEL_VOTE, labels, ()).is_exact is exact


def test_a_vote_that_is_none_of_the_question_has_no_reading() -> None:
    assert Relabelling(SubsetVote(2), MERGED, ("d", "x")).vote_if_valid("a") is None


@pytest.mark.parametrize(
    ("aggregation", "vote"),
    [(LABEL_VOTE, "x"), (SubsetVote(2), '["d","x"]'), (SpanVote(), '[[0,2,"x"],[5,6,"d"]]')],
)
def test_a_vote_with_a_label_whose_source_nobody_knows_has_no_reading(aggregation: object, vote: str) -> None:
    merge: dict[str, str | None] = {"a": "x", "b": "x", "d": "d"}
    undo: dict[str, str | None] = {"x": None, "d": "d"}
    [_, back] = steps_since(aggregation, [LabelChange(merge), LabelChange(undo)], ("a", "b", "d"))  # type: ignore[arg-type]
    assert back.vote(vote) is None


def test_labels_that_never_changed_have_no_steps() -> None:
    assert steps_since(LABEL_VOTE, (), ("a", "b")) == []


def test_a_merged_label_that_is_dropped_leaves_the_rest_of_a_set() -> None:
    [_, drop] = steps_since(
        SubsetVote(2),
        [LabelChange({"a": "x", "b": "x", "d": "d"}), LabelChange({"x": None, "d": "d"})],
        ("d",),
    )
    assert drop.vote('["d","x"]') == '["d"]'


def lesson(*labels: str) -> Contribution:
    """One round in which two arms vote for labels, and a human says the first."""
    one, two = labels
    arms = ("p", "q")
    votes = dict(zip(arms, labels, strict=True))
    return Contribution(
        np.array([1.0, 0.0]),
        tuple(Change(arm, 0.5, None, float(vote == one)) for arm, vote in votes.items()),
        exploration=ExplorationRound(
            VotePattern.of(arms, votes, everyone=True, labels=tuple(sorted({"a", "b", "d", one, two}))), True
        ),
        kept=KeptRound.of(votes, one, {"p": 0.9}),
        compared=(SureVote("p", one, 50, one == two),),
        taught=TaughtText(hashed_ngrams("soup"), one),
    )


def test_the_state_of_renamed_lessons_is_the_renamed_state() -> None:
    names = {"a": "z", "b": "b", "d": "d"}
    state, renamed = State(2), State(2)
    for labels in (("a", "b"), ("b", "b"), ("d", "a")):
        state.add(lesson(*labels))
        renamed.add(lesson(*labels).relabelled(names.get))
    assert_same_state(state.relabelled(names.get), renamed)
    assert [text.label for text in renamed.texts.texts] == ["z", "b", "d"]


def test_votes_for_a_dropped_label_count_as_none() -> None:
    pattern = VotePattern.of(("p", "q"), {"p": "a", "q": "b"}, everyone=True, labels=("a", "b", "d"))
    names = {"a": "a", "b": None, "d": "d"}
    assert pattern.relabelled(names.get) == VotePattern.of(
        ("p", "q"), {"p": "a", "q": None}, everyone=True, labels=("a", "d")
    )


def test_a_long_scale_with_other_names_stays_named() -> None:
    scale = tuple("abcdefgh")
    pattern = VotePattern.of(("p", "q"), {"p": "a", "q": "h"}, everyone=True, labels=scale)
    renamed = pattern.relabelled(str.upper)
    assert renamed.positions(("p", "q"), "ABCDEFGH") == (0, 7)


def test_a_lesson_on_a_dropped_label_keeps_its_rewards_and_forgets_the_rest() -> None:
    left = lesson("a", "b").relabelled({"a": None, "b": "b", "d": "d"}.get)
    assert (left.kept, left.taught, left.compared) == (None, None, ())
    assert [change.added for change in left.changes] == [1.0, 0.0]


def test_a_set_with_a_label_that_was_split_says_nothing() -> None:
    labels = {"hat": "hat", "shoe": None}
    [split] = steps_since(SubsetVote(2), [LabelChange(labels, ["shoe"])], ("hat", "boot", "sandal"))
    assert split.vote('["hat","shoe"]') is None
    assert split.vote('["hat"]') == '["hat"]'
