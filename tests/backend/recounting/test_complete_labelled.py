"""The server asks models that were left out about tasks that people label: when, and for how much."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from doubtful_project import DEAR, FIRST, DoubtfulStudio, resumed_doubtful
from label_studio_api import LabelStudioApi
from pydantic import SecretStr
from recount_project import Prepared
from server_process import wait_until
from whole_backend import CALL

from backend.errors import LabelStudioError, LedgerError
from backend.label_studio.client import Client
from backend.ledger import money, recounts
from backend.ledger.money import from_picodollars
from backend.ledger.recounts import FurtherVote, FurtherVotes
from backend.recounting import further
from backend.server.status.build import build_report
from camvo.student import STUDENT

ON: dict[str, Any] = {"complete_labelled": True, "background_share": 1.0, "budget": {"project_usd": 5.0}}


def complete(studio: DoubtfulStudio) -> int:
    runtime = studio.backend.runtime
    return runtime._thread.submit(runtime.completing.tend(studio.project.key)).result(60)


def left_out(studio: DoubtfulStudio) -> list[int]:
    """Tasks of which models were left out."""
    return [
        number
        for number in range(FIRST, len(studio.tasks))
        if len(studio.backend.rounds(studio.tasks[number], studio.project)[0].votes) < 4
    ]


def test_every_model_votes_on_a_labelled_task_and_teaches_with_the_label(
    predicted: Prepared, tmp_path: Path, api: LabelStudioApi
) -> None:
    studio = resumed_doubtful(predicted, tmp_path, api, **ON)
    with studio.backend:
        number, other = left_out(studio)[:2]
        studio.label(number)
        assert complete(studio) == 1
        [kept] = [
            one
            for one in studio.backend.state("mood", studio.project).kept_rounds.rounds
            if one.label is not None
        ]
        assert len({vote.arm for vote in kept.votes} - {STUDENT}) == 4
        with studio.backend.ledger.read() as connection:
            [round_] = studio.backend.rounds(studio.tasks[other], studio.project)
            assert recounts.further_votes_of(connection, [round_.id]) == {}
            report = build_report(connection, studio.backend.runtime.settings, now=0.0)
            completed = report.projects[0].recounts.completed
        assert (completed.tasks, completed.usd) == (1, pytest.approx(CALL * completed.votes))
        assert complete(studio) == 0


def test_votes_of_other_models_do_not_stand_for_those_of_the_plan(
    predicted: Prepared, tmp_path: Path, api: LabelStudioApi
) -> None:
    studio = resumed_doubtful(predicted, tmp_path, api, **ON)
    with studio.backend:
        number = left_out(studio)[0]
        task = studio.tasks[number]
        [round_] = studio.backend.rounds(task, studio.project)
        others = [
            FurtherVote(round_.id, f"other {at}", task, "Glad", None, 0.0, "beside", 1.0) for at in range(4)
        ]
        with studio.backend.ledger.write() as connection:
            FurtherVotes(connection, studio.project.key).store(others)
        studio.label(number)
        assert complete(studio) == 1


def test_a_large_import_spends_no_more_than_the_share(
    predicted: Prepared, tmp_path: Path, api: LabelStudioApi
) -> None:
    studio = resumed_doubtful(predicted, tmp_path, api, **(ON | {"background_share": 0.8}))
    with studio.backend:
        studio.label(*left_out(studio))
        with studio.backend.ledger.read() as connection:
            paid = from_picodollars(money.balance(connection, studio.project.key, money.TOTAL).spent)
        complete(studio)
        with studio.backend.ledger.read() as connection:
            own = money.balance(connection, studio.project.key, "background")
        assert 0.0 < from_picodollars(own.spent) <= 0.8 * paid
        assert own.reserved == 0


def test_tasks_that_money_did_not_cover_are_completed_once_there_is_some(
    predicted: Prepared, tmp_path: Path, api: LabelStudioApi
) -> None:
    studio = resumed_doubtful(predicted, tmp_path, api, **(ON | {"background_share": 1e-6}))
    with studio.backend:
        completing = studio.backend.runtime.completing
        studio.label(*left_out(studio)[:2])
        assert complete(studio) == 0
        completing._settings = completing._settings.model_copy(update={"background_share": 1.0})
        assert complete(studio) == 2


def test_an_outage_of_label_studio_only_delays_it(
    predicted: Prepared, tmp_path: Path, api: LabelStudioApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    outages = iter([LabelStudioError("down"), *[None] * 1000])

    def client(url: str, key: SecretStr) -> Client:
        if (outage := next(outages)) is not None:
            raise outage
        return Client(url, key)

    monkeypatch.setattr(further, "Client", client)
    monkeypatch.setattr(further, "_PAUSE", 0.01)
    monkeypatch.setattr(further, "_AFTER_FAILURE", 0.0)
    studio = resumed_doubtful(predicted, tmp_path, api, **ON)
    with studio.backend:
        number = left_out(studio)[0]
        studio.label(number)

        def completed() -> bool:
            with studio.backend.ledger.read() as connection:
                return "human" in FurtherVotes(connection, studio.project.key).sums()

        wait_until(completed, "completed task")


def test_the_price_of_a_vote_that_a_killed_process_had_bought_is_counted(
    predicted: Prepared, tmp_path: Path, api: LabelStudioApi
) -> None:
    studio = resumed_doubtful(predicted, tmp_path, api, **ON)
    with studio.backend:
        studio.label(left_out(studio)[0])
        with patch.object(FurtherVotes, "store", side_effect=LedgerError("killed")):
            assert complete(studio) == 0
        studio.backend.runtime.completing._tried.clear()  # as in the next process
        assert complete(studio) == 1
        with studio.backend.ledger.read() as connection:
            completed = FurtherVotes(connection, studio.project.key).sums()["human"]
        assert completed.usd == pytest.approx(CALL * completed.votes)


def test_it_is_off_by_default(predicted: Prepared, tmp_path: Path, api: LabelStudioApi) -> None:
    studio = resumed_doubtful(predicted, tmp_path, api, policy=DEAR)
    with studio.backend:
        assert not studio.backend.runtime.settings.complete_labelled
        run = studio.backend.runtime.completing.run()
        assert studio.backend.runtime._thread.submit(run).result(10) is None
