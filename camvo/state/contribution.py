"""What one event teaches the state: changes to sums, as a value that can be stored and taken back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from camvo.state.confidences import SureVote
from camvo.state.earlier import Earlier
from camvo.state.exploration import ExplorationRound
from camvo.state.kept_rounds import KeptRound
from camvo.student.taught_texts import Ngrams, TaughtText
from camvo.typing import Array

RestartKind: TypeAlias = Literal["stops", "tasks", "arm", "version"]
"""The reason for a restart.

``"stops"``: early stops gave another label than promised too often. ``"tasks"``: the arms agree less with
each other, whichever of them is left out. ``"arm"``: one arm agrees with the others more or less often than
before. ``"version"``: an arm's provider reports another version.
"""


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart: what begins anew, and why.

    With ``"stops"`` and ``"tasks"`` the learned stops are forgotten. With ``"arm"`` and ``"version"`` one arm
    continues with another history. Its earlier sums are kept under the earlier history's number and do not
    count while another history is current.

    Attributes:
        kind: what was noticed.
        number: how many restarts of the question came before. Of several with one number the first counts.
        at: t, the number of rounds that were completed when it was noticed.
        rounds: the number of exploration rounds behind the test; for ``"stops"``, of those that tested a
            stop.
        wrong: for ``"stops"``, in how many of them the stop would have given another label than promised.
        promised: for ``"stops"``, in how many of them that was promised to happen.
        evidence: the natural logarithm of the test's wealth; ``None`` for a version.
        arm: the arm that has changed, if one has.
        history: the number of the history with which that arm continues: a new one, or for a version that the
            arm had before, the one of that time.
        resumed: whether the arm had that history before.
        version: the arm's version from now on, if its provider reports one.
        before: the arm's version until now, if its provider reports one.
    """

    kind: RestartKind
    number: int
    at: int = 0
    rounds: int = 0
    wrong: int | None = None
    promised: float | None = None
    evidence: float | None = None
    arm: str | None = None
    history: int = 0
    resumed: bool = False
    version: str | None = None
    before: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The restart as plain JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Restart:
        """Inverse of :meth:`to_dict`."""
        return cls(**data)


