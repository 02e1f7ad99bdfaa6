"""What the tests of a state have found, for reports."""

from __future__ import annotations

from typing import Any

from camvo.state.state import State


def findings(state: State) -> dict[str, Any]:
    """What the tests of a state have found, as plain JSON.

    ``tried`` and ``right`` count the rounds that tested a stop: ``all`` of them, and those ``since`` the last
    restart with the number of errors that the stops ``promised`` there. ``rounds`` are those since the last
    restart. ``versions`` are those of the models' current histories.
    """
    stops, tested = state.drift.stops, state.exploration
    versions = {arm: state.histories.version(arm) for arm in state.histories.known_arms}
    return {
        "all": {"tried": tested.tried, "right": tested.right},
        "since": {"tried": stops.tried, "right": stops.right, "promised": stops.promised},
        "rounds": state.rounds - state.restarted_at,
        "restarts": [restart.to_dict() for restart in state.restarts],
        "versions": versions,
    }
