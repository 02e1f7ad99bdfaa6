"""The sums of the reports compared with sums in plain Python over the same rows, on both databases."""

from __future__ import annotations

import dataclasses
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import migrated
import numpy as np
import pytest
import stored_rounds
from ledger_workers import delete_task
from reservations import reserve

from backend.errors import Usage
from backend.ledger import Ledger, human_annotations, money, reports, rounds
from backend.ledger import rounds as votes
from backend.ledger.database import tables
from backend.ledger.human_annotations import Annotation, Annotations
from backend.ledger.missing_votes import recent_outcomes
from backend.ledger.reports import ProjectSums, QuestionSums
from backend.ledger.rounds import ProjectRounds, Round, RoundKey

PROJECT, OTHER = "7.100", "8.100"
ARMS = ("red", "green", "blue")
FAILURES = (None, None, None, "model_timeout", "model_unavailable", "withdrawn")


@dataclasses.dataclass
class Filled:
    """A ledger with random rounds and calls, and the same data in lists."""

    ledger: Ledger
    rounds: list[Round]
    calls: list[dict[str, Any]]

    def read(self, query: Any, *arguments: Any) -> Any:
        with self.ledger.read() as connection:
            return query(ProjectSums(connection, PROJECT), *arguments)

    def count_tasks(self) -> int:
        with self.ledger.read() as connection:
            return ProjectRounds(connection, PROJECT).count_tasks()

    def read_question(self, query: Any, control: str, epoch: str, *arguments: Any) -> Any:
        with self.ledger.read() as connection:
            return query(QuestionSums(connection, PROJECT, control, epoch), *arguments)


def a_round(chance: random.Random, task: int, project: str) -> Round:
    votes_cast = {arm: chance.choice(["Glad", "Sad", None]) for arm in ARMS if chance.random() < 0.8}
    human = chance.choice([None, "Glad", "Sad"])
    return Round(
        key=RoundKey(project, task, chance.choice(["mood", "topic"]), "hash", chance.choice(["e1", "e2"])),
        plan={"arms": {}},
        votes=votes_cast or {"red": "Glad"},
        label="Glad",
        score=chance.choice([0.0, 0.1, 0.3, 0.7, 0.95, 1.0, chance.random()]),
        cost_usd=chance.random(),
        full_cost_usd=1.0 + chance.random(),
        audit=chance.random() < 0.3,
        taught="Glad",
        taught_by="vote",
        context=np.zeros(2),
        created_at=(ended_at := chance.random()),
        planned_at=ended_at,
        human=human,
        confirmed=None if human is None else float(human == "Glad"),
    )


def agreement(round_: Round) -> dict[str, float]:
    rewards = {arm: float(vote == round_.label) for arm, vote in round_.votes.items() if vote is not None}
    return rewards if len(rewards) > 1 else {}


def confirmed(round_: Round) -> dict[str, float]:
    if round_.human is None:
        return {}
    return {arm: float(vote == round_.human) for arm, vote in round_.votes.items() if vote is not None}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """One ledger for all tests, which only read it."""
    if request.param == "sqlite":
        url = migrated.sqlite(tmp_path_factory.mktemp("reports") / "ledger.sqlite")
    else:
        url = request.getfixturevalue("migrated_postgres_url")()
    ledger = Ledger(url)
    chance = random.Random(5)  # noqa: S311 - not a secret
    stored: list[Round] = []
    calls: list[dict[str, Any]] = []
    with ledger.write() as connection:
        for task in range(150):
            project = OTHER if task % 10 == 0 else PROJECT
            round_ = a_round(chance, task, project)
            number = rounds.insert_each(connection, [round_])[0]
            votes.add_votes(
                connection,
                votes.vote_rows_of(
                    round_,
                    number,
                    agreed=agreement(round_),
                    confirmed=confirmed(round_),
                    examples={},
                ),
            )
            if project == PROJECT:
                stored.append(round_)
            for arm in round_.votes:
                call = {
                    "model": arm,
                    "code": chance.choice(FAILURES),
                    "usd": chance.randrange(1000) / 1e6,
                    "seconds": chance.random(),
                    "open": chance.random() < 0.05,
                }
                _call(connection, project, task, call)
                if project == PROJECT:
                    calls.append(call)
    yield Filled(ledger, stored, calls)
    ledger.close()


def _call(connection: Any, project: str, task: int, call: dict[str, Any]) -> None:
    number = reserve(
        connection, project, task, model=call["model"], counted_tokens=1, seconds=call.get("expires", 10.0)
    )
    if not call["open"]:
        usage = Usage(1, 1, call["usd"])
        cost = money.CallCost(number, usage, call["code"], call["seconds"])
        money.settle_each(connection, [cost])


