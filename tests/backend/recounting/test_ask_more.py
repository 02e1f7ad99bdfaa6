"""Models that rounds left out are asked later: where, for how much, and what it changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import doubtful_project
import pytest
from doubtful_project import DEAR, FIRST, MODELS, REST, DoubtfulStudio, resumed_doubtful
from label_studio_api import LabelStudioApi
from label_studio_requests import annotations_deleted, tasks_deleted
from recount_project import Prepared
from rich.console import Console
from same_state import assert_same_state
from served_app import served
from whole_backend import CALL

from backend.commands.bulk.recounting import RecountRun, _ask_for_more
from backend.commands.shared.certificate import issue_certificate
from backend.learning.states import FitCache
from backend.ledger import certificates, money, recounts
from backend.ledger.certificates import Certificates
from backend.ledger.money import from_picodollars
from backend.ledger.recounts import FurtherVote
from backend.server.status.formats import dollars, of
from backend.settings import Environment
from backend.upkeep import _nothing, problems


@pytest.fixture
def doubtful(predicted: Prepared, tmp_path: Path, api: LabelStudioApi) -> Iterator[DoubtfulStudio]:
    studio = resumed_doubtful(predicted, tmp_path, api)
    with studio.backend:
        yield studio


def further(studio: DoubtfulStudio, number: int) -> list[FurtherVote]:
    [round_] = studio.backend.rounds(studio.tasks[number], studio.project)
    with studio.backend.ledger.read() as connection:
        return recounts.further_votes_of(connection, [round_.id]).get(round_.id, [])


def reasons(studio: DoubtfulStudio) -> list[certificates.Reason | None]:
    """Why the project's certificates no longer hold."""
    with studio.backend.ledger.read() as connection:
        return [standing.reason for standing in Certificates(connection, studio.project.key).standings()]


def in_doubt(studio: DoubtfulStudio) -> list[int]:
    return [studio.tasks.index(task) for task in studio.doubts(1.0)["tasks"]]


def spent(studio: DoubtfulStudio, purse: str = "further") -> float:
    with studio.backend.ledger.read() as connection:
        account = money.balance(connection, studio.project.key, purse)
        assert account.reserved == 0
        return from_picodollars(account.spent)


def test_only_models_that_a_round_left_out_are_asked(doubtful: DoubtfulStudio) -> None:
    numbers = in_doubt(doubtful)
    assert numbers
    assert min(numbers) >= FIRST
    asked = len(doubtful.backend.server.requests)
    said = doubtful.ask_more(1.0)
    assert said["votes"] == len(doubtful.backend.server.requests) - asked
    for number in numbers:
        [round_] = doubtful.backend.rounds(doubtful.tasks[number], doubtful.project)
        later = {vote.model for vote in further(doubtful, number)}
        assert later
        assert not later & set(round_.votes)


def test_a_process_that_has_not_fitted_the_latest_votes_asks_about_the_doubts(
    tmp_path: Path, api: LabelStudioApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio, right = DoubtfulStudio(tmp_path, api, policy=DEAR), dict.fromkeys(MODELS, 1.0)
    monkeypatch.setattr(FitCache, "is_old", lambda *_, **__: False)
    with studio.backend:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(doubtful_project, "SKILL", right)
            studio.predict_cheaply(tmp_path, range(28))
            studio.backend.predict(*studio.raw(28), project=studio.project)  # its fit: nobody ever errs
        for some in (range(29, FIRST), range(FIRST, FIRST + REST)):
            studio.predict_cheaply(tmp_path, some)
        numbers = in_doubt(studio)
        assert studio.ask_more(1.0)["tasks"] == len(numbers) > 0


def test_the_first_round_and_what_it_taught_stay(doubtful: DoubtfulStudio) -> None:
    events = doubtful.backend.events(doubtful.project)
    before = [doubtful.backend.rounds(task, doubtful.project)[0].votes for task in doubtful.tasks]
    doubtful.ask_more(1.0)
    doubtful.recount()
    after = [doubtful.backend.rounds(task, doubtful.project)[0].votes for task in doubtful.tasks]
    assert (after, doubtful.backend.events(doubtful.project)) == (before, events)


def test_a_recount_counts_the_further_votes(doubtful: DoubtfulStudio) -> None:
    doubtful.recount()
    before = doubtful.answers()
    numbers = in_doubt(doubtful)
    doubtful.ask_more(1.0)
    counting = doubtful.recount()
    assert counting is not None
    after = doubtful.answers()
    changed = {number for number, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]}
    assert changed
    assert changed <= set(numbers)


