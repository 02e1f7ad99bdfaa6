"""Withdrawn human labels: the ledger is as if nobody had given them, and as before when they come back."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from label_studio_requests import Annotation, Project, annotated, annotations_deleted, task
from same_state import assert_same_state
from scripted_litellm import HashedTexts
from sqlalchemy import select
from whole_backend import Backend, prompt_of, says

from backend import settings as camvo_settings
from backend.commands.ledger import _withdraw
from backend.label_studio.payloads import parse_webhook
from backend.learning.actions import bounded, prepare_event
from backend.ledger import Ledger
from backend.ledger.database import tables
from backend.ledger.events import ProjectEvents
from backend.ledger.human_annotations import Withdrawal
from backend.ledger.rounds import ProjectRounds
from backend.testing import Reply
from camvo.state.contribution import Contribution
from camvo.state.state import State

TASKS = range(1, 7)
NOW = 1e10
"""Later than every annotation."""


def moody(body: dict[str, Any]) -> Reply:
    """Three models that disagree about rain."""
    rain = "rain" in prompt_of(body) and body["model"] == "blue"
    return says(mood="Sad" if rain else "Glad")


LOADED = camvo_settings.load(None)


@pytest.fixture(scope="module", params=["camvo", "joint"])
def of_policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a prediction for each task, and no annotation; one for each policy."""
    return predict(tmp_path_factory.mktemp("predicted"), request.param)


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a ledger."""
    return predict(tmp_path_factory.mktemp("predicted"), "camvo")


def predict(folder: Path, policy: str) -> Path:
    with Backend(folder, moody, policy={"name": policy}) as backend:
        for number in TASKS:
            backend.predict(task(number, f"Entry {number}{' about rain' if number % 2 else ''}."))
    return folder / "ledger.sqlite"


@contextmanager
def copied(predicted: Path) -> Iterator[Ledger]:
    with TemporaryDirectory() as folder:
        shutil.copy(predicted, folder)
        ledger = Ledger(f"sqlite:///{Path(folder) / predicted.name}")
        yield ledger
        ledger.close()


@dataclass(frozen=True)
class Saying:
    """What one person does with their annotation of one task."""

    who: int
    task: int
    mood: str
    how: str

    def webhook(self) -> dict[str, Any]:
        number = 100 * self.who + self.task
        if self.how == "delete":
            return annotations_deleted(number)
        return annotated(
            Annotation(
                number,
                self.task,
                self.mood,
                user=self.who,
                skipped=self.how == "skip",
                ground_truth=self.how == "truth",
                lead_time=None if self.how == "bulk" else 1.0,
                from_prediction=5 if self.how == "bulk" else None,
            )
        )


def hear(ledger: Ledger, sayings: Sequence[tuple[Saying, dict[str, Any]]], *, without: int = 0) -> None:
    post(ledger, *(webhook for saying, webhook in sayings if saying.who != without))


def post(ledger: Ledger, *webhooks: dict[str, Any]) -> None:
    with ledger.write() as connection:
        for webhook in webhooks:
            prepare_event(parse_webhook(webhook), LOADED, lambda: 1.0)(connection)


def forget(ledger: Ledger, **scope: Any) -> int:
    return _withdraw(ledger, Withdrawal(**scope), LOADED, lambda _: None)


def state(ledger: Ledger) -> State:
    with ledger.read() as connection:
        recorded = ProjectEvents(connection, Project().key).after(0)
    total = State(HashedTexts.dimension)
    total.add(*(Contribution.unpack(event.contribution) for event in recorded))
    return total


def taught(ledger: Ledger) -> list[Any]:
    """What people say about each round and each vote, and what the rounds teach."""
    with ledger.read() as connection:
        of_tasks = [ProjectRounds(connection, Project().key).of_task(number) for number in TASKS]
        votes = connection.execute(select(tables.votes.c.confirmed).order_by(*tables.votes.primary_key)).all()
    return [(r.human, r.confirmed, r.taught, r.taught_by) for of_task in of_tasks for r in of_task] + list(
        votes
    )


def assert_same(ledger: Ledger, expected: tuple[State, list[Any]]) -> None:
    assert taught(ledger) == expected[1]
    assert_same_state(state(ledger), expected[0])


_SAYING = st.builds(
    Saying,
    who=st.integers(1, 3),
    task=st.sampled_from(TASKS),
    mood=st.sampled_from(["Glad", "Sad", "Calm"]),
    how=st.sampled_from(["say", "say", "say", "truth", "skip", "bulk", "delete"]),
)


@settings(max_examples=8)
@given(said=st.lists(_SAYING, max_size=12), later=st.lists(_SAYING, max_size=4), whom=st.integers(1, 3))
def test_forgetting_a_person_is_as_if_they_had_never_labelled_and_undoing_restores_everything(
    of_policy: Path, said: list[Saying], later: list[Saying], whom: int
) -> None:
    first, second = ([(saying, saying.webhook()) for saying in part] for part in (said, later))
    with copied(of_policy) as ledger, copied(of_policy) as never, copied(of_policy) as always:
        hear(ledger, first)
        forget(ledger, annotator=whom, until=NOW)
        hear(never, first, without=whom)
        assert_same(ledger, (state(never), taught(never)))
        hear(ledger, second)  # webhooks that were under way: made before the command
        hear(never, second, without=whom)
        assert_same(ledger, (state(never), taught(never)))
        hear(always, [*first, *second])
        forget(ledger, annotator=whom, withdrawn=False)
        assert_same(ledger, (state(always), taught(always)))


@settings(max_examples=8)
@given(said=st.lists(_SAYING, max_size=12), stop=st.integers(0, 5))
def test_a_withdrawal_that_is_interrupted_is_completed_by_the_same_withdrawal(
    predicted: Path, said: list[Saying], stop: int
) -> None:
    """The process ends after some of the transactions, each of one task."""
    heard = [(saying, saying.webhook()) for saying in said]
    with copied(predicted) as ledger, copied(predicted) as never, pytest.MonkeyPatch.context() as patch:
        hear(ledger, heard)
        patch.setattr("backend.commands.ledger._TASKS_PER_TRANSACTION", 1)
        done = itertools.count(1)

        def advance(_: int) -> None:
            if next(done) > stop:
                raise KeyboardInterrupt

        whole = Withdrawal(project=Project().key, until=NOW)
        try:
            _withdraw(ledger, whole, LOADED, advance)
        except KeyboardInterrupt:
            forget(ledger, project=Project().key, until=NOW)
        assert_same(ledger, (state(never), taught(never)))
        assert forget(ledger, project=Project().key, until=NOW) == 0


def heard_by(ledger: Ledger, *annotations: Annotation) -> None:
    post(ledger, *map(annotated, annotations))


def humans(ledger: Ledger) -> Mapping[int, str | None]:
    """Task → the humans' label, of the tasks that have one."""
    with ledger.read() as connection:
        labels = {n: ProjectRounds(connection, Project().key).of_task(n)[0].human for n in TASKS}
    return {number: label for number, label in labels.items() if label is not None}


