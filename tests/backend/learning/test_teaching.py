"""How human answers change the rewards, counted by hand from the ledger of the real app."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from label_studio_requests import (
    MORE_MOODS,
    SENTIMENT,
    SENTIMENT_AND_TOPIC,
    Annotation,
    Project,
    annotated,
    annotated_in_bulk,
    annotations_deleted,
    choice,
    project_updated,
    start_training,
    task,
    tasks_created,
    tasks_deleted,
    updated,
)
from sqlalchemy import func, select
from whole_backend import Backend, prompt_of, says, votes

from backend.ledger.database import tables
from camvo.state.state import State

SPLIT = votes(red="Glad", green="Glad", blue="Sad")

VOTE = {"red": (1, 1.0), "green": (1, 1.0), "blue": (1, 0.0)}
"""The rewards that the voted label of SPLIT, "Glad", teaches."""
SAD = {"red": (1, 0.0), "green": (1, 0.0), "blue": (1, 1.0)}
CALM = {"red": (1, 0.0), "green": (1, 0.0), "blue": (1, 0.0)}


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    """A backend in which two of three models voted "Glad" on task 1."""
    with Backend(tmp_path, SPLIT) as backend:
        backend.predict(task(1))
        yield backend


def human(mood: str | None = "Sad", number: int = 1, **changes: Any) -> Annotation:
    return Annotation(number=number, task=1, mood=mood, **changes)


def assert_same_state(one: State, other: State) -> None:
    """Equal counts, and equal floats up to 1e-9."""
    assert (one.rounds, sorted(one)) == (other.rounds, sorted(other))
    for arm in one:
        mine, theirs = one[arm], other[arm]
        assert mine.rewards == theirs.rewards
        assert mine.reward_sum == pytest.approx(theirs.reward_sum, abs=1e-9)
        assert np.allclose(mine.inverse.full(), theirs.inverse.full(), rtol=0, atol=1e-9)
        assert np.allclose(mine.b, theirs.b, rtol=0, atol=1e-9)
        assert np.allclose(
            np.ravel(mine.mixture.to_list()), np.ravel(theirs.mixture.to_list()), rtol=0, atol=1e-9
        )


# -- one human


@pytest.mark.parametrize(("mood", "expected"), [("Glad", VOTE), ("Sad", SAD), ("Calm", CALM)])
def test_a_human_label_replaces_the_votes_in_the_reward(
    backend: Backend, mood: str, expected: dict[str, Any]
) -> None:
    backend.hook(annotated(human(mood)))
    assert backend.learnt() == expected
    [round_] = backend.rounds(1)
    assert (round_.label, round_.taught, round_.taught_by) == ("Glad", mood, "human")


def test_an_update_changes_the_reward(backend: Backend) -> None:
    said = human("Sad")
    backend.hook(annotated(said))
    backend.hook(updated(said.again(mood="Calm")))
    assert backend.learnt() == CALM


def test_an_update_whose_creation_never_came_is_learnt(backend: Backend) -> None:
    backend.hook(updated(human("Sad")))
    assert backend.learnt() == SAD


def test_a_deletion_by_id_alone_restores_the_rewards_of_the_vote(backend: Backend) -> None:
    before = backend.state()
    backend.hook(annotated(human("Sad")))
    backend.hook(annotations_deleted(1))
    assert backend.learnt() == VOTE
    assert backend.rounds(1)[0].taught_by == "vote"
    assert_same_state(backend.state(), before)


def test_the_older_name_of_the_deletion_event_works_too(backend: Backend) -> None:
    backend.hook(annotated(human("Sad")))
    backend.hook({**annotations_deleted(1), "action": "ANNOTATION_DELETED"})
    assert backend.learnt() == VOTE


def test_several_annotations_are_deleted_at_once(backend: Backend) -> None:
    backend.predict(task(2))
    backend.hook(annotated(human("Sad")))
    backend.hook(annotated(Annotation(number=2, task=2, mood="Sad")))
    backend.hook(annotations_deleted(1, 2))
    assert backend.learnt() == {"red": (2, 2.0), "green": (2, 2.0), "blue": (2, 0.0)}


def test_a_deletion_without_ids_changes_nothing(backend: Backend) -> None:
    backend.hook(annotated(human("Sad")))
    backend.hook(annotations_deleted())
    assert backend.learnt() == SAD


def test_feedback_that_comes_before_its_round_is_applied_with_it(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        backend.hook(annotated(human("Sad")))
        [prediction] = backend.predict(task(1))
        assert backend.learnt() == SAD
        assert prediction["result"][0]["value"] == {"choices": ["Glad"]}


def test_a_human_label_does_not_change_the_stored_prediction(backend: Backend) -> None:
    before = backend.predict(task(1))
    backend.hook(annotated(human("Sad")))
    assert backend.predict(task(1)) == before


def test_the_next_plan_uses_the_human_label(backend: Backend) -> None:
    backend.hook(annotated(human("Sad")))
    backend.predict(task(2))
    agreement = {arm: row["agreement"] for arm, row in backend.rounds(2)[0].plan["arms"].items()}
    assert agreement == {"red": 0.0, "green": 0.0, "blue": 1.0}


# -- repeats and order


def test_the_same_webhook_twice_changes_nothing(backend: Backend) -> None:
    said = annotated(human("Sad"))
    backend.hook(said)
    events = len(backend.events())
    backend.hook(said)
    assert (backend.learnt(), len(backend.events())) == (SAD, events)


def test_an_older_update_that_comes_late_is_ignored(backend: Backend) -> None:
    first = human("Sad")
    second = first.again(mood="Calm")
    backend.hook(updated(second))
    backend.hook(annotated(first))
    assert backend.learnt() == CALM


def test_a_deleted_annotation_does_not_come_back(backend: Backend) -> None:
    backend.hook(annotated(human("Sad")))
    backend.hook(annotations_deleted(1))
    backend.hook(updated(human("Sad")))
    assert backend.learnt() == VOTE


def test_a_creation_that_comes_after_its_deletion_is_ignored(backend: Backend) -> None:
    backend.hook(annotations_deleted(1))
    backend.hook(annotated(human("Sad")))
    assert backend.learnt() == VOTE


def test_a_human_who_agrees_with_the_vote_changes_no_reward(backend: Backend) -> None:
    before = backend.state()
    events = len(backend.events())
    backend.hook(annotated(human("Glad")))
    assert_same_state(backend.state(), before)
    assert len(backend.events()) == events


# -- whose word counts


def test_a_skipped_annotation_teaches_nothing_though_its_result_is_filled(backend: Backend) -> None:
    skipped = human("Sad", skipped=True, origin="prediction", from_prediction=9, prediction={"id": 9})
    backend.hook(annotated(skipped))
    assert backend.learnt() == VOTE


def test_an_annotation_that_is_skipped_later_is_withdrawn(backend: Backend) -> None:
    said = human("Sad")
    backend.hook(annotated(said))
    backend.hook(updated(said.again(skipped=True)))
    assert backend.learnt() == VOTE


def bulk(*moods: str) -> list[Annotation]:
    return [
        Annotation(number=number, task=number, mood=mood, lead_time=None, from_prediction=100 + number)
        for number, mood in enumerate(moods, start=1)
    ]


def test_annotations_made_from_predictions_in_bulk_teach_nothing(backend: Backend) -> None:
    backend.hook(annotated_in_bulk(bulk("Sad", "Calm")))
    assert (backend.learnt(), backend.rounds(1)[0].taught_by) == (VOTE, "vote")


def test_a_human_update_of_an_annotation_made_in_bulk_teaches(backend: Backend) -> None:
    [annotation] = bulk("Glad")
    backend.hook(annotated_in_bulk([annotation]))
    backend.hook(updated(annotation.again(mood="Sad", lead_time=3.0)))
    assert backend.learnt() == SAD


def test_several_annotations_in_one_event_are_all_learnt(backend: Backend) -> None:
    backend.predict(task(2))
    people = [Annotation(number=number, task=number, mood="Sad") for number in (1, 2)]
    backend.hook(annotated_in_bulk(people))
    assert backend.learnt() == {"red": (2, 0.0), "green": (2, 0.0), "blue": (2, 2.0)}


def test_an_accepted_prediction_is_a_human_answer(backend: Backend) -> None:
    backend.hook(annotated(human("Glad", origin="prediction", from_prediction=9, prediction={"id": 9})))
    assert backend.rounds(1)[0].taught_by == "human"


@pytest.mark.parametrize("origin", ["prediction", "prediction-changed", "manual"])
def test_how_the_form_was_left_is_recorded(backend: Backend, origin: str) -> None:
    backend.hook(annotated(human("Sad", origin=origin, from_prediction=9, prediction={"id": 9})))
    [stored] = backend.annotations(1)
    assert (stored.origin, stored.prediction_shown) == (origin, True)


def test_an_annotation_without_a_prediction_in_its_form_says_so(backend: Backend) -> None:
    backend.hook(annotated(human("Sad")))
    assert not backend.annotations(1)[0].prediction_shown


def by_people(*moods: str, truth: int | None = None) -> list[Annotation]:
    return [
        human(mood, number=number, user=number, ground_truth=number == truth)
        for number, mood in enumerate(moods)
    ]


@pytest.mark.parametrize(
    ("people", "expected"),
    [
        (by_people("Sad", "Sad", "Calm"), SAD),
        (by_people("Sad", "Calm"), VOTE),
        (by_people("Glad", "Sad", "Calm"), VOTE),
        (by_people("Sad", "Sad", "Calm", "Calm"), VOTE),
        (by_people("Calm", "Calm", "Sad", truth=2), SAD),
    ],
    ids=["majority", "tie", "three-way-tie", "tie-of-pairs", "ground-truth"],
)
def test_ground_truth_beats_the_majority_and_a_tie_teaches_nothing(
    backend: Backend, people: Sequence[Annotation], expected: dict[str, Any]
) -> None:
    for said in people:
        backend.hook(annotated(said))
    assert backend.learnt() == expected


def test_a_tie_is_the_votes_again_and_not_a_human_answer(backend: Backend) -> None:
    for said in by_people("Sad", "Calm"):
        backend.hook(annotated(said))
    assert backend.rounds(1)[0].taught_by == "vote"


def test_a_ground_truth_that_is_taken_back_leaves_the_majority(backend: Backend) -> None:
    people = by_people("Calm", "Calm", "Sad", truth=2)
    for said in people:
        backend.hook(annotated(said))
    backend.hook(updated(people[2].again(ground_truth=False)))
    assert backend.learnt() == CALM


_SAYING = st.tuples(
    st.sampled_from(["say", "skip", "delete"]), st.integers(1, 3), st.sampled_from(["Glad", "Sad", "Calm"])
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_SAYING, max_size=8))
def test_withdrawing_all_annotations_restores_the_state(
    backend: Backend, sayings: list[tuple[str, int, str]]
) -> None:
    """Each example has its own task; at the end all annotations are withdrawn."""
    number = 1000 + len(backend.events())
    backend.predict(task(number, "Always the same entry."))
    before = backend.state()
    for what, who, mood in sayings:
        identity = number * 10 + who
        if what == "delete":
            backend.hook(annotations_deleted(identity))
        else:
            said = Annotation(number=identity, task=number, mood=mood, skipped=what == "skip")
            backend.hook(updated(said))
    backend.hook(annotations_deleted(*(number * 10 + who for who in (1, 2, 3))))
    assert_same_state(backend.state(), before)


# -- several questions


def test_a_human_answer_to_one_question_leaves_the_other_alone(tmp_path: Path) -> None:
    project = Project(label_config=SENTIMENT_AND_TOPIC)
    with Backend(tmp_path, lambda body: says(mood="Glad", topic="Food")) as backend:
        backend.predict(task(1), project=project)
        said = Annotation(number=1, task=1, mood="Travel", control="topic")
        backend.hook(annotated(said, project))
        assert set(backend.learnt("mood", project).values()) == {(1, 1.0)}
        assert set(backend.learnt("topic", project).values()) == {(1, 0.0)}


@pytest.mark.parametrize(
    "result",
    [
        [],
        [choice("Ecstatic")],
        [choice("Sad", control="another")],
        [{**choice("Sad"), "value": {"choices": ["Sad", "Calm"]}}],
        [choice("Sad"), choice("Calm")],
        [{**choice("Sad"), "value": {}}],
        ["no region"],
    ],
    ids=["empty", "unknown-label", "other-control", "two-labels", "two-regions", "no-choices", "no-region"],
)
def test_a_result_that_does_not_answer_the_question_teaches_nothing(
    backend: Backend, result: list[Any]
) -> None:
    body = annotated(human("Sad"))
    body["annotation"]["result"] = result
    backend.hook(body)
    assert backend.learnt() == VOTE


# -- the switch


def test_human_rewards_can_be_switched_off_and_are_stored_all_the_same(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, human_rewards=False) as backend:
        backend.predict(task(1))
        backend.hook(annotated(human("Sad")))
        assert backend.learnt() == VOTE
        assert backend.annotations(1)[0].labels == {"mood": "Sad"}


# -- START_TRAINING


def test_start_training_teaches_labels_stored_while_rewards_were_off(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, human_rewards=False) as backend:
        backend.predict(task(1), task(2))
        backend.hook(annotated(human("Sad")))
    with Backend(tmp_path, SPLIT) as backend:
        backend.hook(start_training())
    assert backend.learnt() == {"red": (2, 1.0), "green": (2, 1.0), "blue": (2, 1.0)}


def test_start_training_changes_nothing_that_is_right(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        backend.predict(task(1), task(2))
        backend.hook(annotated(human("Sad")))
        events = len(backend.events())
        for _ in range(2):
            backend.hook(start_training())
    assert len(backend.events()) == events


# -- deleted tasks


def test_a_deleted_task_takes_its_rounds_answers_and_labels_with_it(backend: Backend) -> None:
    backend.hook(annotated(human("Sad")))
    backend.hook(tasks_deleted(1))
    assert (backend.rounds(1), backend.annotations(1)) == ([], [])
    with backend.ledger.read() as connection:
        assert connection.scalar(select(func.count()).select_from(tables.answers)) == 0
        assert list(connection.scalars(select(tables.human_annotations.c.labels))) == [{}]


def test_a_deleted_task_withdraws_the_human_reward_and_keeps_the_votes(backend: Backend) -> None:
    backend.hook(annotated(human("Sad")))
    backend.hook(tasks_deleted(1))
    assert backend.learnt() == VOTE


def test_an_answer_that_another_task_uses_outlives_the_deleted_one(backend: Backend) -> None:
    backend.predict(task(1, "Shared words."), task(2, "Shared words."))
    calls = backend.server.count()
    backend.hook(tasks_deleted(1))
    backend.predict(task(3, "Shared words."))
    assert backend.server.count() == calls


def test_an_annotation_that_comes_after_its_task_was_deleted_stays_deleted(backend: Backend) -> None:
    said = human("Sad")
    backend.hook(annotated(said))
    backend.hook(tasks_deleted(1))
    backend.hook(updated(said.again(mood="Calm")))
    assert (backend.annotations(1), backend.learnt()) == ([], VOTE)


def test_deleting_a_task_twice_changes_nothing(backend: Backend) -> None:
    backend.hook(annotated(human("Sad")))
    backend.hook(tasks_deleted(1))
    events = len(backend.events())
    backend.hook(tasks_deleted(1))
    assert len(backend.events()) == events


def test_tasks_of_another_project_with_the_same_number_stay(backend: Backend) -> None:
    other = Project(number=8)
    backend.predict(task(1), project=other)
    backend.hook(tasks_deleted(1, project=other))
    assert (len(backend.rounds(1)), backend.rounds(1, other)) == (1, [])


# -- projects and label configs


@pytest.mark.parametrize(
    ("version", "warned"), [("an-old-title", True), ("camvo", False), ("", False), (None, False)]
)
def test_another_model_version_in_the_project_is_warned_about(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], version: str | None, warned: bool
) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        backend.hook(project_updated(Project(model_version=version)))
    assert ("model_version_differs" in capfd.readouterr().err) is warned


def test_an_annotation_reaches_the_round_that_setup_and_predict_made(backend: Backend) -> None:
    """The webhook sends the project's id and creation time, ``/predict`` a single key."""
    body = annotated(human("Sad"))
    assert "7.1772" not in str(body)
    assert Project().key.startswith("7.1772")
    backend.hook(body)
    assert backend.learnt() == SAD


