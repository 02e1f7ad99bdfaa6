"""The rounds that wait for a human label, on both databases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stored_rounds import PROJECT, a_key, a_round

from backend.ledger import Ledger, human_annotations, rounds
from backend.ledger.human_annotations import Annotation, Annotations
from backend.ledger.recounts import CountedRounds
from backend.ledger.reports import ProjectSums
from backend.ledger.rounds import ProjectRounds


def store(ledger: Ledger, task: int, *, control: str = "mood", epoch: str = "e1", **changes: Any) -> int:
    key = a_key(task, control=control, question=changes.pop("question", "hash"), epoch=epoch)
    votes, context = {"red": "Glad", "green": None}, np.array([float(task), 1.0])
    fields = {"votes": votes, "score": 0.7, "taught": "Glad", "taught_by": "vote", "context": context}
    with ledger.write() as connection:
        return rounds.insert_each(connection, [a_round(key, **{**fields, **changes})])[0]


def annotate(ledger: Ledger, number: int, task: int, *, teaches: bool = True) -> None:
    annotation = Annotation(PROJECT, number, task, "2026-11-21T10:00:00Z", {}, teaches=teaches)
    with ledger.write() as connection:
        human_annotations.store(connection, annotation, 1.0)


def open_tasks(ledger: Ledger, control: str = "mood", epoch: str = "e1") -> list[int]:
    with ledger.read() as connection:
        return [round_.task for round_ in CountedRounds(connection, PROJECT, control, epoch).open()]


@pytest.mark.parametrize("teaches", [True, False], ids=["annotated", "skipped"])
def test_an_annotated_or_skipped_task_is_not_open(ledger: Ledger, teaches: bool) -> None:
    store(ledger, 1)
    store(ledger, 2)
    annotate(ledger, 11, task=1, teaches=teaches)
    assert open_tasks(ledger) == [2]


def test_a_task_whose_annotation_was_deleted_is_open_again(ledger: Ledger) -> None:
    store(ledger, 1)
    annotate(ledger, 11, task=1)
    with ledger.write() as connection:
        Annotations(connection, PROJECT).delete([11], 2.0)
    assert open_tasks(ledger) == [1]


def test_the_tombstone_of_an_unknown_annotation_hides_no_open_task(ledger: Ledger) -> None:
    """Its task is NULL, and SQL's NOT IN is never true if the list contains NULL."""
    store(ledger, 1)
    with ledger.write() as connection:
        Annotations(connection, PROJECT).delete([99], 2.0)
    assert open_tasks(ledger) == [1]


def test_blind_tasks_are_counted_but_not_listed(ledger: Ledger) -> None:
    store(ledger, 1, audit=True)
    store(ledger, 2, audit=True)
    annotate(ledger, 11, task=2)
    with ledger.read() as connection:
        assert ProjectSums(connection, PROJECT).count_blind_tasks() == 1
    assert open_tasks(ledger) == []


def test_only_the_latest_round_of_an_edited_task_is_listed(ledger: Ledger) -> None:
    store(ledger, 1)
    latest = store(ledger, 1, question="edited")
    with ledger.read() as connection:
        listed = CountedRounds(connection, PROJECT, "mood", "e1").open()
    assert [round_.id for round_ in listed] == [latest]


def test_the_latest_epoch_of_a_control_is_that_of_its_latest_round(ledger: Ledger) -> None:
    store(ledger, 1)
    store(ledger, 1, control="topic", epoch="e7")
    store(ledger, 2, epoch="e2")
    with ledger.read() as connection:
        assert ProjectRounds(connection, PROJECT).latest_epochs() == {"mood": "e2", "topic": "e7"}


def test_contexts_come_in_the_order_of_the_ids(ledger: Ledger) -> None:
    numbers = [store(ledger, task) for task in (1, 2, 3)]
    with ledger.read() as connection:
        contexts = rounds.contexts(connection, [numbers[2], numbers[0]])
    assert [context.tolist() for context in contexts] == [[3.0, 1.0], [1.0, 1.0]]


def test_rounds_with_a_human_label_are_listed_as_labelled(ledger: Ledger) -> None:
    store(ledger, 1)
    known = store(ledger, 2, human="Sad", confirmed=0.0)
    with ledger.read() as connection:
        assert CountedRounds(connection, PROJECT, "mood", "e1").labelled_ids() == [known]
