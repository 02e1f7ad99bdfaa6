"""When a model whose calls failed is an alarm, and when no more."""

from __future__ import annotations

import pytest

from backend.ledger.missing_votes import Outcome
from backend.server.status.alarms import _failing

KEY, DOWN = "model_key_rejected", "model_unavailable"


def outcomes(*codes: str | None) -> list[Outcome]:
    """The outcomes of calls, the latest first."""
    return [Outcome(code, float(-place)) for place, code in enumerate(codes)]


@pytest.mark.parametrize(
    ("latest", "code"),
    [
        ([KEY] * 5, KEY),
        ([None] + [KEY] * 19, None),  # the key was mended, and the same tasks asked about again
        ([None] * 5 + [KEY] * 5, None),
        ([KEY] * 5 + [None] * 5, KEY),
        ([None] * 5 + [DOWN] * 5, DOWN),  # it may be down again soon
        ([None] + [DOWN] * 6 + [KEY] * 9, DOWN),
    ],
)
def test_a_rejected_key_is_no_alarm_once_a_later_call_is_answered(
    latest: list[str | None], code: str | None
) -> None:
    alert = _failing("red", outcomes(*latest))
    assert (None if alert is None else alert.code) == code
