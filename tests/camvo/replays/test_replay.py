from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from synthetic_votes import SyntheticModel, draw_votes_table
from topic_texts import draw_topic_texts

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Baseline, Majority, Single
from camvo.policies.joint import Joint
from camvo.policies.policy import Observation
from camvo.replays.lookahead import LookaheadState
from camvo.replays.replay import _QUESTION, VotesTable, _StudentArm, has_student, replay
from camvo.student import LEAST_TEXTS, STUDENT

MODELS = {
    "large": SyntheticModel(0.92, 10.0),
    "medium": SyntheticModel(0.85, 2.0),
    "small": SyntheticModel(0.8, 1.0),
    "tiny": SyntheticModel(0.7, 0.5),
}
LABELS = ("no", "yes", "maybe")


def drawn(items=300, seed=0, **options):
    return draw_votes_table(MODELS, items=items, labels=LABELS, seed=seed, **{"dimension": 8, **options})


def test_asking_everyone_costs_the_full_price_every_time():
    table = drawn()
    trace = replay(Majority(), table)
    assert table.full_cost == 13.5
    assert trace.costs.tolist() == [13.5] * 300
    assert trace.asked.all()


def test_a_single_models_labels_are_its_votes():
    table = drawn()
    trace = replay(Single(model="small"), table)
    assert trace.labels.tolist() == table.votes[:, 2].tolist()
    assert set(trace.costs) == {1.0}
    assert trace.asked.sum(axis=0).tolist() == [0, 0, 300, 0]


def test_the_unweighted_majority_is_the_plurality_of_the_row():
    table = drawn()
    for label, row in zip(replay(Majority(), table).labels, table.votes, strict=True):
        counts = np.bincount(row, minlength=len(LABELS))
        assert counts[label] == counts.max()


def test_the_cost_of_an_item_is_the_price_of_the_models_that_were_asked():
    table = drawn()
    trace = replay(CaMVo(delta=0.9), table)
    assert trace.costs == pytest.approx(trace.asked @ np.array(list(table.prices.values())))


def test_camvo_costs_less_than_everyone_once_it_has_learnt():
    table = drawn(items=600)
    trace = replay(CaMVo(delta=0.9, k_min=1), table)
    assert trace.asked[:10].all()
    assert trace.costs[300:].mean() < 0.8 * table.full_cost
    assert np.mean(trace.labels == table.truth) > 0.8


def test_the_mean_score_is_about_the_accuracy():
    table = drawn(items=600, correlation=0.0)
    trace = replay(Baseline(), table)
    assert np.all((trace.scores >= 0.0) & (trace.scores <= 1.0))
    assert trace.scores.mean() == pytest.approx(np.mean(trace.labels == table.truth), abs=0.05)


def test_the_truth_is_not_looked_at():
    table = drawn()
    blind = VotesTable(table.labels, table.prices, table.contexts, table.votes, np.zeros_like(table.truth))
    assert np.array_equal(replay(CaMVo(), table).labels, replay(CaMVo(), blind).labels)


def test_a_vote_of_a_model_that_was_not_asked_is_not_looked_at():
    table = drawn()
    trace = replay(CaMVo(delta=0.9, k_min=1), table)
    assert not trace.asked.all()
    hidden = VotesTable(
        table.labels, table.prices, table.contexts, np.where(trace.asked, table.votes, -1), table.truth
    )
    again = replay(CaMVo(delta=0.9, k_min=1), hidden)
    assert np.array_equal(trace.labels, again.labels)
    assert np.array_equal(trace.scores, again.scores)


def test_a_replay_is_the_same_every_time():
    first, second = replay(CaMVo(), drawn()), replay(CaMVo(), drawn())
    assert np.array_equal(first.labels, second.labels)
    assert np.array_equal(first.scores, second.scores)


def test_models_without_an_answer_are_paid_and_replaced_and_an_item_without_a_vote_has_no_label():
    table = drawn(items=40)
    votes = table.votes.copy()
    votes[:, 0] = -1
    votes[7] = -1
    trace = replay(
        CaMVo(k_min=1, n0=1, delta=0.6), VotesTable(LABELS, table.prices, table.contexts, votes, table.truth)
    )
    assert trace.labels[7] == -1
    assert np.isnan(trace.scores[7])
    assert trace.asked[7].all()
    assert trace.costs[7] == table.full_cost
    assert np.all(np.delete(trace.labels, 7) >= 0)


