"""One task through the whole backend: which models are asked, what is decided, recorded and paid."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from label_studio_requests import (
    SENTIMENT,
    SENTIMENT_AND_TOPIC,
    Annotation,
    Project,
    annotated,
    setup,
    task,
)
from sqlalchemy import select, update
from whole_backend import CALL, Backend, prompt_of, says, votes

from backend.annotation.job import is_audit
from backend.ledger import money
from backend.ledger.database import tables
from backend.testing import Reply
from camvo.numerics.small import with_category

TWO = Project(label_config=SENTIMENT_AND_TOPIC)
ALL_GLAD = votes(red="Glad", green="Glad", blue="Glad", grey="Glad")
ONE_ROUND_IS_ENOUGH = {"name": "camvo", "n0": 1, "k_min": 3, "delta": 0.0}
"""After one round the three cheapest models are asked; ties go to the first name."""

FOUR = ("blue", "green", "grey", "red")


def label(prediction: Any) -> str:
    return str(prediction["result"][0]["value"]["choices"][0])


# -- voting


@pytest.mark.parametrize(
    ("red", "green", "blue", "voted"),
    [("Glad", "Glad", "Sad", "Glad"), ("Sad", "Calm", "Calm", "Calm"), ("Sad", "Sad", "Sad", "Sad")],
)
def test_while_nothing_is_learnt_the_majority_wins(
    tmp_path: Path, red: str, green: str, blue: str, voted: str
) -> None:
    with Backend(tmp_path, votes(red=red, green=green, blue=blue)) as backend:
        [prediction] = backend.predict(task(1))
    assert label(prediction) == voted


def test_a_round_records_votes_label_score_and_context(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad"), packaged=True) as backend:
        [prediction] = backend.predict(task(1, "A walk in the sun."))
        [round_] = backend.rounds(1)
        expected = backend.runtime.embedder.embed(["A walk in the sun."])[0]
    assert round_.votes == {"red": "Glad", "green": "Glad", "blue": "Sad"}
    assert (round_.label, round_.taught, round_.taught_by) == ("Glad", "Glad", "vote")
    assert round_.score == prediction["score"]
    assert np.array_equal(round_.context, expected.astype(np.float16))


def test_a_round_records_the_category_in_its_context(tmp_path: Path) -> None:
    by_number = Project(label_config=SENTIMENT.replace("<Choices ", '<Choices camvo_context="ref" ', 1))
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        backend.predict(task(1, "A walk in the sun.", by_number), project=by_number)
        [round_] = backend.rounds(1, by_number)
        embedding = backend.runtime.embedder.embed(["A walk in the sun."])[0]
    np.testing.assert_allclose(round_.context, with_category(embedding, "1"), atol=1e-3)


def test_a_vote_rewards_those_who_agree_with_it(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        backend.predict(task(1))
        assert backend.learnt() == {"red": (1, 1.0), "green": (1, 1.0), "blue": (1, 0.0)}


def test_one_query_answers_all_questions_of_a_config(tmp_path: Path) -> None:
    with Backend(tmp_path, lambda body: says(mood="Sad", topic="Travel")) as backend:
        [prediction] = backend.predict(task(1), project=TWO)
        assert backend.server.count() == 3
    labels = {region["from_name"]: region["value"]["choices"] for region in prediction["result"]}
    assert labels == {"mood": ["Sad"], "topic": ["Travel"]}


def test_each_question_has_a_round_and_a_state_of_its_own(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return says(mood="Glad", topic="Food" if body["model"] == "red" else "Travel")

    with Backend(tmp_path, script) as backend:
        backend.predict(task(1), project=TWO)
        assert {round_.key.control: round_.label for round_ in backend.rounds(1)} == {
            "mood": "Glad",
            "topic": "Travel",
        }
        assert backend.learnt("mood") == {"red": (1, 1.0), "green": (1, 1.0), "blue": (1, 1.0)}
        assert backend.learnt("topic") == {"red": (1, 0.0), "green": (1, 1.0), "blue": (1, 1.0)}


def test_the_score_of_a_prediction_is_the_product_of_its_regions_scores(tmp_path: Path) -> None:
    with Backend(tmp_path, lambda body: says(mood="Sad", topic="Travel")) as backend:
        [prediction] = backend.predict(task(1), project=TWO)
    first, second = (region["score"] for region in prediction["result"])
    assert prediction["score"] == pytest.approx(first * second, abs=1e-12)


def test_a_question_without_votes_is_left_out_of_the_prediction(tmp_path: Path) -> None:
    with Backend(tmp_path, lambda body: says(mood="Sad", topic="Gardening")) as backend:
        [prediction] = backend.predict(task(1), project=TWO)
        assert [round_.key.control for round_ in backend.rounds(1)] == ["mood"]
    assert [region["from_name"] for region in prediction["result"]] == ["mood"]


def test_a_question_whose_text_is_missing_does_not_cost_the_others_theirs(tmp_path: Path) -> None:
    config = SENTIMENT.replace(
        "</View>",
        '<Text name="title" value="$title"/><Choices name="topic" toName="title">'
        '<Choice value="Food"/><Choice value="Travel"/></Choices></View>',
    )
    with Backend(tmp_path, ALL_GLAD) as backend:
        [prediction] = backend.predict(task(1), project=Project(label_config=config))
    assert [region["from_name"] for region in prediction["result"]] == ["mood"]


def test_a_question_added_later_does_not_reset_the_state_of_the_old_one(tmp_path: Path) -> None:
    with Backend(tmp_path, lambda body: says(mood="Sad", topic="Travel")) as backend:
        backend.predict(task(1))
        backend.predict(task(2), project=TWO)
        assert {
            epoch for event in backend.events() if event.control == "mood" for epoch in [event.epoch]
        } == {backend.rounds(1)[0].key.epoch}


# -- models that fail


@pytest.mark.parametrize("nonsense", ["Ecstatic", "", "Glad or Sad", "{}", '{"mood": 5}', "\x00\ud800"])
def test_an_answer_outside_the_label_set_gives_no_vote_and_no_reward(tmp_path: Path, nonsense: str) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return Reply.says(nonsense) if body["model"] == "blue" else says(mood="Glad")

    with Backend(tmp_path, script) as backend:
        [prediction] = backend.predict(task(1))
        assert label(prediction) == "Glad"
        assert backend.rounds(1)[0].votes["blue"] is None
        assert backend.learnt() == {"red": (1, 1.0), "green": (1, 1.0)}


@pytest.mark.parametrize("broken", [Reply.says("Ecstatic"), Reply.fails(400), Reply.no_choices()])
def test_a_model_without_a_vote_is_replaced(tmp_path: Path, broken: Reply) -> None:
    def script(body: dict[str, Any]) -> Reply:
        late = "second" in prompt_of(body)
        return broken if late and body["model"] == "blue" else says(mood="Glad")

    with Backend(tmp_path, script, FOUR, policy=ONE_ROUND_IS_ENOUGH) as backend:
        backend.predict(task(1, "The first."))
        start = backend.server.count()
        backend.predict(task(2, "The second."))
        asked = [request.model for request in backend.server.requests[start:]]
        assert (set(asked[:3]), asked[3:]) == ({"blue", "green", "grey"}, ["red"])
        assert backend.rounds(2)[0].votes == {"blue": None, "green": "Glad", "grey": "Glad", "red": "Glad"}


def test_without_a_failure_only_the_subset_is_asked(tmp_path: Path) -> None:
    with Backend(tmp_path, ALL_GLAD, FOUR, policy=ONE_ROUND_IS_ENOUGH) as backend:
        backend.predict(task(1, "The first."))
        backend.predict(task(2, "The second."))
        assert set(backend.rounds(2)[0].votes) == {"blue", "green", "grey"}


def test_when_all_models_fail_the_task_gets_nothing_and_the_reason_is_counted(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red=None, green=None, blue=None)) as backend:
        before = backend.metric("camvo_tasks_total", outcome="model_rejected")
        assert backend.predict(task(1)) == [[]]
        assert backend.metric("camvo_tasks_total", outcome="model_rejected") == before + 1
        assert (backend.rounds(1), backend.events()) == ([], [])


def test_after_all_models_failed_the_task_is_asked_again(tmp_path: Path) -> None:
    broken = [True]

    def script(body: dict[str, Any]) -> Reply:
        return Reply.fails(503) if broken[0] else says(mood="Glad")

    with Backend(tmp_path, script) as backend:
        assert backend.predict(task(1)) == [[]]
        broken[0] = False
        assert backend.predict(task(1))[0]


def test_resting_models_leave_fewer_than_k_min_and_the_rest_decide(tmp_path: Path) -> None:
    """After five failures in a row blue rests; with k_min 3 and only 2 models left, both are asked."""
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue=None)) as backend:
        for number in range(5):
            backend.predict(task(number, f"Entry {number}."))
        assert backend.runtime.pool["blue"].resting
        before = backend.server.count()
        assert label(backend.predict(task(9, "The last one."))[0]) == "Glad"
        assert backend.server.count() - before == 2


def test_one_answer_without_a_vote_that_five_tasks_share_is_no_row_of_them(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="?")) as backend:
        backend.predict(*(task(number, "The same entry.") for number in range(1, 6)))
        assert not backend.runtime.pool["blue"].resting
        backend.predict(*(task(number, f"Entry {number}.") for number in range(6, 11)))
        assert backend.runtime.pool["blue"].resting


@pytest.mark.parametrize("words", ["", "?"])
def test_a_stored_vote_does_not_end_a_row_of_answers_without_one(tmp_path: Path, words: str) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Glad")) as backend:
        backend.predict(task(1, "The same entry."))
        backend.server.script = votes(red="Glad", green="Glad", blue=words)
        for number in range(2, 7):
            backend.predict(task(number, f"Entry {number}."))
            backend.predict(task(100 + number, "The same entry."))
        assert backend.runtime.pool["blue"].resting


# -- lone votes


def test_a_lone_vote_teaches_nothing_but_is_counted_as_a_round(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green=None, blue=None)) as backend:
        assert backend.predict(task(1))[0]
        assert (backend.learnt(), backend.state().rounds) == ({}, 1)


def test_a_human_teaches_a_lone_vote(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green=None, blue=None)) as backend:
        backend.predict(task(1))
        backend.hook(annotated(Annotation(number=1, task=1, mood="Glad")))
        assert backend.learnt() == {"red": (1, 1.0)}


# -- audit


def audited(share: float, numbers: range) -> set[int]:
    return {number for number in numbers if is_audit(Project().key, number, share)}


def test_audited_tasks_are_recorded_and_answered_with_nothing(tmp_path: Path) -> None:
    blind = audited(0.5, range(12))
    assert 0 < len(blind) < 12
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad"), audit=0.5) as backend:
        results = backend.predict(*(task(number) for number in range(12)))
        assert {number for number, result in enumerate(results) if result == []} == blind
        assert all(backend.rounds(number)[0].audit == (number in blind) for number in range(12))


def test_an_audited_task_teaches_and_is_not_asked_again(tmp_path: Path) -> None:
    [blind, *_] = audited(0.5, range(12))
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad"), audit=0.5) as backend:
        assert backend.predict(task(blind)) == backend.predict(task(blind)) == [[]]
        assert (backend.server.count(), len(backend.learnt())) == (3, 3)


def test_the_audited_share_is_close_to_the_setting() -> None:
    """Of 20,000 tasks a tenth is expected; the standard deviation is 42."""
    assert abs(len(audited(0.1, range(20_000))) - 2_000) < 5 * 42


def test_a_larger_share_audits_the_same_tasks_and_more() -> None:
    assert audited(0.1, range(1000)) < audited(0.2, range(1000))


def test_nothing_is_audited_at_share_zero() -> None:
    assert audited(0.0, range(1000)) == set()


# -- money


def test_a_round_stores_the_paid_cost_and_the_cost_of_asking_all_models(tmp_path: Path) -> None:
    """All three were asked at the known price; the fourth round asks three of four at the same price."""
    with Backend(tmp_path, ALL_GLAD, FOUR, policy=ONE_ROUND_IS_ENOUGH) as backend:
        backend.predict(task(1, "The first."))
        backend.predict(task(2, "The other."))
        first, second = backend.rounds(1)[0], backend.rounds(2)[0]
    assert (first.cost_usd, first.full_cost_usd) == pytest.approx((4 * CALL, 4 * CALL))
    assert second.cost_usd == pytest.approx(3 * CALL)
    assert second.full_cost_usd == pytest.approx(4 * CALL, rel=0.2)


def test_the_cost_of_a_task_is_shared_by_its_questions(tmp_path: Path) -> None:
    with Backend(tmp_path, lambda body: says(mood="Sad", topic="Travel")) as backend:
        backend.predict(task(1), project=TWO)
        assert [round_.cost_usd for round_ in backend.rounds(1)] == pytest.approx([1.5 * CALL] * 2)


def test_the_cost_of_a_task_falls_on_the_questions_that_were_decided(tmp_path: Path) -> None:
    with Backend(tmp_path, lambda body: says(mood="Sad", topic="Gardening")) as backend:
        backend.predict(task(1), project=TWO)
        [mood] = backend.rounds(1)
    assert (mood.cost_usd, mood.full_cost_usd) == pytest.approx((3 * CALL, 3 * CALL))


def settled(backend: Backend) -> list[Any]:
    with backend.ledger.read() as connection:
        return list(connection.execute(select(tables.calls)).all())


def test_every_call_is_settled_to_the_cent_failures_too(tmp_path: Path) -> None:
    """The account equals the cost of the usage that the server reported, counted by the test."""
    replies = {
        "red": Reply.says('{"mood": "Glad"}', usage=(100, 10)),
        "green": Reply.says("Ecstatic", usage=(200, 20)),
        "blue": Reply.says("", usage=(300, 30)),
    }
    with Backend(tmp_path, lambda body: replies[body["model"]]) as backend:
        backend.predict(task(1))
        with backend.ledger.read() as connection:
            total = money.balance(connection, Project().key, money.TOTAL)
            today = money.balance(connection, money.EVERY_PROJECT, money.day_of(backend.runtime.clock()))
        calls = settled(backend)
    paid = round((600 * 1.0 + 60 * 2.0) * 1e6)
    assert total == today == money.Account(spent=paid, reserved=0)
    assert {call.model: call.error_code for call in calls} == {
        "red": None,
        "green": None,
        "blue": "model_bad_answer",
    }
    assert {call.state for call in calls} == {"settled"}


def test_a_failure_without_usage_costs_nothing(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red=None, green=None, blue=None)) as backend:
        backend.predict(task(1))
        assert [(call.state, call.cost) for call in settled(backend)] == [("settled", 0)] * 3


def budget_for(calls: float, tmp_path: Path) -> float:
    """The amount in $ that covers this many calls of the test's prompt, reservations included."""
    with Backend(tmp_path, ALL_GLAD) as backend:
        backend.predict(task(1))
        [first, *_] = settled(backend)
    return float(first.reserved) / 1e12 * calls


