"""The stacked vote through the whole backend: what is asked, kept, corrected, decided and shown."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from label_studio_requests import (
    Annotation,
    annotated,
    annotations_deleted,
    setup,
    task,
    tasks_deleted,
    updated,
)
from same_state import assert_same_state
from sqlalchemy import update as change
from stored_events import append_events
from whole_backend import Backend, votes

from backend.learning.states import SNAPSHOT_EVERY, StateKey, States
from backend.ledger import Writer, snapshots
from backend.ledger.database import tables
from backend.ledger.rounds import Round
from camvo.state.contribution import Contribution
from camvo.state.kept_rounds import CastVote, KeptRound

MODELS = ("amber", "blue", "green", "red", "violet")
OUTVOTED = votes(amber="Glad", blue="Glad", green="Glad", red="Glad", violet="Sad")
UNANIMOUS = votes(**dict.fromkeys(MODELS, "Glad"))
STACKED = {"name": "stacked"}


def past(n: int) -> Iterable[KeptRound]:
    """Labelled rounds that asked all models; four of them err together half of the time, violet does not."""
    for number in range(n):
        right, wrong = ("Glad", "Sad") if number % 4 < 2 else ("Sad", "Glad")
        said = [right if number % 2 else wrong] * 4 + [right]
        weighed = tuple(CastVote(arm, vote, 0.8) for arm, vote in zip(MODELS, said, strict=True))
        yield KeptRound(weighed, right, everyone=True)


def alike(n: int) -> Iterable[KeptRound]:
    """Rounds in which all models agreed and people confirmed them."""
    for mood in itertools.islice(itertools.cycle(("Glad", "Sad", "Calm")), n):
        yield KeptRound(tuple(CastVote(arm, mood, 0.8) for arm in MODELS), mood, everyone=True)


def remember(backend: Backend, rows: Iterable[KeptRound]) -> StateKey:
    """Store earlier rounds in the ledger, one event per row."""
    backend.predict(task(900))
    [round_] = backend.rounds(900)
    key, context = round_.key, np.zeros(len(round_.context))
    append_events(backend.ledger, key, [Contribution(context, (), kept=row) for row in rows])
    return StateKey(key.project, key.control, key.epoch)


def kept_rounds(backend: Backend) -> list[KeptRound]:
    return backend.state().kept_rounds.rounds


# what is kept


def test_a_round_that_asked_everyone_is_kept_with_its_votes_and_weights(tmp_path: Path) -> None:
    with Backend(tmp_path, OUTVOTED, MODELS, policy=STACKED) as backend:
        backend.predict(task(1))
        [round_], [row] = backend.rounds(1), kept_rounds(backend)
    weights = {arm: numbers["weight"] for arm, numbers in round_.plan["arms"].items()}
    assert row == KeptRound.of(round_.votes, weights, None, everyone=True)
    assert dict(round_.votes) == {vote.arm: vote.label for vote in row.votes}


def test_a_model_that_fails_is_kept_as_one_that_said_nothing(tmp_path: Path) -> None:
    said = dict.fromkeys(MODELS, "Glad") | {"blue": None}
    with Backend(tmp_path, votes(**said), MODELS, policy=STACKED) as backend:
        backend.predict(task(1))
        [row] = kept_rounds(backend)
    assert {vote.arm: vote.label for vote in row.votes} == said


@pytest.mark.parametrize("mood", ["Glad", "Sad"])
def test_a_human_label_replaces_the_kept_round_by_one_with_the_label(tmp_path: Path, mood: str) -> None:
    """A label that equals the voted one is kept too, although no reward changes."""
    with Backend(tmp_path, OUTVOTED, MODELS, policy=STACKED) as backend:
        backend.predict(task(1), task(2))
        backend.hook(annotated(Annotation(number=1, task=1, mood=mood)))
        assert sorted(row.label or "" for row in kept_rounds(backend)) == ["", mood]


def test_the_latest_version_of_a_human_label_is_the_one_that_is_kept(tmp_path: Path) -> None:
    with Backend(tmp_path, OUTVOTED, MODELS, policy=STACKED) as backend:
        backend.predict(task(1))
        first = Annotation(number=1, task=1, mood="Glad")
        backend.hook(annotated(first))
        backend.hook(updated(first.again(mood="Calm")))
        assert [row.label for row in kept_rounds(backend)] == ["Calm"]


def test_a_round_whose_plan_lacks_the_key_kept_is_corrected(tmp_path: Path) -> None:
    with Backend(tmp_path, OUTVOTED, MODELS, policy=STACKED) as backend:
        backend.predict(task(1))
        plan = dict(backend.rounds(1)[0].plan)
        plan["stages"] = {name: value for name, value in plan["stages"].items() if name != "kept"}
        with backend.ledger.write() as connection:
            connection.execute(change(tables.rounds).values(plan=plan))
        backend.hook(annotated(Annotation(number=1, task=1, mood="Sad")))
        assert [row.label for row in kept_rounds(backend)] == ["Sad"]


def deleted(annotation: Annotation) -> dict[str, Any]:
    return annotations_deleted(annotation.number)


def skipped(annotation: Annotation) -> dict[str, Any]:
    return updated(annotation.again(skipped=True))


def task_deleted(annotation: Annotation) -> dict[str, Any]:
    return tasks_deleted(annotation.task)


@pytest.mark.parametrize("withdrawn", [deleted, skipped, task_deleted])
@pytest.mark.parametrize("mood", ["Glad", "Sad"])
def test_a_human_label_that_is_withdrawn_leaves_the_state_as_it_was(
    tmp_path: Path, withdrawn: Callable[[Annotation], dict[str, Any]], mood: str
) -> None:
    with Backend(tmp_path, OUTVOTED, MODELS, policy=STACKED) as backend:
        backend.predict(task(1), task(2))
        before = backend.state()
        annotation = Annotation(number=1, task=1, mood=mood)
        backend.hook(annotated(annotation))
        assert len([row for row in kept_rounds(backend) if row.label]) == 1
        backend.hook(withdrawn(annotation))
        assert_same_state(backend.state(), before)


def test_a_human_label_teaches_the_same_before_the_round_and_after_it(tmp_path: Path) -> None:
    """An early label is taught by the policy before storage, a late one from the stored round."""
    webhook = annotated(Annotation(number=1, task=1, mood="Sad"))
    for name in ("after", "before"):
        (tmp_path / name).mkdir()
    with Backend(tmp_path / "after", OUTVOTED, MODELS, policy=STACKED) as backend:
        backend.predict(task(1))
        backend.hook(webhook)
        after = backend.state()
    with Backend(tmp_path / "before", OUTVOTED, MODELS, policy=STACKED) as backend:
        backend.hook(webhook)
        backend.predict(task(1))
        assert_same_state(backend.state(), after)


def test_human_labels_that_do_not_teach_are_not_kept(tmp_path: Path) -> None:
    with Backend(tmp_path, OUTVOTED, MODELS, policy=STACKED, human_rewards=False) as backend:
        backend.predict(task(1))
        backend.hook(annotated(Annotation(number=1, task=1, mood="Sad")))
        assert [row.label for row in kept_rounds(backend)] == [None]


# asking in stages


@pytest.fixture(scope="module")
def practised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with 200 rounds in which the models agreed and people confirmed them."""
    folder = tmp_path_factory.mktemp("practised")
    with Backend(folder, UNANIMOUS, MODELS, policy=STACKED) as backend:
        remember(backend, alike(200))
    return folder


