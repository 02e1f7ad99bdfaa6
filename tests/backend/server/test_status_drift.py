"""What /status says about early stops and about what began anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backend.server.status.alarms import _restart_alert
from backend.server.status.promises import stops_report
from backend.server.status.report import GuaranteeReport, QuestionReport, Share
from camvo.state.contribution import Contribution, Restart
from camvo.state.exploration import ExplorationRound, VotePattern
from camvo.state.state import State, findings

CONTEXT = np.array([1.0])
NO_GUARANTEE = GuaranteeReport(0.95, 0.95, None, None, 0, 0.0, 0, 0.0, 0, 0, 0, 0, None, None, None)
STOPS = Restart("stops", 0, at=812, rounds=120, wrong=7, promised=1.2, evidence=5.0)
VERSION = Restart("version", 0, at=40, arm="red", history=1, version="red-2", before="red-1")


def question(*restarts: Restart, tried: int = 0, rounds: int = 3, current: bool = True) -> QuestionReport:
    tests = {
        "all": {"tried": 500, "right": 490},
        "since": {"tried": tried, "right": tried, "promised": 0.01 * tried},
        "rounds": rounds,
        "restarts": [restart.to_dict() for restart in restarts],
        "versions": {},
    }
    return QuestionReport(
        "mood", "e", current, 900, 0.0, Share.of([]), Share.of([]), NO_GUARANTEE, None, stops_report(tests)
    )


def test_a_ledger_without_tests_has_no_report_and_no_alert() -> None:
    assert stops_report(None) is None
    silent = QuestionReport("mood", "e", True, 9, 0.0, Share.of([]), Share.of([]), NO_GUARANTEE, None)
    assert _restart_alert(silent) is None


def test_a_broken_promise_is_an_alert_with_its_counts() -> None:
    alert = _restart_alert(question(STOPS))
    assert alert is not None
    assert alert.code == "early_stops_wrong"
    assert "in 7 of 120 rounds that chance tested, where at most 1.2 were promised" in alert.message


@pytest.mark.parametrize(
    ("restart", "code", "words"),
    [
        (Restart("tasks", 0), "tasks_changed", "have probably become harder"),
        (Restart("arm", 0, arm="red", history=1), "model_changed", "red agrees with the other models"),
        (VERSION, "model_version_changed", "red answers as red-2 instead of red-1"),
    ],
)
def test_every_kind_of_restart_has_words_of_its_own(restart: Restart, code: str, words: str) -> None:
    alert = _restart_alert(question(restart))
    assert alert is not None
    assert alert.code == code
    assert words in alert.message


def test_a_version_that_came_back_counts_its_earlier_votes() -> None:
    back = Restart("version", 1, arm="red", history=0, resumed=True, version="red-1", before="red-2")
    alert = _restart_alert(question(VERSION, back))
    assert alert is not None
    assert "its votes of that time count again" in alert.message


@pytest.mark.parametrize(
    "reported",
    [question(), question(STOPS, tried=1), question(STOPS, rounds=1_000), question(STOPS, current=False)],
    ids=["no restart", "stops are tested again", "long ago", "an earlier epoch"],
)
def test_there_is_no_alert_when_nothing_is_to_be_learnt_anew(reported: QuestionReport) -> None:
    assert _restart_alert(reported) is None


def test_restarts_are_listed_the_latest_first() -> None:
    reported = question(STOPS, VERSION).stops
    assert reported is not None
    assert [restart.kind for restart in reported.restarts] == ["version", "stops"]


def test_what_is_found_counts_tested_stops_and_names_versions() -> None:
    state = State(1)
    pattern = VotePattern.of(("blue", "red"), {"blue": "x", "red": "x"}, everyone=True)
    for right in (True, True, False):
        tested = ExplorationRound(pattern, right, 0.25)
        state.add(Contribution(CONTEXT, (), exploration=tested, versions={"red": "red-1"}))
    expected: dict[str, Any] = {
        "all": {"tried": 3, "right": 2},
        "since": {"tried": 3, "right": 2, "promised": 0.75},
        "rounds": 3,
        "restarts": [],
        "versions": {"red": "red-1"},
    }
    assert findings(state) == expected