HINTED = SENTIMENT.replace('<Choice value="Calm"/>', '<Choice value="Calm" hint="No wind"/>')


@pytest.mark.parametrize("version", [SENTIMENT, HINTED])
def test_a_human_label_corrects_the_rounds_of_every_epoch_that_knows_it(
    backend: Backend, version: str
) -> None:
    backend.predict(task(1), project=Project(label_config=HINTED))
    backend.hook(annotated(human("Sad"), Project(label_config=version)))
    assert backend.learnt() == {"red": (2, 0.0), "green": (2, 0.0), "blue": (2, 2.0)}


def test_a_label_that_an_epoch_does_not_know_teaches_nothing_there(backend: Backend) -> None:
    """ "Cross" was not a choice when the models voted, so it says nothing about them."""
    backend.hook(annotated(human("Cross"), Project(label_config=MORE_MOODS)))
    assert backend.learnt() == VOTE


def test_a_label_that_the_new_epoch_does_not_know_teaches_nothing_there(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        backend.hook(annotated(human("Cross"), Project(label_config=MORE_MOODS)))
        backend.predict(task(1))
        assert backend.learnt() == VOTE


def test_an_event_with_a_label_config_that_cannot_be_read_is_accepted_and_ignored(backend: Backend) -> None:
    backend.hook(annotated(human("Sad"), Project(label_config="<View")))
    assert backend.learnt() == VOTE


@pytest.mark.parametrize(
    "body",
    [
        tasks_created(task(50)),
        {"action": "LABEL_LINK_CREATED", "project": Project().payload()},
        {"action": "PROJECT_CREATED", "project": Project().payload()},
    ],
)
def test_events_that_teach_nothing_are_accepted(backend: Backend, body: dict[str, Any]) -> None:
    events = len(backend.events())
    backend.hook(body)
    assert len(backend.events()) == events


def test_the_first_annotation_of_a_deleted_task_is_not_stored(backend: Backend) -> None:
    backend.hook(tasks_deleted(1))
    backend.hook(annotated(human("Sad")))
    assert backend.annotations(1) == []


def test_a_deleted_task_is_not_recorded_again(backend: Backend) -> None:
    backend.hook(tasks_deleted(1))
    assert backend.predict(task(1)) == [[]]
    assert backend.rounds(1) == []
    with backend.ledger.read() as connection:
        assert connection.scalar(select(func.count()).select_from(tables.answers)) == 0


# a text that was edited


def by_text(body: dict[str, Any]) -> Any:
    """Every model is right about the text that it is shown."""
    return says(mood="Sad" if "gloomy" in prompt_of(body) else "Glad")


def test_a_label_of_an_edited_text_does_not_judge_the_votes_on_the_text_before(tmp_path: Path) -> None:
    with Backend(tmp_path, by_text) as backend:
        backend.predict(task(1, "gloomy"))
        backend.predict(task(1, "lovely"))
        backend.hook(annotated(Annotation(number=5, task=1, mood="Glad")))
        assert backend.learnt() == dict.fromkeys(("red", "green", "blue"), (2, 2.0))
        assert [round_.human for round_ in backend.rounds(1)] == [None, "Glad"]


def test_a_label_from_before_an_edit_goes_on_to_teach_about_the_text_before(tmp_path: Path) -> None:
    with Backend(tmp_path, by_text) as backend:
        backend.predict(task(1, "gloomy"))
        backend.hook(annotated(Annotation(number=5, task=1, mood="Sad")))
        backend.predict(task(1, "lovely"))
        backend.hook(annotated(Annotation(number=6, task=1, mood="Glad", user=2)))
        assert backend.rounds(1)[0].human == "Sad"
