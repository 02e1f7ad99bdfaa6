from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError, SnapshotError
from camvo.state.arm import Arm, Inverse
from camvo.state.contribution import Change, Contribution, revision
from camvo.state.state import State, check_contexts
from camvo.student import TaughtText, hashed_ngrams

ARMS = ("large", "medium", "small")
DIMENSION = 24


def unknown_arm(lambda_l):
    """An arm without history."""
    return Arm(Inverse(DIMENSION, lambda_l), np.zeros(DIMENSION))


def unit(rng):
    vector = rng.normal(size=DIMENSION)
    return vector / np.linalg.norm(vector)


def random_round(rng, context=None, arms=ARMS):
    changes = tuple(
        Change(arm, float(rng.uniform(-0.3, 1.3)), None, float(rng.integers(2)))
        for arm in arms
        if rng.random() < 0.7
    )
    return Contribution(unit(rng) if context is None else context, changes)


def summed(contributions, lambda_l=1.0):
    state = State(DIMENSION, lambda_l)
    for contribution in contributions:
        state.add(contribution)
    return state


def counts(state):
    return state.rounds, {
        name: (state[name].rewards, state[name].mixture.correct.n, state[name].mixture.wrong.n)
        for name in state
        if state[name].rewards
    }


def pair_sums(state):
    """The sums of every pair of the test's arms, whichever of them the state knows."""
    names = state.pairs.names
    blank = np.zeros(4)
    return [
        state.pairs.sums[:, names.index(i), names.index(j)] if {i, j} <= set(names) else blank
        for i in ARMS
        for j in ARMS
    ]


def assert_close(state, other):
    """The same counts exactly, the same floats to 1e-9; an arm without rewards equals a missing one."""
    assert counts(state) == counts(other)
    for name in set(state) | set(other):
        arm, other_arm = (s.get(name) or unknown_arm(s.lambda_l) for s in (state, other))
        np.testing.assert_allclose(arm.inverse.full(), other_arm.inverse.full(), rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(arm.b, other_arm.b, rtol=0.0, atol=1e-9)
        assert arm.reward_sum == pytest.approx(other_arm.reward_sum, abs=1e-9)
        np.testing.assert_allclose(arm.mixture.to_list(), other_arm.mixture.to_list(), rtol=0.0, atol=1e-9)
    for mine, theirs in zip(pair_sums(state), pair_sums(other), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0.0, atol=1e-9)


def assert_same_bits(state, other):
    assert (state.rounds, state.dimension, state.lambda_l) == (other.rounds, other.dimension, other.lambda_l)
    assert list(state) == list(other)
    assert state.pairs.names == other.pairs.names
    assert state.pairs.sums.tobytes() == other.pairs.sums.tobytes()
    for name in state:
        arm, other_arm = state[name], other[name]
        assert arm.inverse.full().tobytes() == other_arm.inverse.full().tobytes()
        assert arm.b.tobytes() == other_arm.b.tobytes()
        assert (arm.rewards, arm.reward_sum) == (other_arm.rewards, other_arm.reward_sum)
        assert arm.mixture == other_arm.mixture


seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.floats(0.2, 5.0))
@settings(deadline=None, max_examples=25)
def test_the_state_is_the_sum_of_its_contributions(seed, lambda_l):
    rng = np.random.default_rng(seed)
    rounds = [random_round(rng) for _ in range(40)]
    state = summed(rounds, lambda_l)
    assert state.rounds == 40
    for name in state:
        shares = [(r.context, c) for r in rounds for c in r.changes if c.arm == name]
        a = lambda_l * np.eye(DIMENSION) + sum(np.outer(context, context) for context, _ in shares)
        arm = state[name]
        np.testing.assert_allclose(arm.inverse.full(), np.linalg.inv(a), atol=1e-10)
        np.testing.assert_allclose(
            arm.b, sum(change.added * context for context, change in shares), atol=1e-12
        )
        assert arm.rewards == len(shares)
        assert arm.mu == sum(change.added for _, change in shares) / len(shares)
        right = [min(max(change.q, 0.0), 1.0) for _, change in shares if change.added == 1.0]
        assert arm.mixture.correct.n == len(right)
        assert arm.mixture.correct.q == pytest.approx(sum(right))
        assert arm.mixture.wrong.n == len(shares) - len(right)


