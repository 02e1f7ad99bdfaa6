"""Rounds carried over to another label scheme: whole, once, and with sums that stay sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import migrated
import pytest
from blind_project import BlindProject
from label_studio_requests import Annotation, Project, annotated, task, tasks_deleted
from light_workers import predict
from old_ledger import AGE, NEW, OLD, PROJECT, at, label
from same_state import assert_same_state
from sqlalchemy import Engine, delete, event, insert, select, update
from whole_backend import Backend, votes

from backend import settings as settings_module
from backend.label_studio.payloads import parse_webhook
from backend.learning.carrying import Carrying, run_each
from backend.ledger import Ledger, deletions
from backend.ledger.blind_tasks import BlindQueue, BlindQueues
from backend.ledger.database import tables
from backend.ledger.events import ProjectEvents, StateKey, StateRecords
from backend.ledger.projects import Scheme, Schemes
from backend.ledger.rounds import QuestionRounds
from backend.upkeep import problems, prune
from camvo.state.contribution import Contribution
from camvo.state.state import State
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.relabelling import Relabelling

RENAMED = {"Glad": "Happy", "Sad": "Sad", "Calm": "Calm"}
LATER = "the-new-epoch"


@pytest.fixture
def folder(old_ledger_folder: Path) -> Path:
    return old_ledger_folder


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    with closing(Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")) as ledger:
        yield ledger


def carrying(ledger: Ledger, labels: Mapping[str, str | None], project: str = PROJECT) -> Carrying:
    with ledger.read() as connection:
        source = Schemes(connection, project).latest()["mood"].epoch
    options = tuple(dict.fromkeys(label for label in labels.values() if label is not None))
    scheme = Scheme("mood", LATER, Project().label_config, "", source, labels, 2.0)
    return Carrying(
        project, scheme, Relabelling(LABEL_VOTE, labels, options), settings_module.load(None), 2.0
    )


def run(ledger: Ledger, work: Carrying, transactions: int = 1000) -> None:
    """Run the first transactions."""
    left = iter(range(transactions))

    def write(transaction: Any) -> Any:
        if next(left, None) is None:
            raise InterruptedError
        with ledger.write() as connection:
            return transaction(connection)

    run_each(work.transactions(), write)


def state(ledger: Ledger, epoch: str, project: str = PROJECT) -> State:
    with ledger.read() as connection:
        base = StateRecords(connection, StateKey(project, "mood", epoch)).base()
        found = _events(connection, project, epoch)
    contributions = [Contribution.unpack(event.contribution) for event in found]
    sums = State(len(contributions[0].context)) if base is None else State.restore(base.state)
    sums.add(*contributions)
    return sums


def _events(connection: Any, project: str, epoch: str) -> list[Any]:
    return ProjectEvents(connection, project).after(0, control="mood", epoch=epoch)


def rounds(ledger: Ledger, epoch: str = LATER) -> list[int]:
    with ledger.read() as connection:
        return sorted(
            each.key.task for each in QuestionRounds(connection, PROJECT, "mood", epoch).after(0, 100)
        )


def sound(ledger: Ledger) -> bool:
    with ledger.read() as connection:
        return list(problems(connection, lambda _: None)) == []


def test_what_was_pruned_is_carried_over_as_its_sum(ledger: Ledger) -> None:
    prune(ledger, PROJECT, AGE, lambda_l=1.0, advance=lambda _: None)
    work = carrying(ledger, RENAMED)
    run(ledger, work)
    assert rounds(ledger) == [*OLD, *NEW]
    assert_same_state(state(ledger, LATER), state(ledger, str(work.scheme.source)).relabelled(RENAMED.get))
    assert sound(ledger)


@pytest.mark.parametrize("transactions", range(1, 5))
def test_what_was_interrupted_is_finished_by_the_next_run(ledger: Ledger, transactions: int) -> None:
    with pytest.raises(InterruptedError):
        run(ledger, carrying(ledger, RENAMED), transactions)
    with ledger.read() as connection:
        assert Schemes(connection, PROJECT).latest()["mood"].epoch != LATER
    work = carrying(ledger, RENAMED)
    run(ledger, work)
    assert rounds(ledger) == [*OLD, *NEW]
    assert_same_state(state(ledger, LATER), state(ledger, str(work.scheme.source)).relabelled(RENAMED.get))
    assert sound(ledger)


def test_two_processes_carry_each_round_once(ledger: Ledger) -> None:
    works = [carrying(ledger, RENAMED).transactions() for _ in range(2)]
    results: list[Any] = [None, None]
    while works:
        for place, work in enumerate(list(works)):
            try:
                with ledger.write() as connection:
                    results[place] = work.send(results[place])(connection)
            except StopIteration:
                works.remove(work)
    assert rounds(ledger) == [*OLD, *NEW]
    assert sound(ledger)
    with ledger.read() as connection:
        assert [scheme.epoch for scheme in Schemes(connection, PROJECT).all()].count(LATER) == 1


def test_what_a_deleted_task_taught_is_carried_over_too(ledger: Ledger, folder: Path) -> None:
    with at(0, folder) as runtime:
        runtime.learn(parse_webhook(tasks_deleted(3)))
    work = carrying(ledger, RENAMED)
    run(ledger, work)
    assert 3 not in rounds(ledger)
    assert_same_state(state(ledger, LATER), state(ledger, str(work.scheme.source)).relabelled(RENAMED.get))


@pytest.fixture
def corrected(ledger: Ledger, folder: Path) -> Ledger:
    """A ledger whose third round's event is folded, while the round was left whole and corrected later."""
    _set_blind(ledger, blind=True)
    prune(ledger, PROJECT, AGE, lambda_l=1.0, advance=lambda _: None)
    _set_blind(ledger, blind=False)
    with at(0, folder) as runtime:
        label(runtime, 3, "Calm")
    return ledger