def ask_in_stages(backend: Backend, numbers: Sequence[int]) -> list[Round]:
    """The rounds of tasks sent together that were not selected at random to ask more models."""
    backend.predict(*map(task, numbers))
    rounds = [round_ for number in numbers for round_ in backend.rounds(number)]
    return [round_ for round_ in rounds if round_.plan["stages"]["coin"] == "nobody"]


def test_models_whose_votes_are_not_worth_their_price_are_spared(practised: Path) -> None:
    with Backend(practised, UNANIMOUS, MODELS, policy=STACKED) as backend:
        rounds = ask_in_stages(backend, range(1, 7))
    assert len(rounds) > 3
    for round_ in rounds:
        first = round_.plan["stages"]["first"]
        assert set(round_.votes) == set(round_.plan["stages"]["order"][:first])
        assert first < len(MODELS)


def test_a_task_that_is_sent_alone_asks_everyone_at_once(practised: Path) -> None:
    with Backend(practised, UNANIMOUS, MODELS, policy=STACKED) as backend:
        backend.predict(task(20))
        [round_] = backend.rounds(20)
    assert set(round_.votes) == set(MODELS)
    assert round_.plan["stops"]["upto"] == [len(MODELS)]


def test_a_project_says_itself_how_many_rounds_ask_everyone(practised: Path) -> None:
    with Backend(practised, UNANIMOUS, MODELS, policy=STACKED) as backend:
        assert backend.post("/setup", setup(extra_params={"first": 1000})).status_code == 200
        assert ask_in_stages(backend, [30, 31]) == []
        backend.post("/setup", setup(extra_params={}))


