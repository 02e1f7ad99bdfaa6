from __future__ import annotations

import pickle

import numpy as np
import pytest
from same_state import assert_same_state

import camvo
from camvo import InvalidParameterError, Question, State, Task

LABELS = ("neg", "pos")
PRICES = {"small": 0.1, "medium": 1.0, "large": 5.0}
HERE = np.array([0.6, 0.8, 0.0])


def make_question(**changed: object) -> Question:
    return Question(LABELS, **({"prices": PRICES, "dimension": 3, "policy": camvo.Baseline()} | changed))  # type: ignore[arg-type]


def answered(task: Task, vote: str | None = "pos", **votes: str | None) -> Task:
    while models := task.ask():
        task.add({model: votes.get(model, vote) for model in models})
    return task


def taught(rounds: int = 5) -> Question:
    """A question that has learned from some rounds in which the medium model errs."""
    question = make_question(policy=camvo.Joint())
    for number in range(rounds):
        answered(question.task([1.0, number / 10.0, 0.0]), medium="neg").learn()
    return question


class TestMakingAQuestion:
    def test_the_policy_is_joint_unless_another_is_given(self):
        assert Question(LABELS, prices=PRICES, dimension=3).policy == camvo.Joint()

    def test_lambda_l_is_that_of_the_new_state(self):
        assert make_question(lambda_l=2.0).state.lambda_l == 2.0

    def test_lambda_l_is_one_by_default(self):
        assert make_question().state.lambda_l == 1.0

    def test_a_given_state_is_used_in_place(self):
        state = State(3)
        assert make_question(state=state).state is state

    def test_the_dimension_is_known_from_a_given_state(self):
        assert make_question(state=State(7), dimension=None).state.dimension == 7

    def test_a_change_of_the_callers_prices_changes_nothing(self):
        prices = dict(PRICES)
        question = make_question(prices=prices)
        prices["new"] = 1.0
        assert question.prices == PRICES

    @pytest.mark.parametrize(
        "wrong",
        [
            {"prices": {}},
            {"prices": ("small", "large")},
            {"prices": {"small": -1.0}},
            {"prices": {"small": float("nan")}},
            {"prices": {"small": "cheap"}},
            {"dimension": None},
            {"dimension": 0},
            {"lambda_l": 0.0},
            {"state": State(2)},
            {"state": State(3), "lambda_l": 0.5},
        ],
        ids=" and ".join,
    )
    def test_a_wrong_argument_is_refused(self, wrong):
        with pytest.raises(InvalidParameterError):
            make_question(**wrong)

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ({"aggregation": camvo.SpanVote}, r"aggregation.*SpanVote\(…\)"),
            ({"policy": camvo.CaMVo}, r"policy.*CaMVo\(…\)"),
            ({"policy": "camvo"}, "policy.*'camvo'"),
            ({"aggregation": "spans"}, "aggregation.*'spans'"),
        ],
    )
    def test_a_class_or_a_name_in_place_of_an_object_is_refused(self, wrong, said):
        with pytest.raises(InvalidParameterError, match=said):
            make_question(**wrong)

    @pytest.mark.parametrize("labels", [("3", "2", "1"), ("1", "2", "3", "4"), ("a", "b", "c")])
    def test_labels_that_are_not_the_scale_of_their_votes_are_refused(self, labels):
        scale = camvo.OrderedVote(("1", "2", "3"))
        with pytest.raises(InvalidParameterError, match="scale"):
            Question(labels, prices=PRICES, dimension=3, aggregation=scale)
        assert Question(["1", "2", "3"], prices=PRICES, dimension=3, aggregation=scale).labels == scale.scale

    @pytest.mark.parametrize("labels", [(), ("pos", "pos"), "pos", (0, 1)], ids=str)
    def test_wrong_labels_are_refused(self, labels):
        with pytest.raises(InvalidParameterError):
            Question(labels, prices=PRICES, dimension=3)

    def test_a_number_needs_no_labels(self):
        question = Question((), prices=PRICES, dimension=3, aggregation=camvo.NumericVote(1, 5))
        task = answered(question.task(HERE), "4", small="2")
        assert task.decide().label == "4"