def test_one_absurd_usage_stops_no_prediction_not_even_after_a_start(tmp_path: Path) -> None:
    """The second process also finds such a usage in the ledger."""
    other = Project(number=8)
    replies = {
        "red": Reply.says('{"mood": "Glad"}', usage=(10**15, 10**15)),
        "green": Reply.says('{"mood": "Glad"}', usage=(10**300, -1)),
        "blue": Reply.says('{"mood": "Glad"}'),
    }
    with Backend(tmp_path, lambda body: replies[body["model"]], budget={"day_usd": 1.0}) as backend:
        assert all(backend.predict(task(1), task(2)))
        assert all(backend.predict(task(1), project=other))
        assert all(call.cost <= call.reserved for call in settled(backend))
        with backend.ledger.write() as connection:
            connection.execute(update(tables.calls).values(input_tokens=10**15, output_tokens=10**15))
    with Backend(tmp_path, lambda body: replies[body["model"]], budget={"day_usd": 1.0}) as backend:
        assert all(backend.predict(task(3), task(4, "A day without end.")))
        assert backend.server.count("red") == backend.server.count("blue") > 0


@pytest.mark.parametrize("name", ["project_usd", "day_usd"])
def test_when_the_budget_is_exhausted_no_model_is_asked_and_the_rest_gets_nothing(
    tmp_path: Path, name: str
) -> None:
    for folder in ("measured", "limited"):
        (tmp_path / folder).mkdir()
    usd = budget_for(3.5, tmp_path / "measured")
    expensive = Reply.says('{"mood": "Glad"}', usage=(10**9, 10**9))  # every call costs what it reserved
    with Backend(tmp_path / "limited", lambda body: expensive, budget={name: usd}) as backend:
        assert backend.predict(task(1))[0]
        before = backend.server.count()
        outcome = backend.metric("camvo_tasks_total", outcome="budget_exhausted")
        assert backend.predict(task(2), task(3)) == [[], []]
        assert backend.server.count() == before
        assert backend.metric("camvo_tasks_total", outcome="budget_exhausted") == outcome + 2