def test_rounds_are_summed_by_question_epoch_and_audit(filled: Filled) -> None:
    groups: dict[tuple[str, str, bool], list[Round]] = defaultdict(list)
    for round_ in filled.rounds:
        groups[round_.key.control, round_.key.epoch, round_.audit].append(round_)
    rows = filled.read(ProjectSums.rounds)
    assert [(row.control, row.epoch, row.audit) for row in rows] == sorted(groups)
    for row in rows:
        group = groups[row.control, row.epoch, row.audit]
        checked = [round_.confirmed for round_ in group if round_.confirmed is not None]
        assert (row.rounds, row.checked, row.confirmed) == (len(group), len(checked), sum(checked))
        assert row.cost_usd == pytest.approx(sum(round_.cost_usd for round_ in group))
        assert row.full_cost_usd == pytest.approx(sum(round_.full_cost_usd for round_ in group))
        assert row.last_at == max(round_.created_at for round_ in group)


def test_scores_are_binned_as_plain_python_bins_them(filled: Filled) -> None:
    groups: dict[tuple[bool, int], list[Round]] = defaultdict(list)
    for round_ in filled.rounds:
        if round_.confirmed is not None:
            groups[round_.audit, sum(round_.score >= k / 10 for k in range(1, 10))].append(round_)
    rows = filled.read(ProjectSums.scores)
    assert [(row.audit, row.bin) for row in rows] == sorted(groups)
    for row in rows:
        group = groups[row.audit, row.bin]
        assert row.rounds == len(group)
        assert row.score == pytest.approx(sum(round_.score for round_ in group))
        assert row.confirmed == sum(round_.confirmed or 0.0 for round_ in group)