@pytest.mark.parametrize("shape", [(5, 4), (6, 3)], ids=["items", "models"])
def test_a_table_whose_shapes_disagree_is_refused(shape):
    with pytest.raises(InvalidParameterError, match="6 items and 4 models"):
        VotesTable(
            LABELS,
            dict.fromkeys(MODELS, 1.0),
            np.zeros((6, 2)),
            np.zeros(shape, dtype=np.int64),
            np.zeros(6, dtype=np.int64),
        )


def test_the_same_seed_draws_the_same_table_and_another_seed_another():
    assert np.array_equal(drawn(seed=3).votes, drawn(seed=3).votes)
    assert np.array_equal(drawn(seed=3).contexts, drawn(seed=3).contexts)
    assert not np.array_equal(drawn(seed=3).votes, drawn(seed=4).votes)


def test_the_drawn_models_are_about_as_accurate_as_asked_for():
    tables = [drawn(items=4000, seed=seed) for seed in range(10)]
    accuracy = np.mean([(table.votes == table.truth[:, None]).mean(axis=0) for table in tables], axis=0)
    assert accuracy == pytest.approx([model.accuracy for model in MODELS.values()], abs=0.03)


def test_the_errors_of_the_drawn_models_are_correlated():
    def together(correlation):
        table = drawn(items=4000, correlation=correlation, skill_spread=0.0)
        return np.corrcoef((table.votes != table.truth[:, None]).T)[0, 1]

    assert together(0.0) == pytest.approx(0.0, abs=0.05)
    assert together(0.6) > 0.2


def test_the_contexts_are_unit_vectors():
    assert np.linalg.norm(drawn().contexts, axis=1) == pytest.approx(np.ones(300))


def test_a_window_is_planned_on_the_state_before_it():
    table = drawn(items=60)
    trace = replay(CaMVo(delta=0.9), table, window=60)
    assert trace.asked.all()


def test_items_without_a_context_do_not_all_explore_at_once():
    table = dataclasses.replace(drawn(items=600), contexts=np.zeros((600, 1)))
    everyone = replay(Joint(), table, window=50).asked.all(axis=1).reshape(-1, 50).sum(axis=1)
    assert everyone[0] == 50
    assert everyone[1:].max() < 25


def test_the_truth_of_an_item_that_a_human_labels_replaces_the_voted_label():
    table = drawn(items=400)
    everyone = np.ones(400, dtype=np.bool_)
    with_labels = replay(Baseline(), VotesTable(**_swapped(table)), human=everyone)
    without_labels = replay(Baseline(), VotesTable(**_swapped(table)))
    truth = _swapped(table)["truth"]
    assert np.mean(with_labels.labels == truth) > np.mean(without_labels.labels == truth) + 0.1


def _swapped(table):
    """Return the table with three copies of one bad model, which outvote the good ones at first."""
    rng = np.random.default_rng(3)
    bad = np.where(rng.random(len(table.truth)) < 0.4, table.truth, (table.truth + 1) % len(table.labels))
    votes = np.column_stack([table.votes[:, :2], bad, bad, bad])
    prices = dict.fromkeys(("large", "medium", "one", "three", "two"), 1.0)
    return {
        "labels": table.labels,
        "prices": prices,
        "contexts": table.contexts,
        "votes": votes,
        "truth": table.truth,
    }


@pytest.mark.parametrize("wrong", [{"window": 0}, {"human": np.ones(3, dtype=np.bool_)}])
def test_an_empty_window_and_human_labels_of_another_shape_are_refused(wrong):
    with pytest.raises(InvalidParameterError):
        replay(Majority(), drawn(items=10), **wrong)


def test_a_human_label_of_an_item_whose_truth_is_unknown_is_refused():
    table = drawn(items=10)
    truth = table.truth.copy()
    truth[[4, 7]] = -1
    unsure = dataclasses.replace(table, truth=truth)
    with pytest.raises(InvalidParameterError, match="2 items whose truth is unknown; the first is item 4"):
        replay(Majority(), unsure, human=np.ones(10, dtype=np.bool_))


def with_confidences(table, seed=0):
    """Every model says 0.95 or 0.3, and is right as often."""
    rng = np.random.default_rng(seed)
    confidences = rng.choice([0.3, 0.95], size=table.votes.shape)
    wrong = (table.truth[:, None] + 1 + rng.integers(2, size=table.votes.shape)) % 3
    votes = np.where(rng.random(table.votes.shape) < confidences, table.truth[:, None], wrong)
    return dataclasses.replace(table, votes=votes, confidences=confidences)


def test_a_policy_that_uses_confidences_is_right_more_often():
    table = with_confidences(drawn(dimension=2))
    human = np.arange(300) < 60
    sure, blind = (
        replay(Joint(), items, window=50, human=human)
        for items in (table, dataclasses.replace(table, confidences=None))
    )
    gain = np.mean(sure.labels[150:] == table.truth[150:]) - np.mean(blind.labels[150:] == table.truth[150:])
    assert gain > 0.05


