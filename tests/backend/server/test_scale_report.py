"""What the status says of labels on a scale: how far they are from those of people."""

from __future__ import annotations

from typing import Any

from backend.commands.report import _on_the_scale
from backend.ledger.reports import JudgedRow
from backend.server.status.question_reports import _scale_report
from camvo.votes.labels import LABEL_VOTE, OrderedVote
from camvo.votes.registry import describe_aggregation

SCALE = OrderedVote(("poor", "fair", "good"))


def judged(*pairs: tuple[str, str]) -> list[JudgedRow]:
    return [JudgedRow(task, label, human, 0.9, 1.0) for task, (label, human) in enumerate(pairs)]


def plan(vote: Any) -> dict[str, Any]:
    return {"aggregation": describe_aggregation(vote)}


def test_distances_from_the_labels_of_people_are_counted_in_steps() -> None:
    found = _scale_report(plan(SCALE), judged(("poor", "poor"), ("fair", "good"), ("good", "poor")))
    assert found is not None
    assert (found.count, found.exact, found.within_one, found.absolute) == (3, 1 / 3, 2 / 3, 1.0)
    assert "33% exact" in _on_the_scale(found) or "33.3% exact" in _on_the_scale(found)


def test_labels_that_are_no_longer_on_the_scale_are_left_out() -> None:
    found = _scale_report(plan(SCALE), judged(("poor", "poor"), ("poor", "awful")))
    assert found is not None
    assert found.count == 1


def test_other_labels_and_questions_without_a_human_label_have_no_distances() -> None:
    assert _scale_report(plan(LABEL_VOTE), judged(("poor", "poor"))) is None
    assert _scale_report(plan(SCALE), []) is None
    assert _scale_report(None, judged(("poor", "poor"))) is None
