"""Events as the ledger stores them, without rounds: for tests that need a state that was taught much."""

from __future__ import annotations

from collections.abc import Iterable

from backend.ledger import Ledger
from backend.ledger.events import NewEvent, ProjectEvents, StateKey
from backend.ledger.rounds import RoundKey
from camvo.state.contribution import Contribution


def append_events(ledger: Ledger, key: StateKey | RoundKey, lessons: Iterable[Contribution]) -> None:
    """Append one event for each contribution to the state of a question."""
    with ledger.write() as connection:
        for lesson in lessons:
            event = NewEvent(
                control=key.control, epoch=key.epoch, kind="round", contribution=lesson.pack(), round_id=None
            )
            ProjectEvents(connection, key.project).append([event], 1.0)