class TestPlanningATask:
    def test_the_embedding_may_be_a_list(self):
        assert make_question().task([0.6, 0.8, 0.0]).ask()

    def test_the_embedding_is_copied(self):
        embedding = HERE.copy()
        task = make_question().task(embedding)
        embedding[:] = 7.0
        assert task.plan.estimates["question"].context.tolist() == HERE.tolist()

    @pytest.mark.parametrize(
        "embedding", [[1.0, 2.0], [[1.0, 2.0, 3.0]], [1.0, np.nan, 0.0], ["a", "b", "c"], None], ids=str
    )
    def test_a_wrong_embedding_is_refused(self, embedding):
        with pytest.raises(InvalidParameterError):
            make_question().task(embedding)

    def test_the_plan_does_not_change_when_another_task_teaches(self):
        question = taught()
        task = question.task(HERE)
        weights = task.plan.weights["question"].tolist()
        answered(question.task(HERE), "neg").learn(human="neg")
        assert task.plan.weights["question"].tolist() == weights


class TestAsking:
    def test_asking_again_before_the_votes_came_returns_the_same_models(self):
        task = make_question().task(HERE)
        assert task.ask() == task.ask() == ("large", "medium", "small")

    def test_the_models_still_missing_are_asked_for(self):
        task = make_question().task(HERE)
        task.add({"small": "pos"})
        assert task.ask() == ("large", "medium")

    def test_the_next_stage_comes_when_the_votes_of_the_last_are_complete(self):
        task = make_question(policy=camvo.Cascade(threshold=0.99)).task(HERE)
        task.add({"small": "pos"})
        assert task.ask() == ("medium",)

    def test_no_model_is_left_to_ask_when_the_policy_has_enough(self):
        assert answered(make_question().task(HERE)).ask() == ()


class TestAddingVotes:
    def test_the_votes_are_shown_with_none_for_a_model_that_failed(self):
        task = make_question().task(HERE)
        task.add({"small": "pos", "large": None})
        assert task.votes == {"small": "pos", "large": None}

    def test_an_unknown_model_is_refused_with_the_known_ones(self):
        with pytest.raises(InvalidParameterError, match=r"huge.*large, medium, small"):
            make_question().task(HERE).add({"huge": "pos"})

    def test_a_model_that_was_not_asked_is_refused(self):
        task = make_question(policy=camvo.Single(model="small")).task(HERE)
        with pytest.raises(InvalidParameterError, match="not asked"):
            task.add({"large": "pos"})

    def test_a_second_vote_of_a_model_is_refused(self):
        task = make_question().task(HERE)
        task.add({"small": "pos"})
        with pytest.raises(InvalidParameterError, match="already"):
            task.add({"small": "neg"})

    @pytest.mark.parametrize("vote", ["neutral", "", 1])
    def test_a_vote_outside_the_label_set_is_refused(self, vote):
        with pytest.raises(InvalidParameterError, match=r"small.*pass None"):
            make_question().task(HERE).add({"small": vote})

    @pytest.mark.parametrize(
        ("labels", "aggregation", "vote"),
        [
            ((), camvo.NumericVote(0.0, 10.0), "11"),
            ((), camvo.OpenNumericVote(), "eleven"),
            (LABELS, camvo.RankingVote(), "pos"),
            (LABELS, camvo.SubsetVote(2), "pos"),
            (LABELS, camvo.SpanVote(), "pos"),
            ((), camvo.OpenVote("words"), " "),
        ],
        ids=lambda argument: type(argument).__name__,
    )
    def test_a_refused_vote_names_its_model(self, labels, aggregation, vote):
        task = Question(labels, prices=PRICES, dimension=3, aggregation=aggregation).task(HERE)
        with pytest.raises(InvalidParameterError, match=r"the vote of 'small': .*pass None"):
            task.add({"small": vote})

    def test_spans_may_be_written_by_json_dumps(self):
        question = Question(LABELS, prices=PRICES, dimension=3, aggregation=camvo.SpanVote())
        loose, compact = '[[7, 9, "pos"], [0, 5, "neg"]]', '[[0,5,"neg"],[7,9,"pos"]]'
        task = answered(question.task(HERE), loose, small=compact)
        assert task.decide().label == compact
        task.learn(human=loose)
        assert question.state.rounds == 1

    def test_nothing_is_added_when_one_of_the_votes_is_refused(self):
        task = make_question().task(HERE)
        with pytest.raises(InvalidParameterError):
            task.add({"small": "pos", "large": "neutral"})
        assert task.votes == {}


