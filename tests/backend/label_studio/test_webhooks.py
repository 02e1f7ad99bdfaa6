"""Webhooks and their annotations as values, and which webhooks are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from label_studio_requests import (
    SENTIMENT,
    Annotation,
    Project,
    annotated,
    annotated_in_bulk,
    annotations_deleted,
    choice,
    project_updated,
    start_training,
    tasks_deleted,
    updated,
)

from backend.errors import BadBodyError
from backend.label_studio import payloads
from backend.label_studio.predictions import annotations_in
from backend.ledger.human_annotations import Annotation as Stored
from backend.questions import parse_label_config

CONFIG = parse_label_config(SENTIMENT)


def stored(annotation: Annotation) -> Stored:
    [parsed] = annotations_in(payloads.parse_webhook(annotated(annotation)), CONFIG)
    return parsed


@pytest.mark.parametrize(
    ("created", "key"),
    [
        ("2026-11-21T07:06:19.504388Z", "5.1795244779"),
        ("2026-11-21T07:06:19Z", "5.1795244779"),
        ("2026-11-21T08:06:19.999999+01:00", "5.1795244779"),
    ],
)
def test_the_projects_key_is_its_id_and_its_creation_in_unix_seconds(created: str, key: str) -> None:
    assert payloads.project_key({"id": 5, "created_at": created}) == key


def test_the_key_agrees_with_the_one_that_predict_uses_in_any_time_zone() -> None:
    zone = timezone(timedelta(hours=-7))
    project = Project(created=datetime(2026, 5, 4, 3, 2, 1, 999_999, tzinfo=UTC))
    moved = {**project.payload(), "created_at": project.created.astimezone(zone).isoformat()}
    assert payloads.project_key(moved) == payloads.project_key(project.payload()) == project.key


def test_an_annotation_is_read_as_a_whole() -> None:
    parsed = stored(
        Annotation(number=3, task=4, mood="Calm", updated="2026-03-01T00:00:00.5Z", ground_truth=True, user=6)
    )
    assert (parsed.annotation_id, parsed.task, parsed.completed_by) == (3, 4, 6)
    assert (parsed.labels, parsed.ground_truth, parsed.teaches) == ({"mood": "Calm"}, True, True)
    assert parsed.updated_at == "2026-03-01T00:00:00.5Z"
    assert parsed.project == Project().key


@pytest.mark.parametrize(
    ("changes", "teaches"),
    [
        ({}, True),
        ({"skipped": True}, False),
        ({"from_prediction": 9}, True),
        ({"from_prediction": 9, "lead_time": None}, False),
        ({"lead_time": None}, True),
        ({"bulk": True, "lead_time": None}, False),
        ({"from_prediction": 9, "lead_time": None, "ground_truth": True}, True),
        ({"skipped": True, "ground_truth": True}, False),
    ],
    ids=[
        *("human", "skipped", "accepted", "made-from-prediction", "through-the-api", "bulk"),
        *("made-from-prediction-but-ground-truth", "skipped-ground-truth"),
    ],
)
def test_only_annotations_that_a_human_looked_at_teach(changes: dict[str, Any], teaches: bool) -> None:
    assert stored(Annotation(number=1, task=1, mood="Sad", **changes)).teaches is teaches


@pytest.mark.parametrize("changes", [{}, {"ground_truth": True}])
def test_an_annotation_with_a_label_that_the_config_lacks_does_not_teach(changes: dict[str, Any]) -> None:
    parsed = stored(Annotation(number=1, task=1, mood="Furious", **changes))
    assert (parsed.labels, parsed.teaches) == ({}, False)


@pytest.mark.parametrize(
    ("origins", "whole"),
    [
        ([], None),
        ([None], None),
        (["prediction"], "prediction"),
        (["manual", "manual"], "manual"),
        (["prediction", "prediction-changed"], "prediction-changed"),
        (["prediction", "manual"], "prediction-changed"),
    ],
)
def test_one_changed_region_makes_the_whole_form_changed(origins: list[str | None], whole: str) -> None:
    body = annotated(Annotation(number=1, task=1, mood=None))
    body["annotation"]["result"] = [
        {**choice("Sad", f"control{number}"), **({"origin": origin} if origin else {})}
        for number, origin in enumerate(origins)
    ]
    [parsed] = annotations_in(payloads.parse_webhook(body), CONFIG)
    assert parsed.origin == whole


def test_a_list_of_annotations_is_read_like_a_single_one() -> None:
    people = [Annotation(number=number, task=number, mood="Sad") for number in (1, 2, 3)]
    event = payloads.parse_webhook(annotated_in_bulk(people))
    assert [parsed.annotation_id for parsed in annotations_in(event, CONFIG)] == [1, 2, 3]


def test_deletions_carry_ids_only() -> None:
    assert list(payloads.parse_webhook(annotations_deleted(4, 5)).annotation_ids) == [4, 5]
    assert list(payloads.parse_webhook(tasks_deleted(6, 7)).task_ids) == [6, 7]


@pytest.mark.parametrize("body", [start_training(), project_updated(), tasks_deleted(1)])
def test_events_without_annotations_have_none(body: dict[str, Any]) -> None:
    assert list(annotations_in(payloads.parse_webhook(body), CONFIG)) == []


def test_the_projects_config_and_version_are_read() -> None:
    event = payloads.parse_webhook(project_updated(Project(model_version="title")))
    assert (event.label_config, event.model_version) == (SENTIMENT, "title")


@pytest.mark.parametrize(
    "annotation", [None, "text", {"id": "one"}, {"id": 10**30}, {"result": []}, [None, 3]]
)
def test_an_annotation_that_is_none_is_passed_over(annotation: object) -> None:
    body = {**annotated(Annotation(number=1, task=1, mood="Sad")), "annotation": annotation}
    assert list(annotations_in(payloads.parse_webhook(body), CONFIG)) == []


def test_an_annotation_whose_result_is_not_a_list_has_no_labels() -> None:
    body = updated(Annotation(number=1, task=1, mood="Sad"))
    body["annotation"]["result"] = "Sad"
    [parsed] = annotations_in(payloads.parse_webhook(body), CONFIG)
    assert parsed.labels == {}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"action": None}, "body.action"),
        ({"action": "quoted text"}, "body.action"),
        ({"action": "A" * 65}, "body.action"),
        ({"project": None}, "body.project.id"),
        ({"project": {"id": "7"}}, "body.project.id"),
        ({"project": {"id": 10**30, "created_at": "2026-03-01T00:00:00Z"}}, "body.project.id"),
        ({"project": {"id": 7}}, "body.project.created_at"),
        ({"project": {"id": 7, "created_at": "yesterday"}}, "body.project.created_at"),
    ],
)
def test_an_event_that_names_no_action_or_project_is_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(BadBodyError) as caught:
        payloads.parse_webhook({**start_training(), **change})
    assert caught.value.where == where
    assert caught.value.fix


@given(
    annotations=st.integers(0, 50), ids=st.integers(0, 50), tasks=st.integers(0, 50), size=st.integers(1, 20)
)
def test_the_parts_of_an_event_are_all_of_it_in_order_and_none_is_too_long(
    annotations: int, ids: int, tasks: int, size: int
) -> None:
    event = payloads.WebhookEvent(
        "ANNOTATIONS_CREATED",
        "7.1",
        annotations=[{"id": number} for number in range(annotations)],
        annotation_ids=range(ids),
        task_ids=range(tasks),
    )
    parts = list(event.split(size))
    for name in ("annotations", "annotation_ids", "task_ids"):
        pieces = [list(getattr(part, name)) for part in parts]
        assert max(map(len, pieces)) <= size
        assert [item for piece in pieces for item in piece] == list(getattr(event, name))
    assert {(part.action, part.project_key) for part in parts} == {("ANNOTATIONS_CREATED", "7.1")}


def test_an_annotation_made_from_a_prediction_counts_as_having_been_shown_one() -> None:
    body = annotated(Annotation(number=1, task=1, mood="Sad", from_prediction=3))
    del body["annotation"]["prediction"]  # Label Studio's API omits the copy
    [parsed] = annotations_in(payloads.parse_webhook(body), CONFIG)
    assert parsed.prediction_shown


def test_a_prediction_that_filled_nothing_in_was_not_shown() -> None:
    body = annotated(Annotation(number=5, task=1, mood="Glad"))
    body["annotation"] |= {"prediction": {"result": [], "score": 0.3}, "parent_prediction": 12}
    [parsed] = annotations_in(payloads.parse_webhook(body), CONFIG)
    assert not parsed.prediction_shown
