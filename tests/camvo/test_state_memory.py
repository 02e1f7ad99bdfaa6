from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import numpy as np

import camvo
from camvo.contribution import Change, Contribution
from camvo.state import State

ARMS = [f"model {arm}" for arm in range(7)]
DIMENSION = 384


def learn(state, rng, rounds):
    """What a server does with a round: score the context, then add what its votes taught."""
    for _ in range(rounds):
        context = rng.normal(size=DIMENSION)
        q, _ = state.score(ARMS, [context])
        changes = zip(ARMS, q[0].tolist(), rng.random(len(ARMS)).round().tolist(), strict=True)
        state.add(
            Contribution(context, tuple(Change(arm, seen, None, reward) for arm, seen, reward in changes))
        )


def taken():
    """Bytes that camvo's own lines have allocated and not given back; other threads may be at work."""
    gc.collect()
    ours = tracemalloc.Filter(True, str(Path(camvo.__file__).parent / "*"))
    found = tracemalloc.take_snapshot().filter_traces([ours]).statistics("filename")
    return sum(line.size for line in found)


def test_a_state_is_as_large_as_the_inverses_of_its_arms_however_many_rounds_it_has_learnt():
    rng = np.random.default_rng(0)
    learn(State(DIMENSION), rng, 2)
    tracemalloc.start()
    try:
        state = State(DIMENSION)
        learn(state, rng, 50)
        after_50 = taken()
        learn(state, rng, 450)
        after_500 = taken()
    finally:
        tracemalloc.stop()
    assert len(ARMS) * DIMENSION**2 * 8 <= after_500 <= 1.1 * len(ARMS) * DIMENSION**2 * 8
    assert after_500 <= after_50 + 20_000
