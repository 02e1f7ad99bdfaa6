"""Events as the ledger stores them, without rounds: for tests that need a state that was taught much."""

from __future__ import annotations

from collections.abc import Iterable

from backend.learning.states import StateKey
from backend.ledger import Ledger, events
from backend.ledger.rounds import RoundKey
from camvo.state.contribution import Contribution


def append_events(ledger: Ledger, key: StateKey | RoundKey, lessons: Iterable[Contribution]) -> None:
    """Append one event for each contribution to the state of a question."""
    with ledger.write() as connection:
        for lesson in lessons:
            events.append(
                connection,
                key.project,
                control=key.control,
                epoch=key.epoch,
                kind="round",
                contribution=lesson.pack(),
                round_id=None,
                now=1.0,
            )