def said(task: int, mood: str = "Sad", *, user: int = 7, at: str = "2026-05-01T12:00:00Z") -> Annotation:
    return Annotation(100 * user + task, task, mood, user=user, updated=at)


MAY, JUNE = 1_777_636_800.0, 1_780_272_000.0
"""2026-05-01T12:00 and 2026-06-01, in UTC."""


def test_a_tie_that_ends_and_a_majority_that_turns(predicted: Path) -> None:
    with copied(predicted) as ledger:
        heard_by(ledger, said(1, "Sad"), said(1, "Calm", user=8))
        heard_by(ledger, said(2, "Sad"), said(2, "Sad", user=8), said(2, "Calm", user=9))
        assert humans(ledger) == {2: "Sad"}
        forget(ledger, annotator=7, until=NOW)
        assert humans(ledger) == {1: "Calm"}
        forget(ledger, annotator=8, until=NOW)
        assert humans(ledger) == {2: "Calm"}


def test_without_its_ground_truth_a_task_has_the_majority(predicted: Path) -> None:
    with copied(predicted) as ledger:
        truth = Annotation(1, 1, "Calm", ground_truth=True, user=7)
        heard_by(ledger, truth, said(1, "Sad", user=8))
        assert humans(ledger) == {1: "Calm"}
        forget(ledger, annotator=7, until=NOW)
        assert humans(ledger) == {1: "Sad"}