@given(seeds)
@settings(deadline=None, max_examples=25)
def test_the_order_of_rounds_matters_only_to_rounding(seed):
    rng = np.random.default_rng(seed)
    rounds = [random_round(rng) for _ in range(30)]
    assert_close(summed(rounds), summed([rounds[position] for position in rng.permutation(30)]))


def human(rng, voted):
    """The lesson of a human's answer on the same round: other rewards, the same estimates."""
    changes = tuple(Change(c.arm, c.q, None, float(rng.integers(2))) for c in voted.changes)
    return Contribution(voted.context, changes)


@given(seeds)
@settings(deadline=None, max_examples=40)
def test_withdrawing_a_human_label_restores_the_state_before_it(seed):
    rng = np.random.default_rng(seed)
    rounds = [random_round(rng) for _ in range(20)]
    state, before = summed(rounds), summed(rounds)
    voted = rounds[rng.integers(20)]
    answer = human(rng, voted)
    state.add(revision(voted, answer))
    later = random_round(rng)
    state.add(later)
    before.add(later)
    state.add(revision(answer, voted))
    assert_close(state, before)


@given(seeds)
@settings(deadline=None, max_examples=40)
def test_a_revision_leads_to_where_the_human_answer_alone_would_have_led(seed):
    rng = np.random.default_rng(seed)
    rounds = [random_round(rng) for _ in range(10)]
    answer = human(rng, rounds[4])
    revised = summed([*rounds, revision(rounds[4], answer)])
    assert_close(revised, summed([*rounds[:4], answer, *rounds[5:]]))


def test_a_revision_that_only_replaces_rewards_leaves_the_inverse_to_the_bit():
    rng = np.random.default_rng(1)
    voted = Contribution(unit(rng), (Change("large", 0.4, None, 1.0),))
    state = summed([random_round(rng), voted])
    before = state["large"].inverse.full()
    state.add(revision(voted, Contribution(voted.context, (Change("large", 0.4, None, 0.0),))))
    assert np.array_equal(state["large"].inverse.full(), before)
    assert state.rounds == 2


def test_a_human_answer_on_a_round_of_one_vote_is_learnt_and_withdrawn():
    rng = np.random.default_rng(2)
    lonely = Contribution(unit(rng), ())
    answer = Contribution(lonely.context, (Change("small", 0.7, None, 1.0),))
    first = Contribution(unit(rng), (Change("small", 0.5, None, 0.0),))
    before, state = summed([first, lonely]), summed([first, lonely, revision(lonely, answer)])
    assert (before.rounds, state.rounds) == (2, 2)
    assert (before["small"].rewards, state["small"].rewards) == (1, 2)
    state.add(revision(answer, lonely))
    assert_close(state, before)


def test_a_whole_round_can_be_withdrawn():
    rng = np.random.default_rng(3)
    rounds, gone = [random_round(rng) for _ in range(5)], random_round(rng)
    state = summed([*rounds, gone])
    state.add(revision(gone, Contribution(gone.context, (), rounds=0)))
    assert_close(state, summed(rounds))


@given(seeds)
@settings(deadline=None, max_examples=15)
def test_thousands_of_mixed_changes_leave_the_sum_of_what_is_left(seed):
    rng = np.random.default_rng(seed)
    state, standing = State(DIMENSION, 0.5), []
    for _ in range(1000):
        if standing and rng.random() < 0.6:
            position = int(rng.integers(len(standing)))
            old = standing[position]
            if rng.random() < 0.5:
                standing[position] = human(rng, old)
                state.add(revision(old, standing[position]))
            else:
                del standing[position]
                state.add(revision(old, Contribution(old.context, (), rounds=0)))
        else:
            standing.append(random_round(rng))
            state.add(standing[-1])
    assert_close(state, summed(standing, 0.5))
    for name in state:
        assert np.linalg.eigvalsh(state[name].inverse.full()).min() > 0.0


