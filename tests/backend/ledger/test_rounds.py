from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from backend.errors import LedgerError
from backend.ledger import Ledger, rounds
from backend.ledger.rounds import ProjectRounds, QuestionRounds, Round, RoundKey
from camvo.student import hashed_ngrams, sealed

KEY = RoundKey("1.1", 4, "topic", "hash", "e")


def a_round(key: RoundKey = KEY, **changes: Any) -> Round:
    round_ = Round(
        key=key,
        plan={"arms": {"small": {"q": 0.25}}, "subset": ["small"]},
        votes={"small": "Sport", "large": None},
        label="Sport",
        score=0.1 + 0.2,
        cost_usd=1e-5,
        full_cost_usd=3e-4,
        audit=False,
        taught="Sport",
        taught_by="vote",
        context=np.array([0.6, -0.8], dtype=np.float32).astype(np.float64),
        created_at=12.5,
    )
    return dataclasses.replace(round_, **changes)


def fields(round_: Round) -> dict[str, Any]:
    return {name: getattr(round_, name) for name in Round.__slots__ if name not in {"context", "id"}}


def test_a_round_reads_back_as_it_was_stored(ledger: Ledger) -> None:
    stored = a_round()
    with ledger.write() as connection:
        round_id = rounds.insert_each(connection, [stored])[0]
    with ledger.read() as connection:
        read_back = rounds.find_by_key(connection, [KEY])[KEY]
    assert fields(read_back) == fields(stored)
    assert read_back.id == round_id
    assert read_back.context.dtype == np.float64
    assert read_back.context.tolist() == stored.context.tolist()


def test_a_context_that_float32_cannot_hold_loses_nothing(ledger: Ledger) -> None:
    context = np.array([0.1, 1 / 3, 1e-300])
    with ledger.write() as connection:
        rounds.insert_each(connection, [a_round(context=context)])[0]
        assert rounds.find_by_key(connection, [KEY])[KEY].context.tolist() == context.tolist()


def test_a_round_without_rewards_reads_back(ledger: Ledger) -> None:
    with ledger.write() as connection:
        rounds.insert_each(connection, [a_round(taught=None, taught_by=None)])[0]
        read_back = rounds.find_by_key(connection, [KEY])[KEY]
    assert (read_back.taught, read_back.taught_by) == (None, None)


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(KEY, project="2.1"),
        dataclasses.replace(KEY, task=5),
        dataclasses.replace(KEY, control="mood"),
        dataclasses.replace(KEY, question="edited"),
        dataclasses.replace(KEY, epoch="f"),
    ],
)
def test_rounds_whose_keys_differ_in_one_field_are_different_rounds(ledger: Ledger, other: RoundKey) -> None:
    with ledger.write() as connection:
        rounds.insert_each(connection, [a_round()])[0]
        assert rounds.find_by_key(connection, [other]) == {}
        rounds.insert_each(connection, [a_round(other)])[0]
        assert set(rounds.find_by_key(connection, [KEY, other])) == {KEY, other}


def test_a_second_round_under_the_same_key_is_refused(ledger: Ledger) -> None:
    with ledger.write() as connection:
        rounds.insert_each(connection, [a_round()])[0]
        with pytest.raises(LedgerError, match="already holds this round"):
            rounds.insert_each(connection, [a_round(label="Politics")])[0]
        assert rounds.find_by_key(connection, [KEY])[KEY].label == "Sport"


def test_many_keys_can_be_looked_up_at_once(ledger: Ledger) -> None:
    keys = [dataclasses.replace(KEY, project=f"{task % 2}.1", task=task) for task in range(1200)]
    with ledger.write() as connection:
        for key in keys[::100]:
            rounds.insert_each(connection, [a_round(key)])[0]
        assert set(rounds.find_by_key(connection, keys)) == set(keys[::100])


def test_the_rounds_of_a_task_come_oldest_first(ledger: Ledger) -> None:
    keys = [dataclasses.replace(KEY, epoch=epoch) for epoch in "zay"]
    with ledger.write() as connection:
        for key in [*keys, dataclasses.replace(KEY, task=5)]:
            rounds.insert_each(connection, [a_round(key)])[0]
        assert [round_.key for round_ in ProjectRounds(connection, "1.1").of_task(4)] == keys


def test_the_taught_label_can_change(ledger: Ledger) -> None:
    with ledger.write() as connection:
        round_id = rounds.insert_each(connection, [a_round()])[0]
        rounds.insert_each(connection, [a_round(dataclasses.replace(KEY, task=5))])[0]
        rounds.set_taught(connection, round_id, "Politics", "human")
        [changed], [unchanged] = (ProjectRounds(connection, "1.1").of_task(task) for task in (4, 5))
    assert (changed.taught, changed.taught_by) == ("Politics", "human")
    assert (unchanged.taught, unchanged.taught_by) == ("Sport", "vote")


