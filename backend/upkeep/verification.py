"""Verifying: states are sums of events, money is the sum of its calls, and every round was learnt once.

Certificates cover labels that only a counting or a deletion can change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from backend.ledger import projects
from backend.ledger.certificates import Certificates
from backend.ledger.deletions import Prunable
from backend.ledger.events import Base, LearntRound, ProjectEvents
from backend.ledger.money import wrong_accounts
from backend.upkeep.copying import differences
from backend.upkeep.pruning import Advance, StateName, continued, readable_snapshots
from camvo.errors import SnapshotError
from camvo.policies.teaching import TaughtRound
from camvo.state.contribution import Contribution
from camvo.state.state import State

Kind = Literal["events", "state", "round", "money", "certificate"]


@dataclass(frozen=True, slots=True)
class _Problem:
    """An inconsistency in a ledger."""

    kind: Kind
    where: str
    what: str


def problems(connection: Connection, advance: Advance) -> Iterator[_Problem]:
    """Yield what is wrong in a ledger; nothing if it is sound.

    Args:
        connection: a read transaction. Everything is compared as it is in this one snapshot.
        advance: called with how many projects were checked.
    """
    for owner, scope, has, must in wrong_accounts(connection):
        yield _Problem(
            "money",
            f"account {owner}, {scope}",
            f"has {has[0]} spent and {has[1]} reserved, and its calls add up to {must[0]} and {must[1]}",
        )
    for project in projects.list_all(connection):
        yield from _wrong_numbers(connection, project.key, project.sequence)
        folded = {(base.control, base.epoch): base for base in ProjectEvents(connection, project.key).bases()}
        yield from _wrong_bases(folded)
        yield from _wrong_states(connection, project.key, project.sequence, folded)
        yield from _wrong_rounds(connection, project.key, folded)
        yield from _wrong_certificates(connection, project.key)
        advance(1)


def _wrong_certificates(connection: Connection, project: str) -> Iterator[_Problem]:
    """What nobody can have done to a certificate. That it no longer holds is no problem of the ledger."""
    for certificate, what in Certificates(connection, project).damages():
        yield _Problem("certificate", f"project {project}, certificate {certificate}", what)


def _wrong_numbers(connection: Connection, project: str, newest: int) -> Iterator[_Problem]:
    folded = ProjectEvents(connection, project).folded_through()
    later = Prunable(connection, project).count_after(folded)
    if later != newest - folded:
        what = f"it has {later} events after number {folded}, and the last has the number {newest}"
        yield _Problem("events", f"project {project}", what)


def _wrong_bases(folded: dict[tuple[str, str], Base]) -> Iterator[_Problem]:
    for base in folded.values():
        where = str(StateName(base.project, base.control, base.epoch))
        if not base.whole:
            yield _Problem("state", where, "the bytes of its base are not those that were stored")
        try:
            State.restore(base.state)
        except SnapshotError as error:
            yield _Problem("state", where, f"its base cannot be read: {error}")


def _wrong_states(
    connection: Connection, project: str, newest: int, folded: dict[tuple[str, str], Base]
) -> Iterator[_Problem]:
    for control, epoch in Prunable(connection, project).states_through(newest):
        name, base = StateName(project, control, epoch), folded.get((control, epoch))
        try:
            for snapshot, saved in readable_snapshots(connection, name):
                if base is not None and snapshot.sequence < base.sequence:
                    continue
                if wrong := differences(continued(connection, name, base, saved, snapshot.sequence), saved):
                    yield _Problem(
                        "state", str(name), f"snapshot {snapshot.sequence} is not the sum: {', '.join(wrong)}"
                    )
        except SnapshotError:
            continue  # the base, which is reported already


def _wrong_rounds(
    connection: Connection, project: str, folded: dict[tuple[str, str], Base]
) -> Iterator[_Problem]:
    for learnt in ProjectEvents(connection, project).learnt_rounds():
        row = learnt.row
        if what := _wrong_round(learnt, is_folded=(row.control, row.epoch) in folded):
            yield _Problem("round", f"project {project}, task {row.task}, control {row.control}", what)


def _wrong_round(learnt: LearntRound, *, is_folded: bool) -> str | None:
    """Say what is wrong with a round; what it teaches is known while all its events are there."""
    if not len(learnt.context):
        return "its context is missing"
    firsts = sum(kind == "round" for kind, _ in learnt.events)
    if firsts > 1:
        return f"it was learnt {firsts} times"
    if not firsts:
        return None if is_folded else "it was never learnt"
    rewards: dict[str, float | None] = {}
    for _, packed in learnt.events:
        for change in Contribution.unpack(packed).changes:
            if rewards.get(change.arm) != change.removed:
                return f"a reward of {change.arm} was taken out that was not in"
            rewards[change.arm] = change.added
    row = learnt.row
    record = TaughtRound.stored(row.plan, learnt.context, learnt.votes, learnt.text)
    lesson = record.contribution(row.taught or row.label, human=row.taught_by == "human")
    if {arm: reward for arm, reward in rewards.items() if reward is not None} != {
        change.arm: change.added for change in lesson.changes if change.added is not None
    }:
        return "the state has other rewards than it teaches"
    return None