def test_a_model_that_says_nothing_of_how_sure_it_is_votes_as_before():
    table = drawn(items=100)
    silent = dataclasses.replace(table, confidences=np.full(table.votes.shape, np.nan))
    policy = Joint()
    without, as_before = (replay(policy, each, window=10) for each in (silent, table))
    assert without.labels.tolist() == as_before.labels.tolist()


@pytest.mark.parametrize("confidences", [np.full((300, 4), 1.5), np.full((300, 3), 0.5)])
def test_confidences_outside_0_to_1_or_of_another_shape_are_refused(confidences):
    with pytest.raises(InvalidParameterError, match="confidence"):
        dataclasses.replace(drawn(), confidences=confidences)


def test_items_that_are_taken_keep_their_confidences():
    table = with_confidences(drawn())
    taken = table.take(np.array([5, 2]))
    assert taken.confidences.tolist() == table.confidences[[5, 2]].tolist()
    assert (taken.truth.tolist(), taken.votes.tolist()) == (
        table.truth[[5, 2]].tolist(),
        table.votes[[5, 2]].tolist(),
    )


@pytest.mark.parametrize("sure", [None, 0.9], ids=["without confidences", "with confidences"])
def test_a_question_with_one_label_is_decided_with_a_score_of_at_most_1(sure):
    rng = np.random.default_rng(9)
    rng.random((60, 3))
    table = VotesTable(
        ("yes",),
        {"a": 1.0, "b": 2.0, "c": 3.0},
        np.ones((60, 2)),
        np.where(rng.random((60, 3)) < 0.5, -1, 0),
        np.zeros(60, dtype=np.int64),
        confidences=None if sure is None else np.full((60, 3), sure),
    )
    rng.normal(size=(60, 3))
    trace = replay(Joint(), table, human=rng.random(60) < 0.3)
    decided = trace.labels >= 0
    assert decided.sum() > 40
    assert (trace.scores[decided] <= 1.0).all()


def topics(items=400):
    return draw_topic_texts(MODELS, items=items, topics=3, seed=0)


def test_the_student_costs_nothing_and_is_no_model_of_the_trace():
    trace = replay(Majority(), topics(), student=True)
    assert trace.asked.shape == (400, 4)
    assert set(trace.costs) == {13.5}


def test_the_student_changes_nothing_before_it_has_learnt():
    table = topics(LEAST_TEXTS)
    with_student, without = (replay(Majority(), table, student=on) for on in (True, False))
    assert with_student.labels.tolist() == without.labels.tolist()


def test_the_student_votes_once_it_has_learnt():
    table = topics(600)
    votes = np.full_like(table.votes, -1)  # all models fall silent
    votes[:500] = table.votes[:500]
    trace = replay(Joint(), dataclasses.replace(table, votes=votes), student=True, window=50)
    said = trace.labels[500:] >= 0
    assert said.mean() > 0.5
    assert np.mean(trace.labels[500:][said] == table.truth[500:][said]) > 0.8


def test_the_student_does_not_teach_itself():
    """With no other vote there is no label from which it could learn."""
    table = topics()
    state = LookaheadState(table.contexts.shape[1], 1.0)
    arm = _StudentArm(state, table)
    policy = Majority()
    plan = policy.plan(
        {_QUESTION: Observation(state, table.contexts[0], table.labels)}, {**table.prices, STUDENT: 0.0}
    )
    alone = {STUDENT: {_QUESTION: table.labels[0]}}
    assert arm.studied(0, policy, plan, (alone, {})).lesson(None) is None
    both = alone | {"large": {_QUESTION: table.labels[1]}}
    assert arm.studied(0, policy, plan, (both, {})).lesson(None).label == table.labels[1]


def test_labels_of_people_teach_a_student_with_enough_texts_no_further_text(monkeypatch):
    """As on the server, which keeps no further text for them."""
    states = []

    class Watched(LookaheadState):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            states.append(self)

    monkeypatch.setattr("camvo.student._MOST_TEXTS", 20)
    monkeypatch.setattr("camvo.replays.replay.LookaheadState", Watched)
    replay(Joint(), topics(60), student=True, human=np.ones(60, dtype=np.bool_))
    assert len(states[0].texts.texts) == 20


def test_joint_has_the_student_by_default_where_there_are_texts():
    table = topics(600)
    by_default, with_student, without = (
        replay(Joint(), table, window=100, student=on).asked.sum() for on in (None, True, False)
    )
    assert by_default == with_student != without
    blind = dataclasses.replace(table, texts=None)
    assert replay(Joint(), blind, window=100).asked.sum() == without