def test_forgetting_a_task_deletes_its_rounds_only(ledger: Ledger) -> None:
    with ledger.write() as connection:
        rounds.insert_each(connection, [a_round()])[0]
        rounds.insert_each(connection, [a_round(dataclasses.replace(KEY, control="mood"))])[0]
        others = [dataclasses.replace(KEY, task=5), dataclasses.replace(KEY, project="2.1")]
        for other in others:
            rounds.insert_each(connection, [a_round(other)])[0]
        assert ProjectRounds(connection, "1.1").forget([4]) == 2
        assert set(rounds.find_by_key(connection, [KEY, *others])) == set(others)


def test_the_id_of_a_deleted_round_is_never_reused(ledger: Ledger) -> None:
    with ledger.write() as connection:
        first = rounds.insert_each(connection, [a_round()])[0]
        ProjectRounds(connection, "1.1").forget([4])
        assert rounds.insert_each(connection, [a_round()])[0] > first


def test_sealed_n_grams_do_not_come_back(ledger: Ledger) -> None:
    ngrams = hashed_ngrams("The soup was cold")
    plan = {**a_round().plan, "studied": ["Sport"]}
    stored = [
        a_round(dataclasses.replace(KEY, task=task), text=text, plan=plan)
        for task, text in ((4, ngrams), (5, b""), (6, ngrams))
    ]
    with ledger.write() as connection:
        rounds.insert_each(connection, stored)
        assert ProjectRounds(connection, KEY.project).tasks_with_texts([4, 5, 7]) == [4]
        rounds.seal_texts(connection, ProjectRounds(connection, KEY.project).with_texts([4, 5, 7]))
    with ledger.read() as connection:
        found = {task: ProjectRounds(connection, KEY.project).of_task(task)[0] for task in (4, 5, 6)}
    assert {task: round_.text for task, round_ in found.items()} == {4: sealed(ngrams), 5: b"", 6: ngrams}
    assert all(round_.context.tolist() == stored[0].context.tolist() for round_ in found.values())


def test_incomplete_tasks_are_counted_once_in_all_and_by_model_and_reason(ledger: Ledger) -> None:
    lacking = [
        (1, "topic", {"large": "model_timeout"}),
        (1, "mood", {"large": "model_timeout", "small": "model_unavailable"}),
        (2, "topic", {"large": "model_unavailable"}),
        (3, "topic", None),
    ]
    with ledger.write() as connection:
        rounds.insert_each(
            connection,
            [
                a_round(dataclasses.replace(KEY, task=task, control=control), missing=missing)
                for task, control, missing in lacking
            ],
        )
        incomplete = rounds.IncompleteRounds(connection, KEY.project).count()
    assert incomplete.tasks == 2
    assert incomplete.arms == {
        "large": {"model_timeout": 1, "model_unavailable": 1},
        "small": {"model_unavailable": 1},
    }


def test_a_round_whose_votes_led_to_a_spared_arm_is_none_that_asked_every_arm_by_a_draw(
    ledger: Ledger,
) -> None:
    def drawn(first: int, task: int) -> Round:
        stages = {"coin": "everyone", "order": ["small", "large"], "first": first}
        return a_round(dataclasses.replace(KEY, task=task), plan={"stages": stages})

    with ledger.write() as connection:
        rounds.insert_each(connection, [drawn(first=2, task=1), drawn(first=1, task=2)])
        of_question = QuestionRounds(connection, KEY.project, KEY.control, KEY.epoch)
        assert len(of_question.everyone_votes({"small", "large"}, 10)) == 1


def test_a_pruned_round_is_not_incomplete_since_no_model_can_be_asked_for_it(ledger: Ledger) -> None:
    missing = {"blue": "model_unavailable"}
    other = dataclasses.replace(KEY, task=5)
    with ledger.write() as connection:
        rounds.insert_each(
            connection, [a_round(missing=missing, pruned=True), a_round(other, missing=missing)]
        )
        incomplete = rounds.IncompleteRounds(connection, KEY.project)
        assert incomplete.count().tasks == 1
        assert incomplete.tasks() == [other.task]


@pytest.mark.parametrize("changed", ["question", "epoch"])
def test_a_round_that_a_later_one_has_replaced_is_not_incomplete(ledger: Ledger, changed: str) -> None:
    """The text, or what is asked, has changed: its vote would be one on what was shown before."""
    later = dataclasses.replace(KEY, **{changed: "other"})
    with ledger.write() as connection:
        rounds.insert_each(connection, [a_round(missing={"blue": "model_timeout"})])
        rounds.insert_each(connection, [a_round(later)])
        incomplete = rounds.IncompleteRounds(connection, KEY.project)
        assert incomplete.count().tasks == 0
        assert incomplete.tasks() == []