def test_an_exhausted_budget_still_answers_from_the_ledger(tmp_path: Path) -> None:
    for folder in ("measured", "limited"):
        (tmp_path / folder).mkdir()
    usd = budget_for(3.5, tmp_path / "measured")
    expensive = Reply.says('{"mood": "Glad"}', usage=(10**9, 10**9))
    with Backend(tmp_path / "limited", lambda body: expensive, budget={"project_usd": usd}) as backend:
        first = backend.predict(task(1))
        assert backend.predict(task(2)) == [[]]
        assert backend.predict(task(1)) == first


def test_the_log_says_that_the_budget_is_exhausted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Backend(tmp_path, ALL_GLAD, budget={"project_usd": 0.0}) as backend:
        assert backend.predict(task(1)) == [[]]
        assert backend.server.count() == 0
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    [said] = [line for line in lines if line.get("event") == "no_prediction"]
    assert said["code"] == "budget_exhausted"
    assert "budget.project_usd" in said["reason"]


# -- epochs


def test_other_instructions_are_a_new_epoch(tmp_path: Path) -> None:
    with Backend(tmp_path, ALL_GLAD) as backend:
        backend.predict(task(1))
        backend.post("/setup", setup(extra_params={"instructions": "Be strict."}))
        backend.predict(task(1))
        assert len({round_.key.epoch for round_ in backend.rounds(1)}) == 2