class Change(NamedTuple):
    """The change of one arm's rewards.

    Attributes:
        arm: the arm's name.
        q: the arm's estimate when the round was planned. It is stored unclipped.
        removed: the reward to take out, in [0, 1]; ``None`` for none.
        added: the reward to put in, in [0, 1]; ``None`` for none.
    """

    arm: str
    q: float
    removed: float | None
    added: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """What one event teaches the state: a finished round, a correction of its rewards, or a withdrawal.

    Attributes:
        context: the embedding e, shape (d,).
        changes: the changes of the arms' rewards.
        rounds: how many rounds the event completes: 1 for a finished round, 0 for a correction, −1 for a
            withdrawn round.
        exploration: what an exploration round shows about stopping early. It counts ``rounds`` times, so a
            correction does not change it and a withdrawal takes it back.
        kept: the round to keep whole, if any.
        dropped: the kept round that this event removes or replaces, if any.
        compared: votes with a confidence beside the votes of other arms. Like ``exploration``, they count
            ``rounds`` times.
        taught: the text that teaches the student, if any.
        untaught: the text that this event removes or replaces there, if any.
        histories: arm → the number of the history in which the round was planned; 0 for arms that are absent.
        restarts: how many restarts the state had when the round was planned.
        versions: arm → the version that its answer in this round reports. Arms without one are absent.
        restart: what begins anew with this event; such an event teaches nothing else.
        earlier: what earlier projects taught, in place of what the state knew of them.

    >>> lesson = Contribution(np.array([1.0, 0.0]), (Change("small", 0.5, None, 1.0),))
    >>> Contribution.unpack(lesson.pack()).changes
    (Change(arm='small', q=0.5, removed=None, added=1.0),)
    """

    context: Array
    changes: tuple[Change, ...]
    rounds: int = 1
    exploration: ExplorationRound | None = None
    kept: KeptRound | None = None
    dropped: KeptRound | None = None
    compared: tuple[SureVote, ...] = ()
    taught: TaughtText | None = None
    untaught: TaughtText | None = None
    histories: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    restart: Restart | None = None
    earlier: Earlier | None = None

    @classmethod
    def of_earlier(cls, earlier: Earlier, dimension: int) -> Contribution:
        """The event of earlier projects' lessons, for a state with contexts of the length ``dimension``."""
        return cls(np.zeros(dimension), (), rounds=0, earlier=earlier)

    @classmethod
    def of_restart(cls, restart: Restart, dimension: int) -> Contribution:
        """The event of a restart, for a state whose contexts have the length ``dimension``."""
        return cls(np.zeros(dimension), (), rounds=0, restart=restart)

    def pack(self, text: Ngrams = b"") -> bytes:
        """Serialise as a JSON header, a newline and the context, in float32 if that loses nothing.

        What is taught or untaught of ``text``, n-grams that are kept beside the context, has only its label
        in the header, and the n-grams follow the context.
        """
        dtype = (
            "<f4" if np.array_equal(self.context.astype("<f4").astype(np.float64), self.context) else "<f8"
        )
        header: dict[str, Any] = {
            "dtype": dtype,
            "rounds": self.rounds,
            "changes": [[c.arm, c.q, c.removed, c.added] for c in self.changes],
        }
        if self.exploration is not None:
            header["probe"] = self.exploration.to_list()
        if self.compared:
            header["sure"] = [list(vote) for vote in self.compared]
        for name, round_ in (("kept", self.kept), ("dropped", self.dropped)):
            if round_ is not None:
                header[name] = round_.to_list()
        follows = b""
        for name, lesson in (("taught", self.taught), ("untaught", self.untaught)):
            if lesson is not None and text and lesson.ngrams == text:
                header |= {name: [lesson.label], "text": len(text)}
                follows = text
            elif lesson is not None:
                header[name] = lesson.to_list()
        header |= {
            name: dict(numbers)
            for name, numbers in (("histories", self.histories), ("versions", self.versions))
            if numbers
        }
        if self.restarts:
            header["restarts"] = self.restarts
        if self.restart is not None:
            header["restart"] = self.restart.to_dict()
        if self.earlier is not None:
            header["earlier"] = self.earlier.to_list()
        head = json.dumps(header, separators=(",", ":")).encode()
        return head + b"\n" + self.context.astype(dtype).tobytes() + follows

    @classmethod
    def unpack(cls, data: bytes) -> Contribution:
        """Inverse of :meth:`pack`; the context comes back as float64."""
        head, _, body = data.partition(b"\n")
        header = json.loads(head)
        changes = tuple(Change(*change) for change in header["changes"])
        kept, dropped = (
            KeptRound.from_list(header[name]) if name in header else None for name in ("kept", "dropped")
        )
        end = len(body) - header.get("text", 0)
        context, text = np.frombuffer(body[:end], header["dtype"]).astype(np.float64), body[end:]
        exploration = ExplorationRound.from_list(header["probe"]) if "probe" in header else None
        compared = tuple(SureVote(*vote) for vote in header.get("sure", ()))
        taught, untaught = (_lesson(header.get(name), text) for name in ("taught", "untaught"))
        return cls(
            context,
            changes,
            header["rounds"],
            exploration,
            kept,
            dropped,
            compared,
            taught,
            untaught,
            histories=header.get("histories", {}),
            restarts=header.get("restarts", 0),
            versions=header.get("versions", {}),
            restart=Restart.from_dict(header["restart"]) if "restart" in header else None,
            earlier=Earlier.from_list(header["earlier"]) if "earlier" in header else None,
        )

    def relabelled(self, label: Callable[[str], str | None]) -> Contribution:
        """The same contribution with other labels. Rewards stay, so labels that become one earn no more."""
        compared = (vote.relabelled(label) for vote in self.compared)
        return replace(
            self,
            exploration=self.exploration and self.exploration.relabelled(label),
            kept=self.kept and self.kept.relabelled(label),
            dropped=self.dropped and self.dropped.relabelled(label),
            taught=self.taught and self.taught.relabelled(label),
            untaught=self.untaught and self.untaught.relabelled(label),
            compared=tuple(vote for vote in compared if vote is not None),
        )

    def withdrawal(self) -> Contribution:
        """The contribution that takes back everything that the round taught."""
        nothing = Contribution(self.context, (), rounds=0, histories=self.histories)
        return replace(revision(self, nothing), exploration=self.exploration, compared=self.compared)


def _lesson(data: list[str] | None, text: Ngrams) -> TaughtText | None:
    """The header's entry for a text: nothing, its label alone, or the n-grams too."""
    if data is None:
        return None
    return TaughtText(text, data[0]) if len(data) == 1 else TaughtText.from_list(data)


def revision(before: Contribution, after: Contribution) -> Contribution:
    """The contribution that replaces ``before`` by ``after``, two contributions of the same round.

    If no reward differs, there are no changes. Otherwise all arms of the round have a change, including those
    whose reward stays the same, because the sums over pairs of arms need both rewards of a pair.
    """
    old = {change.arm: change for change in before.changes}
    new = {change.arm: change for change in after.changes}
    changes = tuple(
        Change(
            arm=arm,
            q=(new.get(arm) or old[arm]).q,
            removed=old[arm].added if arm in old else None,
            added=new[arm].added if arm in new else None,
        )
        for arm in dict.fromkeys([*old, *new])
    )
    changed = any(change.removed != change.added for change in changes)
    kept, dropped = (None, None) if before.kept == after.kept else (after.kept, before.kept)
    taught, untaught = (None, None) if before.taught == after.taught else (after.taught, before.taught)
    rounds = after.rounds - before.rounds
    return Contribution(
        before.context,
        changes if changed else (),
        rounds,
        kept=kept,
        dropped=dropped,
        taught=taught,
        untaught=untaught,
        histories=before.histories,
    )