class TestDeciding:
    def test_the_decision_unpacks_into_label_and_score(self):
        label, score = answered(make_question().task(HERE), "pos", small="neg").decide()
        assert label == "pos"
        assert 0.5 < score < 1.0

    def test_the_whole_decision_has_the_probability_of_every_label(self):
        task = answered(make_question().task(HERE))
        assert task.decision.posterior.keys() == {"neg", "pos"}
        assert (task.decision.label, task.decision.score) == task.decide()

    def test_a_failed_model_is_not_counted(self):
        task = answered(make_question().task(HERE), None, small="neg")
        assert task.decide().label == "neg"

    def test_missing_votes_are_named(self):
        task = make_question().task(HERE)
        task.add({"small": "pos"})
        with pytest.raises(InvalidParameterError, match=r"large, medium.*add\(\)"):
            task.decide()

    def test_no_vote_at_all_is_refused_with_what_to_do(self):
        task = answered(make_question().task(HERE), None)
        with pytest.raises(InvalidParameterError, match=r"every model failed.*ask again"):
            task.decide()


class TestLearning:
    def test_the_label_decided_is_the_reward(self):
        question = make_question()
        answered(question.task(HERE), "pos", small="neg").learn()
        assert {arm: question.state[arm].reward_sum for arm in question.state} == {
            "small": 0,
            "medium": 1,
            "large": 1,
        }

    def test_learning_twice_is_learning_once(self):
        question, other = make_question(), make_question()
        task = answered(question.task(HERE))
        task.learn()
        task.learn()
        answered(other.task(HERE)).learn()
        assert_same_state(question.state, other.state)

    @pytest.mark.parametrize(
        "policy", [camvo.Baseline(), camvo.Joint(), camvo.Joint(agreement=0.9)], ids=repr
    )
    def test_a_persons_label_teaches_the_same_at_once_or_later(self, policy):
        question, other = make_question(policy=policy), make_question(policy=policy)
        answered(question.task(HERE)).learn(human="neg")
        late = answered(other.task(HERE))
        late.learn()
        late.learn(human="neg")
        assert_same_state(question.state, other.state)

    def test_the_last_label_of_a_person_counts(self):
        question, other = make_question(), make_question()
        task = answered(question.task(HERE))
        for label in ("neg", "pos", "neg"):
            task.learn(human=label)
        answered(other.task(HERE)).learn(human="neg")
        assert_same_state(question.state, other.state)

    def test_learning_from_the_votes_leaves_a_persons_label_alone(self):
        question = make_question()
        task = answered(question.task(HERE))
        task.learn(human="neg")
        task.learn()
        assert question.state["small"].reward_sum == 0.0

    @pytest.mark.parametrize(
        "policy", [camvo.Baseline(), camvo.Joint(), camvo.Joint(agreement=0.9)], ids=repr
    )
    @pytest.mark.parametrize("human", [None, "neg"])
    def test_withdrawing_takes_back_everything(self, policy, human):
        question = make_question(policy=policy)
        answered(question.task(HERE)).learn(human="pos")
        before = State.restore(question.state.snapshot())
        task = answered(question.task([0.0, 0.6, 0.8]), "pos", large="neg")
        task.learn()
        task.learn(human=human)
        task.withdraw()
        assert_same_state(question.state, before)

    def test_withdrawing_twice_is_withdrawing_once(self):
        question = make_question()
        task = answered(question.task(HERE))
        task.learn()
        task.withdraw()
        task.withdraw()
        assert question.state.rounds == 0

    def test_withdrawing_before_learning_changes_nothing(self):
        question = make_question()
        answered(question.task(HERE)).withdraw()
        assert question.state.rounds == 0

    def test_a_persons_label_alone_is_taken_back_by_learning_again(self):
        question, other = make_question(), make_question()
        task = answered(question.task(HERE))
        task.learn(human="neg")
        task.withdraw()
        task.learn()
        answered(other.task(HERE)).learn()
        assert_same_state(question.state, other.state)

    @pytest.mark.parametrize("label", ["neutral", 1])
    def test_a_persons_label_outside_the_label_set_is_refused(self, label):
        question = make_question()
        with pytest.raises(InvalidParameterError, match="human"):
            answered(question.task(HERE)).learn(human=label)
        assert question.state.rounds == 0

    @pytest.mark.parametrize("human", [None, "pos"])
    def test_nothing_is_learnt_while_votes_are_missing(self, human):
        with pytest.raises(InvalidParameterError, match="missing"):
            make_question().task(HERE).learn(human=human)

    @pytest.mark.parametrize("human", [None, "pos"])
    def test_nothing_is_learnt_without_a_vote(self, human):
        with pytest.raises(InvalidParameterError, match="every model failed"):
            answered(make_question().task(HERE), None).learn(human=human)

    def test_several_tasks_may_be_open_at_once(self):
        question = make_question()
        tasks = [question.task(HERE) for _ in range(3)]
        for task in tasks:
            answered(task).learn()
        assert question.state.rounds == 3