def test_other_layout_of_the_config_is_the_same_epoch(tmp_path: Path) -> None:
    config = SENTIMENT.replace("<View>", "<View><Style>.a { color: red }</Style>").replace(
        'showInLine="true"', 'className="a"'
    )
    with Backend(tmp_path, ALL_GLAD) as backend:
        backend.predict(task(1))
        backend.predict(task(1), project=Project(label_config=config))
        assert len(backend.rounds(1)) == 1


# -- learning


def test_with_history_fewer_models_are_asked(tmp_path: Path) -> None:
    """Four models always agree; once each has n₀ = 2 rewards, fewer models reach δ = 0.5."""
    policy = {"name": "camvo", "n0": 2, "k_min": 1, "delta": 0.5}
    with Backend(tmp_path, ALL_GLAD, FOUR, packaged=True, policy=policy) as backend:
        for number in range(4):
            backend.predict(task(number, f"Entry {number} of a good year."))
        asked = [len(backend.rounds(number)[0].votes) for number in range(4)]
    assert asked[:2] == [4, 4]
    assert all(count < 4 for count in asked[2:])


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        ({"name": "majority"}, {"red", "green", "blue"}),
        ({"name": "baseline"}, {"red", "green", "blue"}),
        ({"name": "single", "model": "green"}, {"green"}),
    ],
)
def test_other_policies_ask_as_they_are_named(
    tmp_path: Path, policy: dict[str, str], asked: set[str]
) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad"), policy=policy) as backend:
        assert label(backend.predict(task(1))[0]) == "Glad"
        assert {request.model for request in backend.server.requests} == asked


def test_the_models_asked_are_asked_once_each(tmp_path: Path) -> None:
    numbers = itertools.count(1)
    with Backend(tmp_path, ALL_GLAD) as backend:
        backend.predict(*(task(next(numbers)) for _ in range(5)))
        assert Counter(request.model for request in backend.server.requests) == {
            "red": 5,
            "green": 5,
            "blue": 5,
        }
