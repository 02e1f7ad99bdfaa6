"""Time whole rounds of CaMVo, compared with the bandits of other libraries in the same run.

    pip install -e ".[benchmark]" -c constraints.txt
    OMP_NUM_THREADS=1 pytest -n 0 benchmarks/test_rounds.py

All libraries process the same 2,048 contexts of 384 dimensions with seven arms. A round of CaMVo is complete:
it scores every arm, finds the cheapest confident subset, counts the votes and learns. It asks three arms,
which are always the same after the first rounds. It is told one context in advance, or 64. The other
libraries only score seven arms and learn three rewards, without intervals, subset or vote. Compare the ratios
of the medians; the seconds depend on the machine.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg.blas import dsymv, dsyr

from camvo.policies.camvo import CaMVo
from camvo.replays.replay import VotesTable, replay

ROUNDS, DIMENSION, ARMS, ASKED = 2048, 384, 7, 3
ARM_NAMES = [f"model {arm}" for arm in range(ARMS)]


def _table() -> VotesTable:
    """Seven models that are right 19 times in 20; any three of them are confident enough."""
    rng = np.random.default_rng(0)
    contexts = rng.normal(1.0, 1.0, size=(ROUNDS, DIMENSION))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    truth = rng.integers(4, size=ROUNDS)
    wrong = (truth[:, None] + rng.integers(1, 4, size=(ROUNDS, ARMS))) % 4
    votes = np.where(rng.random((ROUNDS, ARMS)) < 0.95, truth[:, None], wrong)
    prices = {name: 1.0 + 0.37 * arm for arm, name in enumerate(ARM_NAMES)}
    return VotesTable(("A", "B", "C", "D"), prices, contexts, votes, truth)


TABLE = _table()
REWARDS = (TABLE.votes == TABLE.truth[:, None]).astype(float)
POLICY = CaMVo(delta=0.75, k_min=ASKED, n0=1)


@pytest.fixture
def measured(benchmark):
    benchmark.group = f"{ROUNDS} rounds"

    def measure(work, setup=tuple, rounds=15):
        benchmark.pedantic(work, setup=lambda: (setup(), {}), rounds=rounds)
        benchmark.extra_info["rounds/s"] = round(ROUNDS / benchmark.stats.stats.median)

    return measure


def _fresh():
    inverses = [np.asfortranarray(np.eye(DIMENSION)) for _ in range(ARMS)]
    return inverses, np.zeros((ARMS, DIMENSION))


def _linear_algebra_alone(inverses, b):
    for context, rewards in zip(TABLE.contexts, REWARDS, strict=True):
        for arm in range(ARMS):
            solved = dsymv(1.0, inverses[arm], context)
            _ = solved @ b[arm], solved @ context
        for arm in range(ASKED):
            solved = dsymv(1.0, inverses[arm], context)
            dsyr(-1.0 / (1.0 + solved @ context), solved, a=inverses[arm], overwrite_a=1)
            b[arm] += rewards[arm] * context


def test_tuned_prototype(measured):
    measured(_linear_algebra_alone, _fresh)


@pytest.mark.parametrize(("window", "ahead"), [(1, 1), (1, 64), (64, 64)])
def test_camvo(measured, monkeypatch, window, ahead):
    monkeypatch.setattr("camvo.replays.replay._AHEAD", ahead)
    traces = []
    measured(lambda: traces.append(replay(POLICY, TABLE, window=window)))
    assert traces[-1].asked[64:].sum(axis=1).mean() == pytest.approx(ASKED, abs=0.2)


def test_mabwiser(measured):
    mabwiser = pytest.importorskip("mabwiser.mab")
    warm = slice(0, ARMS)

    def bandit():
        bandit = mabwiser.MAB(ARM_NAMES, mabwiser.LearningPolicy.LinUCB(alpha=0.25, l2_lambda=1.0))
        bandit.fit(ARM_NAMES, REWARDS.diagonal()[warm], TABLE.contexts[warm])
        return (bandit,)

    def work(bandit):
        for context, rewards in zip(TABLE.contexts, REWARDS, strict=True):
            bandit.predict_expectations(context[None])
            bandit.partial_fit(ARM_NAMES[:ASKED], rewards[:ASKED], np.repeat(context[None], ASKED, axis=0))

    measured(work, bandit, rounds=1)


def test_contextualbandits(measured):
    online = pytest.importorskip("contextualbandits.online")

    def bandit():
        bandit = online.LinUCB(ARMS, alpha=0.25, lambda_=1.0, fit_intercept=False, method="sm", njobs=1)
        bandit.fit(TABLE.contexts[:ARMS], np.arange(ARMS), REWARDS.diagonal())
        return (bandit,)

    def work(bandit):
        for context, rewards in zip(TABLE.contexts, REWARDS, strict=True):
            bandit.decision_function(context[None])
            contexts = np.repeat(context[None], ASKED, axis=0)
            bandit.partial_fit(contexts, np.arange(ASKED), rewards[:ASKED])

    measured(work, bandit, rounds=5)
