"""Asking while votes are worth their price: one question's plan, and several questions in one task."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from made_up_votes import draw_votes, evidence_of

from camvo.joint.agreement import AgreementStops, kept_labels
from camvo.joint.grades import Grades, SureVotes, _Scale
from camvo.joint.joint_fit import JointFit
from camvo.joint.votes_fit import VotesFit
from camvo.stages.stages import QuestionStages, Stages, next_arms
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import SILENT, UNASKED
from camvo.votes.aggregation import Decision

ARMS = ("a", "b", "c")
PRICES = {"a": 0.05, "b": 0.01, "c": 0.002}
SCALE = _Scale((40,), (-2.0, 2.0), (0.9, 0.1))
"""Two grades, below and above a confidence of ½."""
LABELS = {2: ("neg", "pos"), 3: ("neg", "neutral", "pos")}


def question(labels=3, prices=PRICES):
    """Arm "a" is the best and the dearest."""
    votes, _ = draw_votes(np.array([0.95, 0.8, 0.7]), labels=labels, items=400)
    fit = JointFit.fit(evidence_of(votes, ARMS, LABELS[labels]), LatestRounds(), LABELS[labels], prices)
    return QuestionStages(LABELS[labels], fit, tuple(prices[arm] for arm in fit.shortlist))


NUMBER = QuestionStages(())
"""A question whose votes are not labels."""


def stages(questions, *, exploration="nobody", prices=PRICES):
    first = tuple(prices) if exploration == "everyone" else tuple(next_arms(questions, prices, {}))
    order = (*first, *(arm for arm in prices if arm not in first))
    return Stages(
        order=order,
        exploration=exploration,
        propensity=0.2,
        questions=questions,
        count=len(first),
        prices=prices,
    )


def asked(plan, answers):
    """The arms of each stage, where every arm answers with ``answers[arm]`` (question → label)."""
    votes, waits = {}, []
    while arms := plan.after(votes):
        assert not set(arms) & set(votes)
        waits.append(arms)
        votes |= {arm: answers.get(arm, {}) for arm in arms}
    return waits, votes


def everyone_says(label, *questions):
    return {arm: dict.fromkeys(questions or ("q",), label) for arm in ARMS}


@pytest.mark.parametrize("labels", [2, 3])
def test_one_question_is_asked_about_as_its_plan_says(labels):
    one = question(labels)
    waits, votes = asked(stages({"q": one}), everyone_says("pos"))
    cast = {}
    for wait in waits:
        node = one.fit.node(cast)
        assert list(wait) == [one.fit.shortlist[arm] for arm in one.plan.together(node)]
        cast |= dict.fromkeys(wait, "pos")
    assert one.plan.next_arm[one.fit.node(cast)] == -1
    assert cast.keys() == votes.keys()


def test_dear_arms_are_not_asked_if_cheap_ones_agree():
    dear = {"a": 0.3, "b": 0.01, "c": 0.002}
    one = question(prices=dear)
    _, votes = asked(stages({"q": one}, prices=dear), everyone_says("pos"))
    assert votes.keys() <= {"b", "c"}
    assert votes


def test_exploration_asks_everyone_at_once():
    waits, _ = asked(stages({"q": question()}, exploration="everyone"), everyone_says("pos"))
    assert [sorted(wait) for wait in waits] == [list(ARMS)]


def test_a_silent_arm_is_replaced_and_never_asked_again():
    waits, _ = asked(stages({"q": question()}), {})
    assert sorted(arm for wait in waits for arm in wait) == list(ARMS)


@pytest.mark.parametrize("nothing", [{}, {"q": "angry"}], ids=["silent", "outside the label set"])
@pytest.mark.parametrize("left", [None, 3], ids=["no hurry", "three stages left"])
def test_a_vote_that_needs_that_of_a_silent_arm_is_not_bought(left, nothing):
    """Of three equals, the second can only contradict the first, unless the third decides."""
    votes, _ = draw_votes(np.array([0.8, 0.8, 0.8]), labels=2, items=2000)
    prices = dict.fromkeys(ARMS, 0.03)
    fit = JointFit.fit(evidence_of(votes, ARMS, LABELS[2]), LatestRounds(), LABELS[2], prices)
    equals = {"q": QuestionStages(LABELS[2], fit, (0.03,) * 3)}
    first = {"a": {"q": "pos"}}
    assert next_arms(equals, prices, first, left=left)
    assert not next_arms(equals, prices, {**first, "c": nothing}, left=left)


@pytest.mark.parametrize("left", [None, 3], ids=["no hurry", "three stages left"])
def test_a_label_is_certain_once_the_arms_that_could_change_it_gave_no_vote(left):
    """Of four equals, two that say the same are outvoted by none of the others alone."""
    arms, shares = ("a", "b", "c", "d"), dict.fromkeys("abcd", 0.25)
    cast, _ = draw_votes(np.full(4, 0.8), labels=2, items=2000)
    evidence = evidence_of(cast, arms, LABELS[2])
    fit = JointFit.fit(evidence, LatestRounds(), LABELS[2], shares)
    stops = AgreementStops.fit(fit, VotesFit.of(evidence, arms, LABELS[2]), shares, 1.0)
    certain = {"q": QuestionStages(LABELS[2], fit, (0.25,) * 4, stops=stops)}
    first = {"a": {"q": "pos"}, "b": {"q": "pos"}}
    assert next_arms(certain, shares, first, left=left)
    assert not next_arms(certain, shares, {**first, "c": {}}, left=left)


def test_a_vote_outside_the_label_set_is_no_vote():
    one = question()
    assert next_arms({"q": one}, PRICES, {"c": {"q": "angry"}}) == next_arms({"q": one}, PRICES, {"c": {}})


def test_a_question_without_labels_asks_everyone():
    waits, _ = asked(stages({"stars": NUMBER}), everyone_says("3", "stars"))
    assert [sorted(wait) for wait in waits] == [list(ARMS)]


def test_beside_a_question_without_labels_everyone_is_asked():
    _, votes = asked(stages({"q": question(), "stars": NUMBER}), everyone_says("pos", "q", "stars"))
    assert votes.keys() == set(ARMS)


def test_the_gains_of_several_questions_add_up():
    """One arm's price buys its vote on all questions, so it may be worth it for two and not for one."""
    one = question()
    votes = {"c": {"q": "pos", "r": "pos"}}
    gains = one.gains({"c": "pos"}, PRICES)
    best = max(gains.values())
    assert best > 0.0
    prices = dict.fromkeys(PRICES, 1.5 * best)
    twice = {"q": one, "r": question()}
    added = {arm: sum(max(q.gains({"c": "pos"}, prices)[arm], 0.0) for q in twice.values()) for arm in "ab"}
    wanted = {arm for arm in "ab" if added[arm] > prices[arm]}
    found = set(next_arms(twice, prices, votes))
    assert bool(found) == bool(wanted)
    assert found <= wanted


