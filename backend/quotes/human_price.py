"""What a person's label costs."""

from __future__ import annotations

from sqlalchemy import Connection

from backend.ledger import human_annotations
from backend.settings.humans import HumanSettings
from camvo.scores.reviews.label_value import seconds_per_label

_LABELS = 1000
"""The latest labels whose times are read."""


def label_price(connection: Connection, project: str, humans: HumanSettings) -> float | None:
    """The price of one label of a project, $; ``None`` if ``humans`` has none."""
    if humans.price is not None or humans.price_per_minute is None:
        return humans.price
    times = human_annotations.lead_times(connection, project, _LABELS)
    return humans.price_per_minute * seconds_per_label(times) / 60.0