def _set_blind(ledger: Ledger, *, blind: bool) -> None:
    """Let the third round wait for an answer, or not."""
    of = tables.rounds.c
    with ledger.write() as connection:
        connection.execute(update(tables.rounds).where(of.task == 3).values(audit=blind))
        [round_] = connection.execute(select(of.id, of.epoch).where(of.task == 3))
        row = {"project": PROJECT, "control": "mood", "epoch": round_.epoch, "task": 3, "round_id": round_.id}
        row |= {"cohort": 1, "place": 1, "score": 0.5, "counting": "", "verdicts": {}, "answers": ""}
        connection.execute(delete(tables.blind_tasks))
        connection.execute(insert(tables.blind_tasks), [row] if blind else [row | {"reward": 1.0}])


def test_a_correction_of_a_round_whose_event_was_pruned_is_carried_over(corrected: Ledger) -> None:
    work = carrying(corrected, RENAMED)
    run(corrected, work)
    before = state(corrected, str(work.scheme.source))
    assert_same_state(state(corrected, LATER), before.relabelled(RENAMED.get))
    assert sound(corrected)


def test_a_correction_of_a_round_whose_event_was_pruned_is_carried_over_with_it(corrected: Ledger) -> None:
    run(corrected, carrying(corrected, RENAMED))
    with corrected.read() as connection:
        [made] = [
            each.id
            for each in QuestionRounds(connection, PROJECT, "mood", LATER).after(0, 100)
            if each.key.task == 3
        ]
        found = [(each.round_id, each.kind) for each in _events(connection, PROJECT, LATER)]
    assert (made, "revision") in found