def test_asking_goes_on_until_every_question_has_a_vote():
    dear = dict.fromkeys(ARMS, 50.0)
    one = question(prices=dear)
    plan = stages({"q": one, "r": one}, prices=dear)
    _, votes = asked(plan, {"a": {"q": "pos"}, "b": {"q": "pos"}, "c": {"q": "pos", "r": "neg"}})
    assert any("r" in answers for answers in votes.values())


def test_an_arm_that_costs_nothing_is_asked_only_if_its_vote_can_matter():
    free = {"a": 0.05, "b": 0.01, "c": 0.0}
    one = question(prices=free)
    node = one.fit.node({"a": "pos", "b": "pos"})
    asking, stopping = one.plan.asking[node], one.plan.stopping[node]
    expected = ["c"] if asking[one.fit.shortlist.index("c")] > stopping + 1e-9 else []
    assert next_arms({"q": one}, free, {arm: {"q": "pos"} for arm in "ab"}) == expected


@pytest.mark.parametrize("labels", [2, 3])
def test_the_most_probable_label_is_decided(labels):
    one = question(labels)
    votes = {"a": "pos", "b": "neg", "c": "neg"}
    uniform = dict.fromkeys(LABELS[labels], 1.0 / labels)
    decided = one.decision(Decision("neg", uniform["neg"], uniform), votes, LABELS[labels])
    assert decided.posterior == one.fit.probabilities(votes)
    assert decided.score == decided.posterior[decided.label] == max(decided.posterior.values())
    assert decided.trust == 0.5


def test_a_question_without_labels_is_decided_by_its_own_vote():
    decision = Decision("3", 0.7, {"3": 0.7})
    assert NUMBER.decision(decision, {"a": "3"}, ()) is decision


