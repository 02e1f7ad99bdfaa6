"""The score from which no review is needed, as /status and camvo report derive it from blind labels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from backend import settings
from backend.commands import report as command
from backend.ledger import Ledger, projects, reports, rounds
from backend.ledger.rounds import Round, RoundKey
from backend.server.status import page
from backend.server.status.build import build_report
from backend.server.status.evidence import GuaranteeReport
from backend.server.status.report import Report
from backend.settings import Environment

PROJECT = "7.100"


def store(ledger: Ledger, scores: Sequence[float], confirmed: float | None, audit: bool = True) -> None:
    with ledger.write() as connection:
        projects.remember(connection, PROJECT, extra_params=None, label_config=None, now=1.0)
        first = sum(row.rounds for row in reports.sum_rounds(connection, PROJECT))
        for number, score in enumerate(scores, start=first):
            round_ = Round(
                key=RoundKey(PROJECT, number, "mood", "hash", "epoch"),
                plan={"arms": {}},
                votes={"red": "Glad"},
                label="Glad",
                score=score,
                cost_usd=0.0,
                full_cost_usd=0.0,
                audit=audit,
                taught=None,
                taught_by=None,
                context=np.zeros(2),
                created_at=1.0,
                confirmed=confirmed,
            )
            rounds.insert(connection, round_)


def report(ledger: Ledger, target: float = 0.97) -> Report:
    with ledger.read() as connection:
        loaded = settings.load(None).model_copy(update={"guarantee": target})
        return build_report(connection, loaded, now=2.0)


def guarantee(ledger: Ledger, target: float = 0.97) -> GuaranteeReport:
    [project] = report(ledger, target).projects
    [question] = project.questions
    return question.guarantee


@pytest.fixture
def audited(sqlite_ledger: Ledger) -> Ledger:
    """Blind labels, right from score 0.9 on and half the time below, and more tasks without labels."""
    store(sqlite_ledger, [0.95] * 500, 1.0)
    store(sqlite_ledger, [0.95] * 2, 0.0)
    store(sqlite_ledger, [0.6] * 49, 1.0)
    store(sqlite_ledger, [0.6] * 49, 0.0)
    store(sqlite_ledger, [0.95] * 800 + [0.6] * 800, None, audit=False)
    return sqlite_ledger


def test_the_score_that_the_blind_labels_support_is_named(audited: Ledger) -> None:
    guaranteed = guarantee(audited)
    assert (guaranteed.threshold, guaranteed.audits, guaranteed.right) == (0.7, 502, 500.0)
    assert guaranteed.low is not None
    assert 0.97 <= guaranteed.low < 500 / 502


def test_freed_labels_are_counted_over_all_tasks(audited: Ledger) -> None:
    guaranteed = guarantee(audited)
    assert (guaranteed.labels, guaranteed.freed) == (1302, 1302 / 2200)


def test_labels_that_were_given_beside_a_prediction_certify_nothing(sqlite_ledger: Ledger) -> None:
    store(sqlite_ledger, [0.95] * 1000, 1.0, audit=False)
    guaranteed = guarantee(sqlite_ledger)
    assert (guaranteed.threshold, guaranteed.low) == (None, None)
    assert (guaranteed.audits, guaranteed.labels, guaranteed.freed) == (0, 0, 0.0)


def test_a_higher_target_may_be_out_of_reach(audited: Ledger) -> None:
    assert guarantee(audited, 0.99).threshold is None


def test_people_are_told_too(audited: Ledger, tmp_path: Path) -> None:
    screen, environment = io.StringIO(), Environment(database_url=f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    command.print_report(Console(file=screen, width=200), environment, project=None, as_json=False)
    html = page.render_page(report(audited))
    assert "from score 0.7 on" in screen.getvalue()
    assert "<strong>0.7</strong> need no review" in html
    nothing = page.render_page(report(audited, 0.99))
    assert "support no score from which" in nothing
