"""Asking in stages through the whole backend: which models are asked, what is decided, learnt and paid."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from label_studio_requests import Annotation, Project, annotated, annotations_deleted, task
from same_state import assert_same_state
from whole_backend import CALL, Backend, prompt_of, says

from backend.annotation.job import Job
from backend.annotation.queue import JobQueue
from backend.ledger.money import Purse
from backend.ledger.reports import ProjectSums
from backend.ledger.rounds import Round
from backend.testing import Reply

MODELS = ("amber", "blue", "green", "red", "violet")
MOODS = ("Glad", "Sad", "Calm")
JOINT = {"name": "joint"}
TASKS = 90
EVERYONE = 36
"""So many first tasks ask all models."""
PLANNED = 1e-5
"""Relative error of what a plan shows: six significant digits."""


def entry(number: int) -> dict[str, Any]:
    return dict(task(number, f"Entry {number} of the diary."))


def vote(number: int, model: str) -> str:
    """A model's answer about an entry; one answer in four differs from the majority's."""
    own, slip = hashlib.sha256(f"{number}:{model}".encode()).digest()[:2]
    right = hashlib.sha256(str(number).encode()).digest()[0]
    return MOODS[own % 3] if slip < 64 else MOODS[right % 3]


def script(body: dict[str, Any]) -> Reply:
    entry = re.search(r"Entry (\d+)", prompt_of(body))
    assert entry
    return says(mood=vote(int(entry[1]), body["model"]))


def predicted(backend: Backend, number: int) -> Round:
    """The round of a task."""
    backend.predict(entry(number))
    [round_] = backend.rounds(number)
    return round_


class Staged(NamedTuple):
    """The first task whose first stage did not ask all models, and the ledgers before and after its round."""

    number: int
    before: Path
    after: Path


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Staged:
    folder = tmp_path_factory.mktemp("staged")
    with Backend(folder, script, MODELS, policy=JOINT, student=False) as backend:
        assert all(backend.predict(*(entry(number) for number in range(1, EVERYONE))))
        for number in range(EVERYONE, TASKS):
            before = copied(folder / "ledger.sqlite", folder / f"{number}.sqlite")
            if predicted(backend, number).plan["stages"]["first"] < len(MODELS):
                return Staged(number, before, copied(folder / "ledger.sqlite", folder / "after.sqlite"))
    raise AssertionError("everyone was always asked")


def copied(ledger: Path, to: Path) -> Path:
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("VACUUM INTO ?", (str(to),))
    return to


def resumed(ledger: Path, folder: Path) -> Backend:
    """A backend that goes on with a copy of a ledger."""
    shutil.copy(ledger, folder / "ledger.sqlite")
    return Backend(folder, script, MODELS, policy=JOINT, student=False)


# a project of 90 tasks


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with Backend(tmp_path_factory.mktemp("project"), script, MODELS, policy=JOINT, student=False) as backend:
        for start in range(0, TASKS, 5):
            assert all(backend.predict(*(entry(number) for number in range(start, start + 5))))
        yield backend


@pytest.fixture(scope="module")
def rounds(project: Backend) -> list[Round]:
    return [project.rounds(number)[0] for number in range(TASKS)]


def test_fewer_models_are_asked_than_there_are(project: Backend, rounds: Sequence[Round]) -> None:
    assert project.server.count() == sum(len(round_.votes) for round_ in rounds)
    assert project.server.count() < 0.95 * TASKS * len(MODELS)


def test_the_full_cost_is_the_paid_cost_plus_the_expected_price_of_models_not_asked(
    rounds: Sequence[Round],
) -> None:
    for round_ in rounds:
        arms = round_.plan["arms"].items()
        spared = [row["cost"] for arm, row in arms if round_.votes.get(arm) is None]
        assert round_.cost_usd == pytest.approx(len(round_.votes) * CALL)
        assert round_.full_cost_usd == pytest.approx(round_.cost_usd + sum(spared), rel=PLANNED)
        assert round_.full_cost_usd == pytest.approx(len(MODELS) * CALL, rel=0.5)


def test_every_round_leaves_its_vote_pattern_in_the_ledger(project: Backend, rounds: Sequence[Round]) -> None:
    patterns = project.state().exploration.patterns
    everyone = sum(round_.plan["stages"]["coin"] == "everyone" for round_ in rounds)
    assert EVERYONE <= everyone < TASKS
    assert patterns.total() == TASKS
    assert sum(count for pattern, count in patterns.items() if pattern.everyone) == everyone


def test_agreement_is_counted_where_no_vote_had_a_say_in_who_was_asked(
    project: Backend, rounds: Sequence[Round]
) -> None:
    at_once = [round_ for round_ in rounds if round_.plan["stages"]["first"] == len(MODELS)]
    with project.ledger.read() as connection:
        rows = {row.model: row for row in ProjectSums(connection, Project().key).votes()}
    assert 0 < len(at_once) < len(rounds)
    for arm in MODELS:
        assert rows[arm].asked == sum(arm in round_.votes for round_ in rounds)
        assert rows[arm].compared == len(at_once)
        assert rows[arm].agreed == sum(round_.votes[arm] == round_.label for round_ in at_once)


# who waits


class Noted:
    """Annotates nothing, and notes what it was asked."""

    def __init__(self) -> None:
        self.done: list[tuple[int, bool]] = []

    async def annotate(self, job: Any, *, alone: bool) -> list[Any]:
        await asyncio.sleep(0)
        self.done.append((job.task, alone))
        return []


def noted(requests: list[list[Job]]) -> list[tuple[int, bool]]:
    """The tasks that requests at the same time have annotated, and whether each was alone."""
    annotator = Noted()

    async def all_at_once() -> None:
        jobs = JobQueue(annotator, 8)  # type: ignore[arg-type]
        await asyncio.gather(*(jobs.answer_request(request, 5.0) for request in requests))

    asyncio.run(all_at_once())
    return sorted(annotator.done)


def job(number: int, **terms: Any) -> Job:
    config: Any = None
    settings: Any = MODELS
    return Job("7", number, {}, config, settings, **terms)


def test_a_task_of_a_list_that_is_opened_meanwhile_has_a_job_of_its_own() -> None:
    listed, opened = [job(1), job(2)], [job(1, hurried=True)]
    assert noted([listed, listed, opened, opened]) == [(1, False), (1, True), (2, False)]


@pytest.mark.parametrize(
    "terms", [{"again": True}, {"purse": Purse("job", 2.0)}, {"everyone": True}, {"below": 0.5}]
)
def test_a_run_on_other_terms_does_not_join_what_an_interrupted_one_has_left(terms: dict[str, Any]) -> None:
    """It would get the answer of that run, such as that there is no money."""
    before = {"purse": Purse("job", 1.0)}
    assert noted([[job(1, **before)], [job(1, **{**before, **terms})]]) == [(1, True), (1, True)]


# humans


def test_a_human_teaches_about_the_first_stage_alone(staged: Staged, tmp_path: Path) -> None:
    with resumed(staged.after, tmp_path) as backend:
        [round_] = backend.rounds(staged.number)
        before = backend.learnt()
        backend.hook(annotated(Annotation(number=1, task=staged.number, mood=round_.label)))
        after = backend.learnt()
    stages = round_.plan["stages"]
    taught = {arm for arm in MODELS if after[arm][0] > before[arm][0]}
    assert taught == set(stages["order"][: stages["first"]])


def test_a_human_label_that_is_withdrawn_leaves_the_state_as_it_was(staged: Staged, tmp_path: Path) -> None:
    with resumed(staged.after, tmp_path) as backend:
        before = backend.state()
        backend.hook(annotated(Annotation(number=1, task=staged.number, mood="Sad")))
        backend.hook(annotated(Annotation(number=2, task=1, mood="Calm")))
        backend.hook(annotations_deleted(1, 2))
        assert_same_state(backend.state(), before)


def test_a_human_label_teaches_the_same_before_the_round_and_after_it(staged: Staged, tmp_path: Path) -> None:
    """An early label is taught by the policy before storage, a late one from the stored round."""
    label = annotated(Annotation(number=1, task=staged.number, mood="Sad"))
    for name in ("after", "before"):
        (tmp_path / name).mkdir()
    with resumed(staged.before, tmp_path / "after") as backend:
        assert predicted(backend, staged.number).plan["stages"]["first"] < len(MODELS)
        backend.hook(label)
        after = backend.state()
    with resumed(staged.before, tmp_path / "before") as backend:
        backend.hook(label)
        predicted(backend, staged.number)
        assert_same_state(backend.state(), after)


def test_people_who_side_with_one_model_make_it_decide(tmp_path: Path) -> None:
    def divided(body: dict[str, Any]) -> Reply:
        return says(mood="Sad" if body["model"] == "violet" else "Glad")

    with Backend(tmp_path, divided, MODELS, policy=JOINT, student=False) as backend:
        labelled = range(1, 25)
        backend.predict(*(entry(number) for number in labelled))
        assert {backend.rounds(number)[0].label for number in labelled} == {"Glad"}
        for number in labelled:
            backend.hook(annotated(Annotation(number=number, task=number, mood="Sad")))
        [prediction] = backend.predict(entry(30))
        [round_] = backend.rounds(30)
    assert round_.label == "Sad"
    assert prediction["score"] == round_.score


# failures


def test_a_model_that_fails_gives_no_vote_and_the_others_decide(tmp_path: Path) -> None:
    """The model that is asked first always fails and rests after five failures in a row."""

    def broken(body: dict[str, Any]) -> Reply:
        return Reply.fails(400) if body["model"] == "amber" else script(body)

    with Backend(tmp_path, broken, MODELS, policy=JOINT, student=False) as backend:
        rounds = [predicted(backend, number) for number in range(1, 9)]
        assert backend.runtime.pool["amber"].resting
    failed = [round_ for round_ in rounds if "amber" in round_.votes]
    assert len(failed) == 5
    for round_ in failed:
        arms = round_.plan["arms"].items()
        spared = [row["cost"] for arm, row in arms if round_.votes.get(arm) is None]
        assert round_.votes["amber"] is None
        assert round_.cost_usd == pytest.approx((len(round_.votes) - 1) * CALL)
        assert round_.full_cost_usd == pytest.approx(round_.cost_usd + sum(spared), rel=PLANNED)


def test_a_task_whose_models_all_fail_ends_without_a_prediction(tmp_path: Path) -> None:
    with Backend(tmp_path, lambda _: Reply.fails(400), MODELS, policy=JOINT, student=False) as backend:
        assert backend.predict(entry(1)) == [[]]
        assert backend.server.count() == len(MODELS)
