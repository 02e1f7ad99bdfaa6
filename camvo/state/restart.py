"""Restarts: what begins anew because the tasks or a model have changed. Each is an event of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

RestartKind: TypeAlias = Literal["stops", "tasks", "arm", "version"]
"""What was noticed.

``"stops"``: early stops gave another label than promised too often. ``"tasks"``: the arms agree less with
each other, whichever of them is left out. ``"arm"``: one arm agrees with the others more or less often than
before. ``"version"``: an arm's provider reports another version.
"""


@dataclass(frozen=True, slots=True)
class Restart:
    """What begins anew, and why.

    With ``"stops"`` and ``"tasks"`` the learned stops are forgotten. With ``"arm"`` and ``"version"`` one arm
    continues with another history: what it taught before is kept under the earlier history's number, and
    counts no more while another history is current.

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