@pytest.mark.parametrize("transactions", range(1, 9))
def test_an_interrupted_run_carries_what_deleted_tasks_taught_once(
    ledger: Ledger, folder: Path, transactions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.learning.carrying._PORTION", 5)
    with at(0, folder) as runtime:
        runtime.learn(parse_webhook(tasks_deleted(3)))
        runtime.learn(parse_webhook(tasks_deleted(24)))
    with pytest.raises(InterruptedError):
        run(ledger, carrying(ledger, RENAMED), transactions)
    work = carrying(ledger, RENAMED)
    run(ledger, work)
    assert_same_state(state(ledger, LATER), state(ledger, str(work.scheme.source)).relabelled(RENAMED.get))


def test_rounds_that_finish_during_the_carry_are_carried_over(ledger: Ledger, folder: Path) -> None:
    work = carrying(ledger, RENAMED)
    with at(0, folder) as runtime:
        run_late = iter([lambda: predict(runtime, range(26, 28))])
        transactions = work.transactions()
        result = None
        with suppress(StopIteration):
            while True:
                transaction = transactions.send(result)
                if getattr(transaction, "func", None) == work._finish:
                    next(run_late)()
                with ledger.write() as connection:
                    result = transaction(connection)
    assert rounds(ledger) == [*OLD, *NEW, 26, 27]


def _further(ledger: Ledger, epoch: str) -> list[int]:
    """The tasks with a further vote on a round of an epoch."""
    of, vote = tables.rounds.c, tables.further_votes.c
    query = select(of.task).join(tables.further_votes, vote.round_id == of.id).where(of.epoch == epoch)
    with ledger.read() as connection:
        return sorted(connection.scalars(query))


def test_votes_that_were_asked_further_since_stay_when_labels_come_back(ledger: Ledger) -> None:
    work = carrying(ledger, RENAMED)
    source = str(work.scheme.source)
    run(ledger, work)
    with ledger.write() as connection:
        of = tables.rounds.c
        number = connection.scalars(select(of.id).where(of.task == 3, of.epoch == LATER)).one()
        vote = {"round_id": number, "model": "late", "project": PROJECT, "task": 3, "vote": "Happy"}
        rest = {"cost_usd": 0.1, "purpose": "doubt", "created_at": 2.0, "taught": False}
        connection.execute(insert(tables.further_votes), vote | rest)
    back = {"Happy": "Glad", "Sad": "Sad", "Calm": "Calm"}
    scheme = Scheme("mood", source, Project().label_config, "", LATER, back, 3.0)
    relabelling = Relabelling(LABEL_VOTE, back, ("Glad", "Sad", "Calm"))
    run(ledger, Carrying(PROJECT, scheme, relabelling, settings_module.load(None), 3.0))
    assert _further(ledger, source) == [3]


@contextmanager
def blind_project(folder: Path) -> Iterator[BlindProject]:
    """A project with blind tasks, of which people have labelled the first five."""
    with closing(Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")) as ledger:
        project = BlindProject(ledger)
        project.predict(["Glad", "Sad", "Odd"] * 20)
        project.answer(project.queue[:5], lambda task: "Sad")
        yield project


def queues(project: BlindProject, labels: Mapping[str, str | None]) -> tuple[BlindQueue, BlindQueue]:
    """The queue of blind tasks before and after a change of labels."""
    round_ = next(iter(project.rounds.values()))
    with project.ledger.write() as connection:
        scheme = Scheme(round_.key.control, round_.key.epoch, "<View/>")
        Schemes(connection, round_.key.project).append(scheme)
    options = tuple(dict.fromkeys(label for label in labels.values() if label is not None))
    later = Scheme(round_.key.control, LATER, "<View/>", "", round_.key.epoch, labels, 2.0)
    relabelling, settings = Relabelling(LABEL_VOTE, labels, options), settings_module.load(None)
    run(project.ledger, Carrying(round_.key.project, later, relabelling, settings, 2.0))
    with project.ledger.read() as connection:
        found = BlindQueues(connection, round_.key.project).all()
    return found[round_.key.control, round_.key.epoch], found[round_.key.control, LATER]


def blind(folder: Path, labels: Mapping[str, str | None]) -> tuple[list[Any], list[Any]]:
    """The same, as task, reward and score."""
    with blind_project(folder) as project:
        found = queues(project, labels)
    assert len(found[0].run) == len(found[1].run)
    before, after = ([(each.task, each.reward, each.score) for each in queue] for queue in found)
    return before, after


def test_the_label_of_a_deleted_blind_task_still_counts_as_wrong_under_other_labels(tmp_path: Path) -> None:
    migrated.sqlite(tmp_path / "ledger.sqlite")
    with blind_project(tmp_path) as project:
        [deleted, *_] = [task for task in project.queue[:5] if project.rounds[task].label != "Sad"]
        with project.ledger.write() as connection:
            deletions.mark_deleted(connection, project.rounds[1].key.project, [deleted], 2.0)
            deletions.forget_deleted(connection, project.rounds[1].key.project, [deleted])
        before, after = queues(project, RENAMED | {"Odd": "Odd"})
    assert [(each.task, each.reward) for each in after] == [(each.task, each.reward) for each in before]
    assert (deleted, 0.0) in [(each.task, each.reward) for each in after]


@pytest.mark.parametrize("gone", ["Glad", "Sad", "Odd"])
def test_a_cohort_stays_closed_whichever_of_its_tasks_is_asked_about_again(tmp_path: Path, gone: str) -> None:
    migrated.sqlite(tmp_path / "ledger.sqlite")
    with blind_project(tmp_path) as project:
        before, after = queues(project, {"Glad": "Glad", "Sad": "Sad", "Odd": "Odd"} | {gone: None})
    assert before.ends.keys() == after.ends.keys() == {1}


@pytest.mark.parametrize(
    "labels",
    [{"Glad": "Happy", "Sad": "Sad", "Odd": "Odd"}, {"Glad": "Some", "Sad": "Some", "Odd": "Odd"}],
)
def test_blind_labels_certify_what_they_did_and_no_more(
    tmp_path: Path, labels: dict[str, str | None]
) -> None:
    migrated.sqlite(tmp_path / "ledger.sqlite")
    before, after = blind(tmp_path, labels)
    assert before == after
    assert len(before) > 5


def test_blind_tasks_are_carried_over_in_one_statement(tmp_path: Path) -> None:
    migrated.sqlite(tmp_path / "ledger.sqlite")
    sizes: list[int] = []

    def note(_connection: Any, _cursor: Any, sql: str, values: Any, _context: Any, many: bool) -> None:
        if sql.startswith("INSERT INTO blind_tasks"):
            sizes.append(len(values) if many else 1)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        before, after = blind(tmp_path, {"Glad": "Happy", "Sad": "Sad", "Odd": "Odd"})
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert sizes[-1] == len(after) == len(before)


def test_a_label_of_an_edited_text_judges_no_carried_votes_on_the_text_before(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        for text in ("It rains.", "The sun is out."):
            backend.predict(task(1, text))
        backend.hook(annotated(Annotation(number=5, task=1, mood="Sad")))
        run(backend.ledger, carrying(backend.ledger, RENAMED, Project().key))
        carried = [round_ for round_ in backend.rounds(1) if round_.key.epoch == LATER]
        assert [round_.human for round_ in carried] == [None, "Sad"]
        assert [round_.taught for round_ in carried] == ["Happy", "Sad"]
