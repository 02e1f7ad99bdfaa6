"""Human labels go by how often each annotator is right, and what was taught by old weights is revised."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import SENTIMENT, Annotation, Project, annotated, annotations_deleted, task
from sqlalchemy import Connection
from whole_backend import Backend, votes

from backend.label_studio.payloads import WebhookEvent
from backend.learning.annotators import ReliabilityFits
from backend.ledger import Writer
from backend.ledger.human_annotations import Annotations
from backend.ledger.learning_data import Reliabilities, StoredReliabilities

GOOD, CAREFUL, GUESSER = 1, 2, 3
TASKS = range(1, 13)
SPLIT = 13
"""The task on which the good annotator and the guesser differ."""


def backend_in(folder: Path) -> Backend:
    return Backend(folder, votes(red="Glad", green="Glad", blue="Sad"), human_rewards=True)


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger of a backend that has predicted all tasks, which tests copy."""
    folder = tmp_path_factory.mktemp("predicted")
    with backend_in(folder) as backend:
        backend.predict(*(task(number) for number in (*TASKS, SPLIT)))
    return folder / "ledger.sqlite"


@pytest.fixture
def backend(predicted: Path, tmp_path: Path) -> Iterator[Backend]:
    shutil.copy(predicted, tmp_path)
    with backend_in(tmp_path) as backend:
        yield backend


def say(backend: Backend, user: int, number: int, mood: str, **changes: object) -> None:
    said = Annotation(number=100 * user + number, task=number, mood=mood, user=user, **changes)  # type: ignore[arg-type]
    backend.hook(annotated(said))


def label_all(backend: Backend, tasks: Sequence[int] = TASKS) -> None:
    """Two agree on every task, and the guesser says the opposite; then two of them split one task."""
    for number in tasks:
        for user, mood in ((GOOD, "Sad"), (CAREFUL, "Sad"), (GUESSER, "Glad")):
            say(backend, user, number, mood)
    say(backend, GOOD, SPLIT, "Sad")
    say(backend, GUESSER, SPLIT, "Glad")


def fit(backend: Backend, writer: Any = None) -> list[StoredReliabilities]:
    """Fit and apply, as a training does; return all fits, the newest first."""
    runtime = backend.runtime
    step = ReliabilityFits(replace(runtime._access, writer=writer or runtime._writer), runtime.settings)
    event = WebhookEvent("START_TRAINING", Project().key, SENTIMENT)
    runtime._thread.submit(step(event)).result(30)
    return stored(backend)


def stored(backend: Backend) -> list[StoredReliabilities]:
    with backend.ledger.read() as connection:
        return Reliabilities(connection, Project().key).latest("mood", 99)


def human(backend: Backend, number: int) -> tuple[str | None, str | None]:
    [round_] = backend.rounds(number)
    return round_.human, round_.taught_by


def test_a_tie_goes_to_the_one_who_is_right_more_often(backend: Backend) -> None:
    label_all(backend)
    fit(backend)
    assert human(backend, SPLIT) == ("Sad", "human")


def test_without_a_fit_a_tie_teaches_nothing(backend: Backend) -> None:
    say(backend, GOOD, SPLIT, "Sad")
    say(backend, GUESSER, SPLIT, "Glad")
    assert human(backend, SPLIT) == (None, "vote")


def test_ground_truth_counts_whoever_gave_it(backend: Backend) -> None:
    label_all(backend)
    fit(backend)
    say(backend, GUESSER, 1, "Glad", ground_truth=True)
    assert human(backend, 1) == ("Glad", "human")


def test_the_lone_label_of_a_guesser_teaches_nothing(backend: Backend) -> None:
    label_all(backend, TASKS[:-1])
    fit(backend)
    say(backend, GUESSER, TASKS[-1], "Sad")
    assert human(backend, TASKS[-1]) == (None, "vote")


def test_a_fit_that_says_the_same_is_not_stored_again(backend: Backend) -> None:
    label_all(backend)
    first = fit(backend)
    events = len(backend.events())
    assert fit(backend) == first
    assert len(backend.events()) == events


class OvertakenWriter:
    """A writer before whose first write another process stores a fit."""

    def __init__(self, writer: Writer, fit: StoredReliabilities) -> None:
        self._writer, self._fit = writer, iter([fit])

    async def persist(self, function: Callable[[Connection], Any]) -> Any:
        for fit in self._fit:
            await self._writer.persist(fit.store)
        return await self._writer.persist(function)