def test_a_later_vote_voids_the_certificate_of_the_labels_that_it_changed(
    doubtful: DoubtfulStudio, tmp_path: Path
) -> None:
    doubtful.recount()
    environment = Environment(database_url=f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    issue_certificate(Console(quiet=True), environment, doubtful.project.key, tmp_path / "page.html")
    assert reasons(doubtful) == [None]
    doubtful.ask_more(1.0)
    assert reasons(doubtful) == [None]  # the labels are those that it covers until the votes are counted
    doubtful.recount()
    assert reasons(doubtful) == ["recounted"]


def test_nothing_is_bought_twice(doubtful: DoubtfulStudio) -> None:
    doubtful.ask_more(1.0)
    asked, cost = len(doubtful.backend.server.requests), spent(doubtful)
    while doubtful.ask_more(1.0)["votes"]:
        pass
    assert doubtful.ask_more(1.0)["votes"] == 0
    every = [further(doubtful, number) for number in range(FIRST, len(doubtful.tasks))]
    assert spent(doubtful) == pytest.approx(CALL * sum(map(len, every)))
    assert spent(doubtful) - cost == pytest.approx(CALL * (len(doubtful.backend.server.requests) - asked))


def test_the_purse_is_never_overdrawn_and_is_resumed(doubtful: DoubtfulStudio) -> None:
    with doubtful.backend.ledger.read() as connection:
        reserved = connection.exec_driver_sql("SELECT max(reserved) FROM calls").scalar_one()
    most = from_picodollars(reserved) + 0.5 * CALL  # a call reserves far more than it costs
    said = doubtful.ask_more(most)
    assert said["exhausted"]
    assert 0.0 < spent(doubtful) <= most
    spent_before = spent(doubtful)
    assert doubtful.ask_more(spent_before)["votes"] == 0
    assert doubtful.ask_more(1.0)["votes"] > 0


def test_an_annotated_task_is_never_asked_about(doubtful: DoubtfulStudio) -> None:
    number = in_doubt(doubtful)[0]
    found = doubtful.doubts(1.0)
    doubtful.label(number)
    body = {
        "project": doubtful.project.key,
        "label_config": doubtful.project.label_config,
        "tasks": doubtful.raw(number),
        "usd": 1.0,
        "least": found["least"],
    }
    assert doubtful.backend.post("/ask_more", body).get_json()["votes"] == 0
    assert number not in in_doubt(doubtful)


def test_a_human_label_teaches_with_the_further_votes_and_takes_them_back(doubtful: DoubtfulStudio) -> None:
    number = in_doubt(doubtful)[0]
    doubtful.ask_more(1.0)
    before = doubtful.backend.state("mood", doubtful.project)
    doubtful.label(number)
    [kept] = [
        one
        for one in doubtful.backend.state("mood", doubtful.project).kept_rounds.rounds
        if one.label is not None
    ]
    [round_] = doubtful.backend.rounds(doubtful.tasks[number], doubtful.project)
    assert {vote.arm for vote in kept.votes} == {*round_.votes, *(v.model for v in further(doubtful, number))}
    assert all(vote.taught for vote in further(doubtful, number))
    doubtful.backend.hook(annotations_deleted(1000 + number, project=doubtful.project))
    assert_same_state(doubtful.backend.state("mood", doubtful.project), before)
    assert not any(vote.taught for vote in further(doubtful, number))


def test_the_further_votes_of_a_deleted_task_go_with_it(doubtful: DoubtfulStudio) -> None:
    number = in_doubt(doubtful)[0]
    doubtful.ask_more(1.0)
    [round_] = doubtful.backend.rounds(doubtful.tasks[number], doubtful.project)
    doubtful.backend.hook(tasks_deleted(doubtful.tasks[number], project=doubtful.project))
    with doubtful.backend.ledger.read() as connection:
        assert recounts.further_votes_of(connection, [round_.id]) == {}


def test_the_command_asks_and_leaves_drafts(doubtful: DoubtfulStudio) -> None:
    drafted, *others = in_doubt(doubtful)
    doubtful.api.tasks[doubtful.tasks[drafted]]["draft_exists"] = True
    project = doubtful.api.project
    with served(doubtful.backend.app) as backend:
        counting = RecountRun(
            doubtful.api.client(), backend, project["id"], doubtful.project.key, project["label_config"]
        )
        tally = _ask_for_more(counting, 1.0, _nothing)
    assert not further(doubtful, drafted)
    assert all(further(doubtful, number) for number in others)
    assert tally.spent_usd == pytest.approx(CALL * tally.votes)
    assert tally.asked(1.0) == (
        f"Asked more: {of(tally.votes, 'vote')} on {of(tally.tasks, 'task')};"
        f" {dollars(tally.spent_usd)} of $1 spent, no other vote is worth asking for"
    )


def test_a_ledger_with_further_votes_is_sound(doubtful: DoubtfulStudio) -> None:
    number = in_doubt(doubtful)[0]
    doubtful.ask_more(1.0)
    doubtful.label(number)
    with doubtful.backend.ledger.read() as connection:
        assert [*problems(connection, _nothing)] == []