def test_labels_are_counted_by_question_from_a_score_on_up_to_a_round(filled: Filled) -> None:
    groups = defaultdict(list)
    for round_ in filled.rounds:
        number = round_.key.task + 1  # the tasks were stored in their order
        groups[round_.key.control, round_.key.epoch].append((number, round_.score))
    for (control, epoch), labels in groups.items():
        for score, through in [(0.0, None), (0.7, None), (0.3, labels[len(labels) // 2][0])]:
            expected = sum(s >= score and (through is None or number <= through) for number, s in labels)
            assert filled.read_question(QuestionSums.count, control, epoch, score, through) == expected


def test_votes_are_summed_by_model_and_audit(filled: Filled) -> None:
    expected: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    for round_ in filled.rounds:
        agreed, right = agreement(round_), confirmed(round_)
        for arm, vote in round_.votes.items():
            expected[arm, round_.audit] += Counter(
                asked=1,
                voted=int(vote is not None),
                compared=int(arm in agreed),
                agreed=int(agreed.get(arm, 0)),
                checked=int(arm in right),
                confirmed=int(right.get(arm, 0)),
            )
    rows = filled.read(ProjectSums.votes)
    assert [(row.model, row.audit) for row in rows] == sorted(expected)
    for row in rows:
        counted = expected[row.model, row.audit]
        assert {name: getattr(row, name) for name in counted} == counted


def test_calls_are_summed_by_model_and_outcome(filled: Filled) -> None:
    expected: dict[tuple[str, bool, str | None], list[float]] = defaultdict(list)
    for call in filled.calls:
        if call["code"] == "withdrawn" and not call["open"]:
            continue  # it was never sent
        key = (call["model"], call["open"], None if call["open"] else call["code"])
        expected[key].append(0.0 if call["open"] else call["usd"])
    sums = {
        (row.model, row.under_way, row.failure): (row.calls, row.cost_usd)
        for row in filled.read(ProjectSums.calls)
    }
    assert sums == {key: (len(usd), pytest.approx(sum(usd))) for key, usd in expected.items()}


def test_a_lost_call_is_reported_as_lost(ledger: Ledger) -> None:
    with ledger.write() as connection:
        _call(connection, PROJECT, 1, {"model": "red", "open": True, "expires": -1.0})
        money.expire(connection)
        (row,) = ProjectSums(connection, PROJECT).calls()
        counted = money.lost_calls(connection, PROJECT)
    assert (row.failure, row.calls, row.cost_usd) == (reports.LOST, 1, 0.5)
    assert counted == (1, 0.5, 0.5)


@pytest.mark.parametrize("quantile", [0.01, 0.5, 0.95, 1.0])
def test_a_quantile_of_the_durations_is_the_one_of_that_rank(filled: Filled, quantile: float) -> None:
    for arm in ARMS:
        times = sorted(
            call["seconds"]
            for call in filled.calls
            if call["model"] == arm and not call["open"] and call["code"] is None
        )
        rank = math.ceil(quantile * len(times))
        assert filled.read(ProjectSums.answer_seconds, arm, quantile) == times[rank - 1]


def test_deleted_annotations_are_not_counted(ledger: Ledger) -> None:
    def annotation(number: int, task: int, **changes: Any) -> Annotation:
        return Annotation(PROJECT, number, task, f"2026-03-01T09:00:{number:02}Z", {"mood": "Sad"}, **changes)

    with ledger.write() as connection:
        for human, now in (
            (annotation(1, 4), 1.0),
            (annotation(2, 4, ground_truth=True), 2.0),
            (annotation(3, 5, teaches=False), 7.0),
            (annotation(4, 6), 9.0),
        ):
            human_annotations.store(connection, human, now)
        Annotations(connection, PROJECT).delete([4], 10.0)
        counts = ProjectSums(connection, PROJECT).humans()
    assert counts == reports.HumansRow(
        annotations=3, teaching=1, tasks=1, ground_truths=1, withdrawn=0, last_at=7.0
    )


@pytest.mark.parametrize(("truth", "teaching"), [({}, 1), ({"withdrawn": True}, 2), ({"teaches": False}, 2)])
def test_annotations_that_a_ground_truth_overrules_do_not_teach(
    ledger: Ledger, truth: dict[str, bool], teaching: int
) -> None:
    by = {1: {}, 2: {}, 3: {"ground_truth": True, **truth}}
    with ledger.write() as connection:
        for number, changes in by.items():
            said = Annotation(PROJECT, number, 4, "2026-03-02T09:00:00Z", {"mood": "Sad"}, **changes)
            human_annotations.store(connection, said, 1.0)
        if truth.get("withdrawn"):
            update = tables.human_annotations.update().where(tables.human_annotations.c.annotation_id == 3)
            connection.execute(update.values(withdrawn=True))
        counts = ProjectSums(connection, PROJECT).humans()
    assert (counts.annotations, counts.teaching) == (3, teaching)


def test_a_task_on_which_people_are_tied_is_one_that_people_labelled(ledger: Ledger) -> None:
    chance = random.Random(1)  # noqa: S311 - not a secret
    with ledger.write() as connection:
        rounds.insert_each(connection, [dataclasses.replace(a_round(chance, 4, PROJECT), human=None)])
        for number, mood in ((1, "Sad"), (2, "Glad")):
            said = Annotation(PROJECT, number, 4, "2026-03-02T09:00:00Z", {"mood": mood})
            human_annotations.store(connection, said, 1.0)
        counts = ProjectSums(connection, PROJECT).humans()
    assert (counts.tasks, counts.teaching) == (1, 0)


def test_an_unknown_project_has_empty_reports(filled: Filled) -> None:
    with filled.ledger.read() as connection:
        for query in (ProjectSums.rounds, ProjectSums.scores, ProjectSums.votes, ProjectSums.calls):
            assert query(ProjectSums(connection, "9.9")) == []
        assert ProjectSums(connection, "9.9").humans() == reports.HumansRow(0, 0, 0, 0, 0, None)


def test_deleting_a_task_deletes_its_votes(ledger: Ledger) -> None:
    chance = random.Random(6)  # noqa: S311 - not a secret
    both = [a_round(chance, task, PROJECT) for task in (1, 2)]
    with ledger.write() as connection:
        for round_ in both:
            number = rounds.insert_each(connection, [round_])[0]
            votes.add_votes(
                connection, votes.vote_rows_of(round_, number, agreed={}, confirmed={}, examples={})
            )
        delete_task(connection, PROJECT, 1)
        assert sum(row.asked for row in ProjectSums(connection, PROJECT).votes()) == len(both[1].votes)


# -- single labels, as the status page shows them


def of_question(filled: Filled, control: str = "mood", epoch: str = "e1") -> list[Round]:
    listed = [
        round_ for round_ in filled.rounds if (round_.key.control, round_.key.epoch) == (control, epoch)
    ]
    return sorted(listed, key=lambda round_: round_.created_at)


def test_labels_are_counted_by_the_hundredth_of_their_score(filled: Filled) -> None:
    expected = Counter(min(int(round_.score * 100), 99) for round_ in of_question(filled))
    counts = filled.read_question(QuestionSums.scores, "mood", "e1")
    assert {place: count for place, count in enumerate(counts) if count} == dict(expected)


def test_checked_labels_come_in_the_order_of_their_prediction(filled: Filled) -> None:
    expected = [
        (round_.audit, round_.score, round_.confirmed)
        for round_ in of_question(filled)
        if round_.confirmed is not None
    ]
    found = filled.read_question(QuestionSums.checked, "mood", "e1")
    assert [(row.audit, row.score, row.confirmed) for row in found] == expected


def test_blocks_follow_the_order_in_which_tasks_were_begun_not_ended(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "_LEAST_IN_BLOCK", 1)
    ended_first = dataclasses.replace(
        stored_rounds.a_round(stored_rounds.a_key(1)), cost_usd=1.0, created_at=10.0, planned_at=2.0
    )
    ended_last = dataclasses.replace(
        stored_rounds.a_round(stored_rounds.a_key(2)), cost_usd=2.0, created_at=20.0, planned_at=1.0
    )
    key = ended_last.key
    with ledger.write() as connection:
        rounds.insert_each(connection, [ended_first, ended_last])
    with ledger.read() as connection:
        blocks = QuestionSums(connection, key.project, key.control, key.epoch).blocks()
    assert [block.cost_usd for block in blocks] == [2.0, 1.0]


def test_blocks_expect_no_cost_of_rounds_that_were_carried_over(ledger: Ledger) -> None:
    asked = stored_rounds.a_round(stored_rounds.a_key(1), cost_usd=1.0, full_cost_usd=2.0)
    carried = stored_rounds.a_round(stored_rounds.a_key(2), cost_usd=0.0, full_cost_usd=2.0, carried_from=1)
    with ledger.write() as connection:
        rounds.insert_each(connection, [asked, carried])
    with ledger.read() as connection:
        [block] = QuestionSums(connection, asked.key.project, asked.key.control, asked.key.epoch).blocks()
    assert (block.rounds, block.cost_usd, block.every_model_usd) == (2, 1.0, 2.0)


def test_small_projects_have_few_blocks(filled: Filled) -> None:
    assert len(of_question(filled)) < 2 * reports._LEAST_IN_BLOCK
    assert len(filled.read_question(QuestionSums.blocks, "mood", "e1")) == 1


def test_blocks_of_the_same_size_sum_to_the_whole_in_the_order_of_time(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "_LEAST_IN_BLOCK", 5)
    listed = of_question(filled)
    blocks = filled.read_question(QuestionSums.blocks, "mood", "e1")
    assert len(blocks) == min(reports._BLOCKS, len(listed) // 5)
    assert max(block.rounds for block in blocks) - min(block.rounds for block in blocks) <= 1
    first = listed[: blocks[0].rounds]
    assert blocks[0].cost_usd == pytest.approx(sum(round_.cost_usd for round_ in first))
    assert blocks[0].last_at == first[-1].created_at
    assert sum(block.checked for block in blocks) == sum(round_.confirmed is not None for round_ in listed)
    assert sum(block.right for block in blocks) == pytest.approx(
        sum(round_.confirmed or 0.0 for round_ in listed)
    )


def test_tasks_are_counted_once_and_by_epoch(filled: Filled) -> None:
    assert filled.count_tasks() == len({round_.key.task for round_ in filled.rounds})
    current = {"mood": "e1", "topic": "e2"}
    expected = {
        round_.key.task for round_ in filled.rounds if current[round_.key.control] == round_.key.epoch
    }
    assert filled.read(ProjectSums.labelled_tasks, current) == len(expected)
    assert filled.read(ProjectSums.labelled_tasks, {}) == 0


def test_judged_labels_have_the_vote_and_the_human_label(filled: Filled) -> None:
    expected = {
        (round_.key.task, round_.label, round_.human, round_.score, round_.confirmed)
        for round_ in of_question(filled)
        if round_.human is not None
    }
    found = filled.read_question(QuestionSums.judged, "mood", "e1", lambda label, human: 0.5)
    assert {(row.task, row.label, row.human, row.score, row.confirmed) for row in found} == expected
    assert filled.read_question(QuestionSums.latest_labels, "mood", "e1") == {
        "Glad": len(of_question(filled))
    }


def test_the_latest_outcomes_of_each_model_come_first(filled: Filled) -> None:
    with filled.ledger.read() as connection:
        outcomes = recent_outcomes(connection)
    for arm in ARMS:
        finished = [
            call["code"]
            for call in filled.calls
            if call["model"] == arm and not call["open"] and call["code"] != "withdrawn"
        ]
        assert [outcome.code for outcome in outcomes[PROJECT, arm]] == finished[::-1]
