"""A state that was told which contexts are coming, beside one that was not: it must not matter."""

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
    """A round in which each of the arms may have voted, with a whole or a fractional reward."""
    return Contribution(
        context,
        tuple(
            Change(arm, float(rng.random()), None, float(rng.choice([0.0, 0.4, 1.0])))
            for arm in arms
            if rng.random() < 0.6
        ),
    )


def events(rng, coming):
    """Rounds on the contexts ahead and on others; some are corrected, some withdrawn; an arm joins midway."""
    told, standing = [], []
    for number, context in enumerate([*coming, *coming[::3]]):
        arms = ARMS if number > COMING // 2 else ARMS[:-1]
        standing.append(taught(rng, context if rng.random() < 0.9 else contexts_of(rng, 1)[0], arms))
        told.append(standing[-1])
        before = standing.pop(int(rng.integers(len(standing))))
        kind = rng.choice(["kept", "kept", "corrected", "withdrawn"])
        if kind == "withdrawn":
            told.append(revision(before, Contribution(before.context, (), rounds=0)))
            continue
        if kind == "corrected":
            human = [change._replace(removed=None, added=1.0 - change.added) for change in before.changes]
            told.append(revision(before, Contribution(before.context, tuple(human))))
            before = Contribution(before.context, tuple(human))
        standing.append(before)
    return told


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
        one = number % COMING
        for ahead in (coming[one : one + 1], coming[one:], coming):
            for seen, expected in zip(
                told.score_window(ARMS, ahead),
                scored_one_by_one(plain, ahead),
                strict=True,
            ):
                np.testing.assert_allclose(seen, expected, rtol=0.0, atol=1e-10)
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
        seen, expected = (np.array(state.score(ARMS, other[0])) for state in (told, plain))
        np.testing.assert_allclose(seen, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("context", "said"),
    [(np.ones(5), f"d = {DIMENSION}"), (np.full(DIMENSION, np.nan), "NaN")],
    ids=["shape", "nan"],
)
def test_a_context_that_cannot_be_scored_is_refused_when_it_is_announced(context, said):
    with pytest.raises(InvalidParameterError, match=said):
        LookaheadState(DIMENSION).announce([context])
