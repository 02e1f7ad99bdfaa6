from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sqlalchemy import text

from backend.ledger import Ledger, human_annotations
from backend.ledger.human_annotations import Annotation, Annotations

FIRST = Annotation(
    project="1.1",
    annotation_id=9,
    task=4,
    updated_at="2026-03-14T10:00:00.500000Z",
    labels={"topic": "Sport", "mood": "Žal"},
    ground_truth=True,
    teaches=False,
    origin="prediction-changed",
    prediction_shown=True,
    completed_by=2,
)


def later(updated_at: str = "2026-03-14T10:00:01Z", **changes: Any) -> Annotation:
    return dataclasses.replace(FIRST, updated_at=updated_at, **changes)


def test_an_annotation_reads_back_with_the_time_it_was_received(ledger: Ledger) -> None:
    with ledger.write() as connection:
        assert human_annotations.store(connection, FIRST, 7.0)
        assert Annotations(connection, "1.1").of_task(4) == [dataclasses.replace(FIRST, received_at=7.0)]


def test_the_same_annotation_again_changes_nothing(ledger: Ledger) -> None:
    with ledger.write() as connection:
        human_annotations.store(connection, FIRST, 7.0)
        assert not human_annotations.store(connection, dataclasses.replace(FIRST, labels={}), 8.0)
        assert Annotations(connection, "1.1").of_task(4) == [dataclasses.replace(FIRST, received_at=7.0)]


def test_an_update_replaces_the_annotation(ledger: Ledger) -> None:
    update = later(labels={"topic": "Politics"}, task=5)
    with ledger.write() as connection:
        human_annotations.store(connection, FIRST, 7.0)
        assert human_annotations.store(connection, update, 8.0)
        assert Annotations(connection, "1.1").of_task(4) == []
        assert Annotations(connection, "1.1").of_task(5) == [dataclasses.replace(update, received_at=8.0)]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("2026-03-14T10:00:00Z", "2026-03-14T10:00:00.000001Z"),  # as texts the other way round
        ("2026-03-14T10:00:00+02:00", "2026-03-14T09:00:00Z"),
        ("2026-03-14T10:00:00", "2026-03-14T10:00:01Z"),
        ("", "2026-03-14T10:00:00Z"),
        ("not a time", "1970-01-01T00:00:00Z"),
    ],
)
def test_update_times_are_compared_as_times_not_as_texts(ledger: Ledger, older: str, newer: str) -> None:
    with ledger.write() as connection:
        assert human_annotations.store(connection, later(older), 1.0)
        assert human_annotations.store(connection, later(newer), 2.0)
        assert not human_annotations.store(connection, later(older), 3.0)


def test_deleting_returns_the_tasks_that_lost_an_annotation(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for annotation_id, task in ((1, 6), (2, 6), (3, 5), (4, 7), (5, None)):
            human_annotations.store(
                connection, dataclasses.replace(FIRST, annotation_id=annotation_id, task=task), 1.0
            )
        assert Annotations(connection, "1.1").delete([1, 2, 3, 5, 99], 2.0) == [5, 6]
        assert Annotations(connection, "1.1").delete([1, 2, 3, 99], 3.0) == []
        assert Annotations(connection, "1.1").of_task(6) == []
        assert [annotation.annotation_id for annotation in Annotations(connection, "1.1").of_task(7)] == [4]


def test_deleting_spares_the_same_number_in_another_project(ledger: Ledger) -> None:
    with ledger.write() as connection:
        human_annotations.store(connection, dataclasses.replace(FIRST, project="2.1"), 1.0)
        Annotations(connection, "1.1").delete([9], 2.0)
        assert len(Annotations(connection, "2.1").of_task(4)) == 1


def test_an_update_does_not_restore_a_deleted_annotation(ledger: Ledger) -> None:
    with ledger.write() as connection:
        human_annotations.store(connection, FIRST, 1.0)
        Annotations(connection, "1.1").delete([9], 2.0)
        assert not human_annotations.store(connection, later(), 3.0)
        assert Annotations(connection, "1.1").of_task(4) == []


def test_a_creation_that_arrives_after_its_deletion_is_ignored(ledger: Ledger) -> None:
    with ledger.write() as connection:
        assert Annotations(connection, "1.1").delete([9], 1.0) == []
        assert not human_annotations.store(connection, FIRST, 2.0)
        assert Annotations(connection, "1.1").of_task(4) == []


def test_a_forgotten_task_keeps_tombstones_without_content(ledger: Ledger) -> None:
    other = dataclasses.replace(FIRST, annotation_id=10, task=5)
    with ledger.write() as connection:
        human_annotations.store(connection, FIRST, 1.0)
        human_annotations.store(connection, other, 1.0)
        assert Annotations(connection, "1.1").forget_tasks([4]) == 1
        assert not human_annotations.store(connection, later(), 2.0)
        assert Annotations(connection, "1.1").of_task(4) == []
        assert Annotations(connection, "1.1").of_task(5) == [dataclasses.replace(other, received_at=1.0)]
        row = connection.execute(text("SELECT * FROM annotations WHERE annotation_id = 9")).one()
    assert "Sport" not in str(row)
    assert (row.completed_by, row.origin) == (None, None)


def test_a_deleted_annotation_leaves_no_content(ledger: Ledger) -> None:
    with ledger.write() as connection:
        human_annotations.store(connection, FIRST, 1.0)
        Annotations(connection, "1.1").delete([9], 2.0)
        row = connection.execute(text("SELECT * FROM annotations")).one()
    assert "Sport" not in str(row)
    assert (row.completed_by, row.origin, row.received_at) == (None, None, 2.0)


def test_the_annotations_of_a_task_are_ordered_by_id(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for annotation_id in (30, 4, 100):
            human_annotations.store(connection, dataclasses.replace(FIRST, annotation_id=annotation_id), 1.0)
        assert [annotation.annotation_id for annotation in Annotations(connection, "1.1").of_task(4)] == [
            4,
            30,
            100,
        ]


def test_every_task_that_was_ever_annotated_is_listed_once(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for annotation_id, task in ((1, 6), (2, 6), (3, 5), (4, None)):
            human_annotations.store(
                connection, dataclasses.replace(FIRST, annotation_id=annotation_id, task=task), 1.0
            )
        Annotations(connection, "1.1").delete([3], 2.0)
        assert Annotations(connection, "1.1").tasks() == [5, 6]
        assert Annotations(connection, "2.1").tasks() == []


def test_the_ids_of_deleted_annotations_are_not_listed(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for annotation_id in (30, 4, 100):
            annotation = dataclasses.replace(FIRST, annotation_id=annotation_id)
            human_annotations.store(connection, annotation, 1.0)
        Annotations(connection, "1.1").delete([4], 2.0)
        assert Annotations(connection, "1.1").ids() == {30, 100}
        assert Annotations(connection, "2.1").ids() == frozenset()