class TestSaving:
    def test_a_question_made_from_a_snapshot_plans_as_before(self):
        question = taught()
        restored = make_question(policy=question.policy, state=State.restore(question.state.snapshot()))
        weights = [each.task(HERE).plan.weights["question"].tolist() for each in (question, restored)]
        assert weights[0] == weights[1]

    def test_an_open_task_and_its_question_survive_pickling_together(self):
        question = taught()
        task = answered(question.task(HERE))
        task.learn()
        again, its_task = pickle.loads(pickle.dumps((question, task)))  # noqa: S301 - our own bytes
        for each in (task, its_task):
            each.learn(human="neg")
        assert_same_state(question.state, again.state)


def test_cheap_models_alone_are_asked_once_they_proved_right():
    question = taught(rounds=60)
    tasks = [answered(question.task([1.0, number / 7.0, 0.0])) for number in range(20)]
    # Which of them explore is a draw by the task and the number of rounds, and so is the same in each run.
    asked = [len(task.votes) for task in tasks if task.plan.stages.exploration == "nobody"]
    assert asked
    assert max(asked) < len(PRICES)


class TestConfidences:
    def test_they_are_learnt_with_the_votes(self) -> None:
        question = make_question(policy=camvo.Joint())
        task = question.task(HERE)
        asked = task.ask()
        task.add(dict.fromkeys(asked, "pos"), confidences=dict.fromkeys(asked, 0.75))
        task.learn(human="pos")
        assert {vote.arm for vote in question.state.confidences.by_people} == set(asked)

    @pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan"), "high"])
    def test_one_outside_0_to_1_is_refused(self, confidence: float) -> None:
        task = make_question().task(HERE)
        with pytest.raises(InvalidParameterError, match="confidence"):
            task.add(dict.fromkeys(task.ask(), "pos"), confidences={task.ask()[0]: confidence})
        assert task.votes == {}

    def test_one_without_a_vote_is_refused(self) -> None:
        task = make_question().task(HERE)
        with pytest.raises(InvalidParameterError, match="without a vote"):
            task.add(dict.fromkeys(task.ask()), confidences={task.ask()[0]: 0.5})