def test_few_labels_are_named_in_the_pattern():
    votes = {"a": "pos", "b": None}
    two = stages({"q": question(2)}).exploration_round("q", votes)
    three = stages({"q": question(3)}).exploration_round("q", votes)
    assert (two.pattern.groups, two.pattern.labels) == ((1, SILENT, UNASKED), ("neg", "pos"))
    assert (three.pattern.groups, three.pattern.labels) == (
        (2, SILENT, UNASKED),
        ("neg", "neutral", "pos"),
    )
    assert not two.pattern.everyone


def test_a_round_that_asked_everyone_shows_whether_stopping_early_was_right():
    plan = stages({"q": question()}, exploration="everyone")
    alike = plan.exploration_round("q", dict.fromkeys(ARMS, "pos"))
    assert (alike.pattern.everyone, alike.right) == (True, True)
    assert plan.exploration_round("q", dict.fromkeys(ARMS)).right is None
    assert stages({"q": question()}).exploration_round("q", {"c": "pos"}).right is None


def test_stopping_early_is_wrong_where_the_arms_asked_later_turn_the_label():
    dear = {"a": 0.3, "b": 0.3, "c": 0.002}
    one = question(prices=dear)
    _, early = asked(stages({"q": one}, prices=dear), everyone_says("pos"))
    assert early.keys() == {"c"}
    plan = stages({"q": one}, exploration="everyone", prices=dear)
    assert plan.exploration_round("q", {"a": "neg", "b": "neg", "c": "pos"}).right is False


def test_an_early_label_comes_with_a_promise_of_how_rarely_later_votes_turn_it():
    dear = {"a": 0.3, "b": 0.3, "c": 0.002}
    one = question(prices=dear)
    plan = stages({"q": one}, exploration="everyone", prices=dear)
    promised = plan.exploration_round("q", dict.fromkeys(ARMS, "pos")).promised
    estimate = 1.0 - kept_labels(one.fit.beliefs)[one.fit.node({"c": "pos"})]
    assert estimate < promised < 2.0 * estimate


def test_nothing_is_promised_where_confidences_move_beliefs():
    one = question()
    sure = replace(one, fit=replace(one.fit, sure=SureVotes(Grades({"b": {"": SCALE}}))))
    assert one.promised({"c": "pos"}) is not None
    assert sure.promised({"c": "pos"}) is None


def test_nothing_is_promised_for_arms_that_the_plan_does_not_know():
    one = question()
    larger = replace(one, fit=replace(one.fit, arms=(*ARMS, "d")))
    assert larger.promised({"c": "pos"}) is None


def test_a_plan_is_described_in_plain_json():
    plan = stages({"q": question(), "stars": NUMBER})
    described = plan.describe("q")
    assert json.loads(json.dumps(described, allow_nan=False)) == described
    assert described["stages"]["kept"] is True
    assert described["stages"]["first"] == len(plan.first)
    assert plan.describe("stars")["stages"]["kept"] is False
    assert "joint" not in plan.describe("stars")


def sure_question(scale=SCALE):
    """The arms say how sure they are, on one scale."""
    one = question()
    grades = Grades(dict.fromkeys(ARMS, scale))
    return replace(one, fit=replace(one.fit, sure=SureVotes(grades, 1.0)))


def test_a_sure_vote_ends_a_round_that_an_unsure_one_extends():
    plan = stages({"q": sure_question()})
    first = {arm: {"q": "pos"} for arm in plan.first}
    sure, unsure = ({arm: {"q": value} for arm in first} for value in (0.99, 0.1))
    assert plan.after(first, sure) == ()
    assert plan.after(first, unsure) != ()


def test_a_sure_vote_outweighs_an_unsure_one_for_another_label():
    one, votes = sure_question(), {"b": "neg", "c": "pos"}
    even = Decision("neg", 0.4, {"neg": 0.4, "neutral": 0.2, "pos": 0.4})
    assert one.decision(even, votes, LABELS[3], {"b": 0.99, "c": 0.1}).label == "neg"
    assert one.decision(even, votes, LABELS[3], {"b": 0.1, "c": 0.99}).label == "pos"


def test_a_confidence_is_compared_with_what_the_other_arms_make_probable():
    compared = sure_question().compared({"a": "pos", "b": "neg", "c": "neg"}, {"b": 0.9})
    assert [(vote.arm, vote.label, vote.right) for vote in compared] == [("b", "neg", False)]


def test_a_confidence_is_not_compared_without_other_votes():
    assert sure_question().compared({"a": "pos", "b": None}, {"a": 0.9, "b": 0.9}) == ()
