"""POST /predict as Label Studio uses it: the results, their order, and what they never contain."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from label_studio_requests import (
    SENTIMENT,
    SENTIMENT_AND_TOPIC,
    UNVOTABLE,
    Annotation,
    Project,
    choice,
    predict,
    setup,
    task,
)
from label_studio_sdk.label_interface import LabelInterface
from whole_backend import Backend, prompt_of, says, votes

from backend.ledger import projects

_numbers = itertools.count(10_000)


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """One backend for all tests here; each test uses its own tasks."""
    with Backend(tmp_path_factory.mktemp("predict"), votes(red="Glad", green="Glad", blue="Sad")) as backend:
        yield backend


def new_task(text: object = None, **changes: Any) -> dict[str, Any]:
    return task(next(_numbers), text, **changes)


# -- the recorded kinds of request


def test_an_opened_task_gets_the_voted_label(backend: Backend) -> None:
    [prediction] = backend.predict(new_task())
    assert [region["value"] for region in prediction["result"]] == [{"choices": ["Glad"]}]


def test_the_settings_of_a_known_project_are_read_once_a_request(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.predict(new_task())
    read = Mock(wraps=projects.get)
    monkeypatch.setattr(projects, "get", read)
    backend.predict(new_task(), new_task())
    assert read.call_count == 1


def test_a_batch_gets_one_prediction_for_each_task_in_its_order(tmp_path: Any) -> None:
    moods = ["Glad", "Sad", "Calm"]

    def script(body: dict[str, Any]) -> Any:
        return says(mood=next(mood for mood in moods if f"a {mood.lower()} day" in prompt_of(body)))

    wanted = [moods[number % 3] for number in range(29)]
    with Backend(tmp_path, script) as backend:
        results = backend.predict(
            *(task(n, f"Entry {n}: a {mood.lower()} day.") for n, mood in enumerate(wanted))
        )
    assert [result["result"][0]["value"]["choices"][0] for result in results] == wanted


@pytest.mark.parametrize("context", [None, {"result": [choice("Sad")]}])
def test_interactive_annotating_works_with_and_without_a_context(backend: Backend, context: object) -> None:
    asked = new_task(drafts=[], allow_skip=True)
    response = backend.post("/predict", predict([asked], context=context))
    [prediction] = response.get_json()["results"]
    assert prediction["result"][0]["value"] == {"choices": ["Glad"]}


def test_a_request_without_tasks_gets_no_results(backend: Backend) -> None:
    assert backend.predict() == []


def test_unknown_keys_are_ignored(backend: Backend) -> None:
    body = {**predict([new_task()]), "something": {"new": 1}, "timeout": 2}
    assert backend.post("/predict", body).status_code == 200


# -- shape of the answer

_BAD: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"id": 1},
        {"id": 2, "data": None},
        {"id": 3, "data": []},
        {"id": "4", "data": {"text": "An id that is text."}},
        {"id": None, "data": {"text": "No id."}},
        {"id": True, "data": {"text": "A truth value for an id."}},
        {"id": 5.5, "data": {"text": "Half an id."}},
        {"id": 10**30, "data": {"text": "An id that no database holds."}},
        {"data": {"text": "No id at all."}},
        {"id": 6, "data": {"other": "The key is missing."}},
        {"id": 7, "data": {"text": ""}},
        {"id": 8, "data": {"text": " \n\t "}},
        {"id": 9, "data": {"text": {"not": "a text"}}},
        {"id": 10, "data": {"text": ["nor", "this"]}},
        None,
        3,
        "a task",
        [],
    ]
)


def is_good(raw: Any) -> bool:
    return isinstance(raw, dict) and "inner_id" in raw


_GOOD = st.integers(1, 8).map(lambda number: task(number, f"Good entry {number}."))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(_GOOD, _BAD), max_size=8))
def test_results_have_the_length_and_the_order_of_the_tasks(backend: Backend, tasks: list[Any]) -> None:
    results = backend.predict(*tasks)
    assert [bool(result) for result in results] == [is_good(raw) for raw in tasks]
    assert all(result == [] for raw, result in zip(tasks, results, strict=True) if not is_good(raw))


def test_a_task_without_a_prediction_has_a_reason_and_the_others_have_none(backend: Backend) -> None:
    response = backend.post("/predict", predict([new_task(""), None, new_task()]))
    empty, unreadable, predicted = response.get_json()["reasons"]
    assert (empty["code"], unreadable["code"], predicted) == ("text_empty", "task_unreadable", None)
    assert empty["fix"] == "skip or delete the task"


def test_progress_counts_the_tasks_decided_since_a_round_and_the_money(backend: Backend) -> None:
    key = Project().key
    before = backend.client.get(f"/progress?project={key}").get_json()
    tasks = [new_task(), new_task()]
    backend.predict(*tasks)
    numbers = sorted(task["id"] for task in tasks)
    query = f"/progress?project={key}&after={before['last_round']}&first={numbers[0]}&last={numbers[1]}"
    after = backend.client.get(query).get_json()
    assert (before["tasks"], after["tasks"]) == (0, 2)
    assert after["spent_usd"] > before["spent_usd"]
    assert after["patience_hours"] == 12.0
    assert backend.client.get(f"{query}x").status_code == 400


def test_a_task_without_a_prediction_is_an_empty_list_and_never_null(backend: Backend) -> None:
    response = backend.post("/predict", predict([new_task(""), None, new_task()]))
    assert None not in response.get_json()["results"]
    assert response.get_json()["results"][:2] == [[], []]


def test_a_bad_task_is_counted_by_its_reason(backend: Backend) -> None:
    before = backend.metric("camvo_tasks_total", outcome="text_empty")
    backend.predict(new_task(" "))
    assert backend.metric("camvo_tasks_total", outcome="text_empty") == before + 1


def test_the_prediction_passes_label_studios_own_validation(backend: Backend) -> None:
    [prediction] = backend.predict(new_task())
    assert LabelInterface(SENTIMENT).validate_prediction(prediction, return_errors=True) == []


def test_a_prediction_for_two_questions_passes_label_studios_own_validation(tmp_path: Any) -> None:
    project = Project(label_config=SENTIMENT_AND_TOPIC)
    with Backend(tmp_path, lambda body: says(mood="Calm", topic="Food")) as backend:
        [prediction] = backend.predict(task(1), project=project)
    assert LabelInterface(SENTIMENT_AND_TOPIC).validate_prediction(prediction, return_errors=True) == []
    assert [region["from_name"] for region in prediction["result"]] == ["mood", "topic"]


def disputed(body: dict[str, Any]) -> Any:
    """Models that agree on the topic and on nothing else."""
    moods = {"red": "Glad", "green": "Sad", "blue": "Calm"}
    return says(mood=moods[body["model"]], topic="Food")


def test_a_label_that_is_probably_wrong_is_not_filled_in_and_its_score_is_sent(tmp_path: Any) -> None:
    with Backend(tmp_path, disputed) as backend:
        [prediction] = backend.predict(task(1))
    assert prediction["result"] == []
    assert 0.0 < prediction["score"] < 0.5


def test_each_question_is_filled_in_by_its_own_score(tmp_path: Any) -> None:
    project = Project(label_config=SENTIMENT_AND_TOPIC)
    with Backend(tmp_path, disputed) as backend:
        [prediction] = backend.predict(task(1), project=project)
        scores = {round_.key.control: round_.score for round_ in backend.rounds(1)}
    assert [region["from_name"] for region in prediction["result"]] == ["topic"]
    assert prediction["score"] == pytest.approx(scores["mood"] * scores["topic"])
    assert LabelInterface(SENTIMENT_AND_TOPIC).validate_prediction(prediction, return_errors=True) == []


def test_prefill_0_fills_in_every_label(tmp_path: Any) -> None:
    with Backend(tmp_path, disputed, prefill=0.0) as backend:
        [prediction] = backend.predict(task(1))
    assert [region["from_name"] for region in prediction["result"]] == ["mood"]


def test_a_project_may_fill_in_less(tmp_path: Any) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        backend.post("/setup", setup(extra_params={"prefill": 1.0}))
        [prediction] = backend.predict(task(1))
    assert prediction["result"] == []


def test_a_prediction_stores_the_alias_of_a_choice_that_has_one(tmp_path: Any) -> None:
    config = SENTIMENT.replace('value="Glad"', 'value="Glad" alias="g"')
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        [prediction] = backend.predict(task(1), project=Project(label_config=config))
    assert prediction["result"][0]["value"] == {"choices": ["g"]}
    assert LabelInterface(config).validate_prediction(prediction, return_errors=True) == []


def test_scores_are_finite_probabilities(backend: Backend) -> None:
    scores = [prediction["score"] for prediction in backend.predict(*(new_task() for _ in range(12)))]
    assert all(math.isfinite(score) and 0.0 <= score <= 1.0 for score in scores)


def test_an_agreement_scores_higher_than_a_quarrel(tmp_path: Any) -> None:
    def script(body: dict[str, Any]) -> Any:
        quarrel = "quarrel" in prompt_of(body) and body["model"] == "blue"
        return says(mood="Sad" if quarrel else "Glad")

    with Backend(tmp_path, script) as backend:
        agreed, quarrelled = backend.predict(task(1, "All agree."), task(2, "A quarrel."))
    assert agreed["score"] > quarrelled["score"]


def test_predictions_and_setup_carry_the_same_model_version(tmp_path: Any) -> None:
    with Backend(
        tmp_path, votes(red="Glad", green="Glad", blue="Sad"), model_version="diary-votes"
    ) as backend:
        [prediction] = backend.predict(task(1))
        setup = backend.post("/setup", {"project": "7.1", "schema": SENTIMENT, "extra_params": None})
        assert prediction["model_version"] == setup.get_json()["model_version"] == "diary-votes"


# -- asking again


def test_a_repeated_predict_returns_the_stored_prediction(backend: Backend) -> None:
    asked = new_task()
    assert backend.predict(asked) == backend.predict(asked)


def test_a_repeated_predict_asks_no_model_and_teaches_nothing(backend: Backend) -> None:
    asked = new_task()
    backend.predict(asked)
    calls, events = backend.server.count(), len(backend.events())
    backend.predict(asked)
    assert (backend.server.count(), len(backend.events())) == (calls, events)


def test_a_task_twice_in_one_request_is_one_round(backend: Backend) -> None:
    asked = new_task()
    first, second = backend.predict(asked, asked)
    assert first == second
    assert len(backend.rounds(asked["id"])) == 1


def test_an_edited_text_is_a_new_round(backend: Backend) -> None:
    asked = new_task()
    backend.predict(asked)
    backend.predict({**asked, "data": {"text": "Entirely rewritten."}})
    assert len(backend.rounds(asked["id"])) == 2


def test_data_that_no_question_reads_does_not_make_a_new_round(backend: Backend) -> None:
    asked = new_task()
    backend.predict(asked)
    backend.predict({**asked, "data": {**asked["data"], "ref": "another"}})
    assert len(backend.rounds(asked["id"])) == 1


def test_the_same_task_number_in_another_project_is_another_task(backend: Backend) -> None:
    asked = new_task()
    other = Project(number=8)
    backend.predict(asked)
    backend.predict(asked, project=other)
    assert len(backend.rounds(asked["id"], other)) == 1


# -- prompts


def test_annotations_and_predictions_of_a_task_never_reach_a_prompt(backend: Backend) -> None:
    project = Project()
    human = Annotation(number=3, task=1, mood="Sad", user=77).payload(project)
    human["created_username"] = "wilhelmina@diary.test"
    machine = {"id": 4, "result": [choice("Calm")], "score": 0.123456, "model_version": "older-votes"}
    asked = new_task(annotations=[human], predictions=[machine], meta={"secret": "meta-of-the-task"})
    start = backend.server.count()
    backend.predict(asked)
    prompts = "".join(json.dumps(request.body) for request in backend.server.requests[start:])
    assert len(prompts) > 0
    for leak in ("wilhelmina", "older-votes", "0.123456", "was_cancelled", "meta-of-the-task", "choices"):
        assert leak not in prompts


def test_only_the_fields_of_the_questions_reach_a_prompt(backend: Backend) -> None:
    start = backend.server.count()
    backend.predict(new_task(data={"text": "A walk by the river.", "diagnosis": "unmentionable"}))
    prompts = [prompt_of(request.body) for request in backend.server.requests[start:]]
    assert len(prompts) == 3
    assert all("by the river" in prompt and "unmentionable" not in prompt for prompt in prompts)


# -- refusals


@pytest.mark.parametrize("tasks", ["a text", {"id": 1}, None, 5])
def test_tasks_that_are_no_list_are_refused(backend: Backend, tasks: object) -> None:
    response = backend.post("/predict", {**predict([]), "tasks": tasks})
    assert (response.status_code, response.get_json()["where"]) == (400, "body.tasks")


@pytest.mark.parametrize("key", ["tasks", "project", "label_config"])
def test_a_missing_key_is_refused_by_name(backend: Backend, key: str) -> None:
    body = predict([new_task()])
    del body[key]
    response = backend.post("/predict", body)
    assert (response.status_code, response.get_json()["where"]) == (400, f"body.{key}")


@pytest.mark.parametrize("project", ["", "a b", "\ud800", "\x00", "7" * 101, 7, None])
def test_a_project_key_that_is_none_is_refused(backend: Backend, project: object) -> None:
    response = backend.post("/predict", {**predict([new_task()]), "project": project})
    assert (response.status_code, response.get_json()["where"]) == (400, "body.project")


@pytest.mark.parametrize("config", ["", "<View>", "no markup", "<View></View>", "<Choices/><View/>"])
def test_a_broken_label_config_is_refused(backend: Backend, config: str) -> None:
    response = backend.post("/predict", predict([new_task()], Project(label_config=config)))
    answer = response.get_json()
    assert (response.status_code, answer["code"]) == (400, "label_config_invalid")
    assert answer["fix"]


def test_a_config_with_nothing_to_vote_on_is_refused_with_each_controls_reason(backend: Backend) -> None:
    response = backend.post("/predict", predict([new_task()], Project(label_config=UNVOTABLE)))
    answer = response.get_json()
    assert (response.status_code, answer["code"]) == (400, "label_config_invalid")
    assert "caption" in answer["message"]


def test_the_rest_of_a_config_with_an_unsupported_control_is_predicted(backend: Backend) -> None:
    config = SENTIMENT.replace("</View>", '<TextArea name="why" toName="note"/></View>')
    [prediction] = backend.predict(new_task(), project=Project(label_config=config))
    assert [region["from_name"] for region in prediction["result"]] == ["mood"]
