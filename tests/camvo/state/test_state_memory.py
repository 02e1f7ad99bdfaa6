from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import numpy as np

import camvo
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State

ARMS = [f"model {arm}" for arm in range(7)]
DIMENSION = 384


def learn(state, rng, rounds):
    """Score a context and add what its votes taught, as a server does in each round."""
    for _ in range(rounds):
        context = rng.normal(size=DIMENSION)
        q, _ = state.score(ARMS, context)
        changes = zip(ARMS, q.tolist(), rng.random(len(ARMS)).round().tolist(), strict=True)
        state.add(
            Contribution(
                context, tuple(Change(arm, estimate, None, reward) for arm, estimate, reward in changes)
            )
        )


def taken():
    """Bytes that camvo's own lines have allocated and not freed, without those of other threads' code."""
    gc.collect()
    ours = tracemalloc.Filter(True, str(Path(camvo.__file__).parent / "*"))
    statistics = tracemalloc.take_snapshot().filter_traces([ours]).statistics("filename")
    return sum(line.size for line in statistics)


FULL = len(ARMS) * DIMENSION**2 * 8


def test_a_state_grows_with_its_first_rounds_to_the_size_of_its_inverses_and_no_further():
    rng = np.random.default_rng(0)
    learn(State(DIMENSION), rng, 2)
    tracemalloc.start()
    try:
        state, sizes = State(DIMENSION), []
        for rounds in (20, 130, 350):
            learn(state, rng, rounds)
            sizes.append(taken())
    finally:
        tracemalloc.stop()
    young, grown, old = sizes
    assert young <= 0.3 * FULL
    assert FULL <= grown <= 1.1 * FULL
    assert old <= grown + 20_000