def test_a_fit_that_another_one_overtakes_is_made_again(backend: Backend) -> None:
    """There are too few annotations for the server to fit by itself."""
    label_all(backend, TASKS[:2])
    old = StoredReliabilities(Project().key, "mood", 1, {str(GOOD): 0.5}, 1, True, backend.runtime.clock())
    newest, *others = fit(backend, OvertakenWriter(backend.runtime._writer, old))
    assert others == [old]
    assert newest.number == 2
    assert newest.accuracies.keys() == {str(GOOD), str(CAREFUL), str(GUESSER)}


def test_a_changed_fit_takes_back_what_the_old_one_taught(backend: Backend) -> None:
    """The good annotator turns out to be wrong: the label that the old weights taught is revised."""
    label_all(backend)
    fit(backend)
    for number in TASKS:
        say(backend, 9, number, "Glad", ground_truth=True)
    accuracies = fit(backend)[0].accuracies
    assert accuracies[str(GUESSER)] > 0.8
    assert accuracies[str(GOOD)] < 0.4
    assert human(backend, SPLIT) == ("Glad", "human")


def test_what_is_learnt_does_not_depend_on_the_fits_before(backend: Backend, tmp_path: Path) -> None:
    """One backend fits after half of the labels and again, the other only once at the end."""
    label_all(backend, TASKS[:6])
    fit(backend)
    label_all(backend, TASKS[6:])
    fit(backend)
    other = tmp_path / "other"
    other.mkdir()
    with Backend(other, votes(red="Glad", green="Glad", blue="Sad")) as once:
        once.predict(*(task(number) for number in (*TASKS, SPLIT)))
        label_all(once)
        fit(once)
        assert [human(once, number) for number in TASKS] == [human(backend, number) for number in TASKS]
        assert once.learnt() == backend.learnt()


def test_every_round_teaches_once_whatever_was_fitted_in_between(backend: Backend) -> None:
    label_all(backend)
    fit(backend)
    assert backend.learnt()["blue"] == (13, 13.0), "the human label of every task, the split one too, is Sad"


def test_a_stored_fit_is_applied_by_the_next_process(backend: Backend, tmp_path: Path) -> None:
    label_all(backend, TASKS[:1])
    accuracies = {str(GOOD): 0.95, str(GUESSER): 0.55}
    with backend.ledger.write() as connection:
        StoredReliabilities(Project().key, "mood", 1, accuracies, 5, False, 1.0).store(connection)
    applied = asyncio.Event()

    class Watched(ReliabilityFits):
        async def apply(self, project: str) -> None:
            await ReliabilityFits.apply(self, project)
            applied.set()

    runtime = backend.runtime
    step = Watched(runtime._access, runtime.settings)
    assert runtime._thread.submit(step.unapplied()).result(30) == [Project().key]
    runtime._thread.submit(step.apply(Project().key)).result(30)
    assert human(backend, SPLIT) == ("Sad", "human")
    assert runtime._thread.submit(step.unapplied()).result(30) == []


def test_deleted_annotations_are_no_longer_judged(backend: Backend) -> None:
    label_all(backend)
    fit(backend)
    backend.hook(annotations_deleted(*(100 * GUESSER + number for number in (*TASKS, SPLIT))))
    assert set(fit(backend)[0].accuracies) == {str(GOOD), str(CAREFUL)}


def test_withdrawn_annotations_do_not_count_towards_a_fit(backend: Backend) -> None:
    say(backend, GOOD, 1, "Sad")
    say(backend, GUESSER, 1, "Glad", skipped=True)
    with backend.ledger.read() as connection:
        assert Annotations(connection, Project().key).count() == 1


@pytest.mark.parametrize(
    ("annotations", "fitted_on", "due"), [(9, 0, False), (10, 0, True), (119, 100, False), (120, 100, True)]
)
def test_a_fit_is_due_after_ten_annotations_and_a_tenth_more(
    annotations: int, fitted_on: int, due: bool
) -> None:
    assert ReliabilityFits.is_due(annotations, fitted_on) == due


def test_a_fit_is_due_after_many_deletions() -> None:
    assert ReliabilityFits.is_due(50, 100)