@given(seeds, st.integers(0, 30))
@settings(deadline=None, max_examples=25)
def test_a_snapshot_plus_the_tail_is_the_sum_from_zero_to_the_bit(seed, cut):
    rng = np.random.default_rng(seed)
    rounds = [random_round(rng, arms=("ü name", *ARMS)) for _ in range(30)]
    restored = State.restore(summed(rounds[:cut], 0.3).snapshot())
    assert_same_bits(restored, summed(rounds[:cut], 0.3))
    for contribution in rounds[cut:]:
        restored.add(contribution)
    assert_same_bits(restored, summed(rounds, 0.3))


def test_a_context_of_single_precision_teaches_what_it_is():
    rng = np.random.default_rng(10)
    shares = [(Change("large", 0.5, None, 1.0),), (Change("large", 0.4, None, 0.0),)]
    rounds = [(unit(rng).astype(np.float32), changes) for changes in shares * 2]
    single, double = (
        summed([Contribution(context.astype(kind), changes) for context, changes in rounds])
        for kind in (np.float32, np.float64)
    )
    assert_close(single, double)


def test_the_same_state_gives_the_same_snapshot():
    rounds = [random_round(np.random.default_rng(6)) for _ in range(4)]
    assert summed(rounds).snapshot() == summed(rounds).snapshot()


def archive(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def header(**fields):
    content = {"format": 8, "dimension": 2, "lambda_l": 1.0, "linear": True, "rounds": 0, "pairs": []}
    content |= {"arms": {}, "probes": [0, 0, [], [], False], "rows": [[], []], "contexts": [[], 0]} | fields
    return np.frombuffer(json.dumps(content).encode(), np.uint8)


def single_array():
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a snapshot",
        single_array(),
        archive(other=np.zeros(2)),
        archive(header=np.frombuffer(b"{", np.uint8)),
        archive(header=np.frombuffer(b"[]", np.uint8)),
        archive(header=header(arms=[])),
        archive(header=header(dimension=0)),
        archive(header=header(arms={"a": {"rewards": 1, "reward_sum": 1.0, "mixture": [[0] * 5] * 2}})),
    ],
    ids=["empty", "text", "npy", "no header", "json", "list", "arms", "dimension", "array missing"],
)
def test_bytes_that_are_no_snapshot_are_refused(data):
    with pytest.raises(SnapshotError, match="not a snapshot"):
        State.restore(data)


def test_a_snapshot_of_another_format_is_refused_by_its_number():
    with pytest.raises(SnapshotError, match="format 1, expected 8"):
        State.restore(archive(header=header(format=1)))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_snapshot_is_refused(share):
    data = summed([random_round(np.random.default_rng(7))]).snapshot()
    with pytest.raises(SnapshotError):
        State.restore(data[: int(share * len(data))])


def test_a_snapshot_with_a_flipped_byte_is_refused():
    rng = np.random.default_rng(8)
    data = bytearray(summed([random_round(rng) for _ in range(3)]).snapshot())
    data[data.index(b"inverse0.npy") + 200] ^= 1
    with pytest.raises(SnapshotError):
        State.restore(bytes(data))


contexts = st.one_of(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=8),
    st.lists(st.floats(-1e30, 1e30), max_size=8),
)
changes = st.builds(
    Change,
    st.text(max_size=5),
    st.floats(allow_nan=False),
    st.none() | st.floats(0.0, 1.0),
    st.none() | st.floats(0.0, 1.0),
)


@given(contexts, st.lists(changes, max_size=4), st.integers(-1, 1))
@settings(deadline=None)
def test_unpacking_is_the_inverse_of_packing(context, shares, rounds):
    packed = Contribution(np.array(context, dtype=np.float64), tuple(shares), rounds)
    unpacked = Contribution.unpack(packed.pack())
    assert unpacked.context.dtype == np.float64
    assert unpacked.context.tobytes() == packed.context.tobytes()
    assert (unpacked.changes, unpacked.rounds) == (packed.changes, packed.rounds)


def test_a_context_that_is_exact_in_float32_is_packed_in_half_the_bytes():
    exact = np.arange(100.0)
    short, long = Contribution(exact, ()).pack(), Contribution(exact + 1e-12, ()).pack()
    assert len(long) - len(short) == 400


