"""A state that is told the next contexts gives the same results as one that is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.replays.lookahead import LookaheadState
from camvo.state.contribution import Change, Contribution, revision
from camvo.state.state import State

ARMS = ("large", "medium", "small", "late")
DIMENSION, COMING = 24, 10


def contexts_of(rng, count):
    return [vector / np.linalg.norm(vector) for vector in rng.normal(size=(count, DIMENSION))]


def scored_one_by_one(state, contexts):
    return np.array([state.score(ARMS, context) for context in contexts]).transpose(1, 0, 2)


def taught(rng, context, arms):
    """Return a round in which some of the arms voted, with rewards of 0, 0.4 or 1."""
    return Contribution(
        context,
        tuple(
            Change(arm, float(rng.random()), None, float(rng.choice([0.0, 0.4, 1.0])))
            for arm in arms
            if rng.random() < 0.6
        ),
    )


def events(rng, coming):
    """Return rounds on announced and other contexts. Some are corrected or withdrawn; one arm joins late."""
    contributions, standing = [], []
    for number, context in enumerate([*coming, *coming[::3]]):
        arms = ARMS if number > COMING // 2 else ARMS[:-1]
        standing.append(taught(rng, context if rng.random() < 0.9 else contexts_of(rng, 1)[0], arms))
        contributions.append(standing[-1])
        before = standing.pop(int(rng.integers(len(standing))))
        kind = rng.choice(["unchanged", "unchanged", "corrected", "withdrawn"])
        if kind == "withdrawn":
            contributions.append(revision(before, Contribution(before.context, (), rounds=0)))
            continue
        if kind == "corrected":
            human = [change._replace(removed=None, added=1.0 - change.added) for change in before.changes]
            contributions.append(revision(before, Contribution(before.context, tuple(human))))
            before = Contribution(before.context, tuple(human))
        standing.append(before)
    return contributions


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=60, deadline=None)
def test_what_is_scored_and_learnt_is_the_same_as_without_looking_ahead(seed, interrupted):
    rng = np.random.default_rng(seed)
    past = [taught(rng, context, ARMS[:-1]) for context in contexts_of(rng, 5)]
    coming = contexts_of(rng, COMING)
    told, plain = LookaheadState(DIMENSION), State(DIMENSION)
    for state in (told, plain):
        state.add(*past)
    told.announce(coming)
    for number, event in enumerate(events(rng, coming)):
        told.add(event)
        plain.add(event)
        position = number % COMING
        for ahead in (coming[position : position + 1], coming[position:], coming):
            for scored, expected in zip(
                told.score_window(ARMS, ahead),
                scored_one_by_one(plain, ahead),
                strict=True,
            ):
                np.testing.assert_allclose(scored, expected, rtol=0.0, atol=1e-10)
        if interrupted and number == COMING // 2:
            told.snapshot()
    for arm in plain:
        np.testing.assert_allclose(told[arm].inverse.full(), plain[arm].inverse.full(), rtol=0.0, atol=1e-10)
        np.testing.assert_allclose(told[arm].b, plain[arm].b, rtol=0.0, atol=1e-12)


def test_a_context_that_was_not_announced_may_be_scored_in_between():
    rng = np.random.default_rng(1)
    coming, other = contexts_of(rng, COMING), contexts_of(rng, 1)
    told, plain = LookaheadState(DIMENSION), State(DIMENSION)
    told.announce(coming)
    for context in coming:
        event = taught(rng, context, ARMS)
        told.score(ARMS, context)
        for state in (told, plain):
            state.add(event)
        scored, expected = (np.array(state.score(ARMS, other[0])) for state in (told, plain))
        np.testing.assert_allclose(scored, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("context", "message"),
    [(np.ones(5), f"d = {DIMENSION}"), (np.full(DIMENSION, np.nan), "NaN")],
    ids=["shape", "nan"],
)
def test_a_context_that_cannot_be_scored_is_refused_when_it_is_announced(context, message):
    with pytest.raises(InvalidParameterError, match=message):
        LookaheadState(DIMENSION).announce([context])