def test_a_human_label_on_a_round_that_stopped_early_is_kept_and_teaches_the_first_stage(
    practised: Path,
) -> None:
    with Backend(practised, UNANIMOUS, MODELS, policy=STACKED) as backend:
        [round_, *_] = ask_in_stages(backend, range(40, 46))
        rewards, before = backend.learnt(), backend.state()
        backend.hook(annotated(Annotation(number=40, task=round_.key.task, mood="Sad")))
        after, row = backend.learnt(), kept_rounds(backend)[-1]
        backend.hook(annotations_deleted(40))
        assert_same_state(backend.state(), before)
    assert (row.label, row.everyone) == ("Sad", False)
    assert {vote.arm for vote in row.votes} == set(round_.votes)
    taught = {arm for arm in MODELS if after.get(arm, (0, 0.0))[0] > rewards.get(arm, (0, 0.0))[0]}
    assert taught == set(round_.plan["stages"]["order"][: round_.plan["stages"]["first"]])


# what is decided


@pytest.fixture(scope="module")
def corrected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with as many labelled rounds as a snapshot takes; violet was right even when outvoted."""
    folder = tmp_path_factory.mktemp("corrected")
    with Backend(folder, OUTVOTED, MODELS, policy=STACKED) as backend:
        remember(backend, past(SNAPSHOT_EVERY))
    return folder


def test_human_labels_decide_whose_vote_counts(corrected: Path) -> None:
    with Backend(corrected, OUTVOTED, MODELS, policy=STACKED) as backend:
        backend.predict(task(1))
        [round_] = backend.rounds(1)
    assert round_.label == "Sad"
    assert round_.plan["stack"]["arms"]["violet"] > round_.plan["stack"]["arms"]["red"]


def test_without_calibration_the_stacked_votes_own_score_is_shown(corrected: Path) -> None:
    with Backend(corrected, OUTVOTED, MODELS, policy=STACKED, calibrate=False) as backend:
        [prediction] = backend.predict(task(2))
        [round_] = backend.rounds(2)
    assert prediction["score"] == round_.plan["score"] > 0.9


def test_a_snapshot_holds_the_kept_rounds(corrected: Path) -> None:
    with Backend(corrected, OUTVOTED, MODELS, policy=STACKED) as backend:
        backend.predict(task(3))
        [round_] = backend.rounds(3)
        key = StateKey(round_.key.project, round_.key.control, round_.key.epoch)
        with backend.ledger.read() as connection:
            assert snapshots.latest(connection, key.project, key.control, key.epoch)
        writer = Writer(backend.ledger)
        with ThreadPoolExecutor(1) as readers:
            states = States(backend.ledger, writer, readers, clock=lambda: 0.0)
            current = states.current(key, dimension=len(round_.context), lambda_l=1.0)
            assert_same_state(asyncio.run(current), backend.state())
        writer.close()