def test_an_unpacked_contribution_teaches_the_same_bits():
    rounds = [random_round(np.random.default_rng(9)) for _ in range(6)]
    assert_same_bits(summed([Contribution.unpack(r.pack()) for r in rounds]), summed(rounds))


def test_an_arm_without_history_is_unknown_and_has_no_mu():
    assert State(DIMENSION).get("large") is None
    assert unknown_arm(1.0).mu is None


@pytest.mark.parametrize(("dimension", "lambda_l"), [(0, 1.0), (2, 0.0), (2, -1.0), (2, float("nan"))])
def test_a_state_needs_a_dimension_and_a_positive_lambda(dimension, lambda_l):
    with pytest.raises(InvalidParameterError, match="λ_L > 0"):
        State(dimension, lambda_l)


def test_a_contribution_of_another_dimension_is_refused_and_changes_nothing():
    state = State(DIMENSION)
    with pytest.raises(InvalidParameterError, match=f"d = {DIMENSION}"):
        state.add(Contribution(np.ones(5), (Change("large", 0.5, None, 1.0),)))
    assert_same_bits(state, State(DIMENSION))


@pytest.mark.parametrize("contexts", [[np.ones(5)], [np.ones(DIMENSION), np.ones(5)], [0.5]])
def test_contexts_of_another_length_are_refused(contexts):
    with pytest.raises(InvalidParameterError, match=f"d = {DIMENSION}"):
        check_contexts(contexts, DIMENSION)


def test_no_contexts_are_an_empty_stack():
    assert check_contexts([], DIMENSION).shape == (0, DIMENSION)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_many_contributions_at_once_are_as_one_by_one(seed):
    rng = np.random.default_rng(seed)
    voted = [random_round(rng) for _ in range(25)]
    corrected = [revision(lesson, human(rng, lesson)) for lesson in voted[::3]]
    withdrawn = [revision(lesson, Contribution(lesson.context, (), rounds=0)) for lesson in voted[1::6]]
    together = State(DIMENSION)
    together.add(*voted, *corrected, *withdrawn)
    assert_close(together, summed([*voted, *corrected, *withdrawn]))


def test_an_arm_without_rewards_scores_zero():
    q, width = State(DIMENSION).score(ARMS, np.ones(DIMENSION))
    assert not q.any()
    assert not width.any()


def teaches(label):
    return Contribution(np.eye(DIMENSION)[0], (), taught=TaughtText(b"\x05\x00\x09", label))


def test_a_text_that_teaches_the_student_is_changed_and_taken_back_with_its_round():
    state = State(DIMENSION)
    voted, corrected = teaches("yes"), teaches("no")
    state.add(voted)
    assert state.texts.texts == [voted.taught]
    state.add(revision(voted, corrected))
    assert state.texts.texts == [corrected.taught]
    state.add(corrected.withdrawal())
    assert state.texts.texts == []
    assert state.rounds == 0


@pytest.mark.parametrize("beside", [b"", b"\x05\x00\x09", b"another text"])
def test_a_text_that_is_kept_beside_a_contribution_comes_back(beside):
    change = revision(teaches("yes"), teaches("no"))
    again = Contribution.unpack(change.pack(beside))
    assert (again.taught, again.untaught) == (change.taught, change.untaught)
    np.testing.assert_array_equal(again.context, change.context)


def test_the_header_of_a_contribution_holds_no_text_that_is_kept_beside_it():
    text = hashed_ngrams("The soup was cold")
    lesson = Contribution(np.zeros(1), (), taught=TaughtText(text, "yes"))
    assert len(lesson.pack(text).partition(b"\n")[0]) < len(lesson.pack().partition(b"\n")[0]) - len(text)


def test_a_text_that_teaches_the_student_is_stored():
    change = revision(teaches("yes"), teaches("no"))
    again = Contribution.unpack(change.pack())
    assert (again.taught, again.untaught) == (change.taught, change.untaught)
    state = summed([teaches("yes"), change])
    assert State.restore(state.snapshot()).texts == state.texts
