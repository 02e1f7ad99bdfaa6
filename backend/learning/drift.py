"""What the tests of a state demand and have found: restarts as events, and numbers for reports."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from backend.ledger import events
from camvo.state.contribution import Contribution
from camvo.state.restart import Restart
from camvo.state.state import State


def append_restart(  # noqa: PLR0917 - the first four name a state, as in snapshots.save()
    connection: Connection,
    project: str,
    control: str,
    epoch: str,
    sequence: int,
    restart: Restart,
    dimension: int,
    *,
    now: float,
) -> None:
    """Append a restart to the ledger, unless another process has appended one since.

    If both do so at once, the second has no effect, because both have the same number.

    Args:
        connection: a write transaction.
        project: the state's project.
        control: the name of its control tag.
        epoch: its epoch.
        sequence: the number of the last event after which the restart was due.
        restart: what begins anew.
        dimension: d, the length of the state's contexts.
        now: unix seconds.
    """
    later = events.after(connection, project, sequence, control=control, epoch=epoch)
    if any(event.kind == "restart" for event in later):
        return
    events.append(
        connection,
        project,
        control=control,
        epoch=epoch,
        kind="restart",
        contribution=Contribution.of_restart(restart, dimension).pack(),
        round_id=None,
        now=now,
    )


def found(state: State) -> dict[str, Any]:
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