@pytest.mark.parametrize("policy", [Joint(agreement=0.9), CaMVo(), Majority()])
@pytest.mark.parametrize("wanted", [None, True])
def test_other_policies_have_no_student(policy, wanted):
    assert not has_student(policy, topics(), wanted)


def test_the_student_needs_texts():
    with pytest.raises(InvalidParameterError, match="needs the texts"):
        replay(Joint(), drawn(), student=True)


def test_no_model_may_have_the_students_name():
    table = dataclasses.replace(topics(), prices={"student": 1.0, "a": 1.0, "b": 1.0, "c": 1.0})
    with pytest.raises(InvalidParameterError, match="name of the student"):
        replay(Majority(), table)


# the review queue


def test_a_share_of_the_items_is_labelled_from_the_review_queue():
    table = drawn(items=200)
    trace = replay(Majority(), table, reviewed=0.1, window=20)
    assert (trace.labelled_at > 0).sum() == 20
    assert set(trace.labelled_at[trace.labelled_at > 0].tolist()) <= set(range(20, 201, 20))
    assert (trace.labelled_at[trace.labelled_at > 0] > np.flatnonzero(trace.labelled_at)).all()


def test_the_queue_gives_the_lowest_scores_of_the_items_that_nobody_labelled():
    table = drawn(items=200)
    trace = replay(Majority(), table, reviewed=0.1, window=50)
    for end in (50, 100, 150, 200):
        now = np.flatnonzero(trace.labelled_at == end)
        left = np.flatnonzero((trace.labelled_at[:end] == 0) | (trace.labelled_at[:end] > end))
        assert trace.scores[now].max() <= trace.scores[left].min()


def test_an_item_whose_truth_is_unknown_is_never_labelled():
    table = drawn(items=100)
    half = dataclasses.replace(table, truth=np.where(np.arange(100) % 2 == 0, table.truth, -1))
    trace = replay(Majority(), half, reviewed=1.0)
    assert (trace.labelled_at > 0).tolist() == (half.truth >= 0).tolist()


def test_labels_from_the_queue_teach_as_labels_at_once_do():
    table = drawn(items=100)
    queued = replay(CaMVo(delta=0.9, k_min=1), table, reviewed=1.0)
    at_once = replay(CaMVo(delta=0.9, k_min=1), table, human=np.ones(100, dtype=np.bool_))
    assert queued.labels.tolist() == at_once.labels.tolist()
    assert queued.costs.tolist() == at_once.costs.tolist()
    assert queued.labelled_at.tolist() == at_once.labelled_at.tolist()


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_for_review_that_is_none_is_refused(share):
    with pytest.raises(InvalidParameterError, match="reviewed must be in"):
        replay(Majority(), drawn(items=5), reviewed=share)


def test_confidences_and_the_student_go_with_the_review_queue_and_all_votes_on_what_it_labels():
    table = with_confidences(topics(LEAST_TEXTS + 50))
    trace = replay(Joint(), table, student=True, reviewed=0.1, complete=True, window=50)
    assert (trace.labelled_at > 0).sum() == len(table.truth) // 10
    assert trace.asked[trace.labelled_at > 0].all()


def test_all_models_are_asked_and_paid_about_what_a_human_labels_if_labelled_items_are_completed():
    items, human = drawn(), np.arange(300) % 10 == 0
    trace = replay(Single(model=next(iter(items.prices))), items, human=human, complete=True)
    assert trace.asked.all(axis=1).tolist() == human.tolist()
    assert trace.costs[human] == pytest.approx(items.full_cost)


def test_completing_labelled_items_does_not_change_what_was_decided_about_them():
    items, human = drawn(items=150), np.arange(150) == 149
    plain, completed = (replay(Joint(), items, human=human, complete=on, window=10) for on in (False, True))
    assert completed.labels.tolist() == plain.labels.tolist()


@pytest.mark.parametrize("name", ["votes", "truth"])
@pytest.mark.parametrize("wrong", [3, -2, np.nan, 1.0, "yes"])
def test_what_is_no_position_in_the_labels_is_refused(name, wrong):
    table = drawn(items=10)
    with pytest.raises(InvalidParameterError, match=rf"{name}.* from 0 to 2, or −1"):
        dataclasses.replace(table, **{name: np.full(getattr(table, name).shape, wrong)})
    with pytest.raises(InvalidParameterError, match=name):
        dataclasses.replace(table, **{name: getattr(table, name).tolist()})