def test_labels_from_before_the_given_time_stay(predicted: Path) -> None:
    with copied(predicted) as ledger:
        heard_by(ledger, said(1), said(2, at="2026-06-01T00:00:00Z"))
        forget(ledger, annotator=7, since=JUNE, until=NOW)
        assert humans(ledger) == {1: "Sad"}


def test_labels_given_or_changed_after_the_command_count(predicted: Path) -> None:
    with copied(predicted) as ledger:
        heard_by(ledger, said(1), said(2))
        forget(ledger, annotator=7, until=MAY)
        assert humans(ledger) == {}
        heard_by(ledger, said(2, "Calm", at="2026-05-01T12:00:01Z"), said(3, at="2026-05-02T00:00:00Z"))
        assert humans(ledger) == {2: "Calm", 3: "Sad"}


def test_labels_from_before_the_command_that_arrive_later_do_not_count(predicted: Path) -> None:
    """START_TRAINING fetches annotations whose webhooks were lost."""
    with copied(predicted) as ledger:
        forget(ledger, annotator=7, until=MAY)
        heard_by(ledger, said(1), said(2, user=8))
        assert humans(ledger) == {2: "Sad"}
        forget(ledger, annotator=7, withdrawn=False)
        assert humans(ledger) == {1: "Sad", 2: "Sad"}


def test_labels_still_to_come_are_withdrawn_if_nothing_bounds_the_command(predicted: Path) -> None:
    with copied(predicted) as ledger:
        forget(ledger, project=Project().key)
        heard_by(ledger, said(1, at="2199-01-01T00:00:00Z"))
        assert humans(ledger) == {}


def test_the_last_command_that_covers_a_label_decides(predicted: Path) -> None:
    with copied(predicted) as ledger:
        heard_by(ledger, said(1), said(2), said(2, "Sad", user=8), said(3, user=8))
        forget(ledger, project=Project().key, until=NOW)
        assert humans(ledger) == {}
        forget(ledger, project=Project().key, task=2, withdrawn=False)
        assert humans(ledger) == {2: "Sad"}
        forget(ledger, annotator=7, withdrawn=False)
        assert humans(ledger) == {1: "Sad", 2: "Sad"}
        forget(ledger, project="another", until=NOW)
        assert humans(ledger) == {1: "Sad", 2: "Sad"}


def test_a_withdrawn_annotation_that_is_deleted_does_not_come_back(predicted: Path) -> None:
    with copied(predicted) as ledger:
        heard_by(ledger, said(1))
        forget(ledger, annotator=7, until=NOW)
        post(ledger, annotations_deleted(701))
        forget(ledger, annotator=7, withdrawn=False)
        assert humans(ledger) == {}


def test_a_withdrawal_ends_at_the_latest_label_that_it_covers_if_label_studios_clock_is_ahead(
    predicted: Path,
) -> None:
    with copied(predicted) as ledger:
        heard_by(ledger, said(1))
        with ledger.read() as connection:
            assert bounded(connection, Withdrawal(annotator=7, created_at=5.0)).until == MAY
            assert bounded(connection, Withdrawal(annotator=7, created_at=JUNE)).until == JUNE
