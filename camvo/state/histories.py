"""The histories of the arms: a model that has changed starts a new one, and nothing of the old one is lost.

The sums of an arm's current history are kept under its name, those of its other histories under a name that
no model has. Whoever reads the state by an arm's name thus sees the current history only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

RUN = 20
"""How many answers in a row must report another version before the arm continues with another history.

While a provider rolls a version out, two versions alternate. Neither then starts a history, until one of them
has given this many answers in a row.
"""

MOST_VERSIONS = 8
"""How many versions of an arm may start a history. Where a provider reports ever new ones, only a test of the
arm's votes starts another."""

_SEPARATOR = "\x1f"


@dataclass(slots=True)
class _Versions:
    """The versions of one arm: the current one, a run of answers by another, and version → its history."""

    current: str
    known: dict[str, int] = field(default_factory=dict)
    other: str | None = None
    run: int = 0


@dataclass(slots=True)
class Histories:
    """Which history of each arm is current.

    Attributes:
        current: arm → the number of its current history; arms that never changed, with number 0, are absent.
        begun: arm → the number of the history that was begun last; absent like those in ``current``.
    """

    current: dict[str, int] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    _versions: dict[str, _Versions] = field(default_factory=dict)

    def name(self, arm: str, number: int) -> str:
        """The name under which the sums of an arm's history are kept."""
        return arm if number == self.current.get(arm, 0) else f"{arm}{_SEPARATOR}{number}"

    def names(self, arms: Mapping[str, int], among: set[str]) -> dict[str, str]:
        """Arm → the name of its history, for those in ``among`` whose history in ``arms`` is not current.

        Args:
            arms: arm → the number of the history that a round belongs to; 0 for those that are absent.
            among: the arms of the round.
        """
        return {
            arm: self.name(arm, arms.get(arm, 0))
            for arm in among & (self.current.keys() | arms.keys())
            if arms.get(arm, 0) != self.current.get(arm, 0)
        }

    def current_of(self, arms: Iterable[str]) -> dict[str, int]:
        """Arm → the number of its current history, for those of ``arms`` where it is not 0."""
        return {arm: number for arm in arms if (number := self.current.get(arm, 0))}

    def next(self, arm: str) -> int:
        """The number of the next new history of an arm."""
        return self.begun.get(arm, 0) + 1

    def switch(self, arm: str, number: int, version: str | None) -> dict[str, str]:
        """Make a history current.

        Args:
            arm: the arm.
            number: the history's number.
            version: the arm's version in it; ``None`` if its version stays as it is.

        Returns:
            Old → new name of the two histories that change places.
        """
        before = self.current.get(arm, 0)
        self.current[arm] = number
        self.begun[arm] = max(self.begun.get(arm, 0), number)
        if (versions := self._versions.get(arm)) is not None:
            versions.current = version or versions.current
            versions.known[versions.current] = number
            versions.other, versions.run = None, 0
        return {arm: self.name(arm, before), f"{arm}{_SEPARATOR}{number}": arm}

    def note_version(self, arm: str, version: str) -> None:
        """Note the version that an answer of the arm reports. Its first version starts no new history."""
        versions = self._versions.get(arm)
        if versions is None:
            self._versions[arm] = _Versions(version, {version: self.current.get(arm, 0)})
        elif version == versions.current:
            versions.other, versions.run = None, 0
        else:
            versions.run = versions.run + 1 if version == versions.other else 1
            versions.other = version

    @property
    def known_arms(self) -> tuple[str, ...]:
        """The arms whose provider reports a version."""
        return tuple(self._versions)

    def version(self, arm: str) -> str | None:
        """The version of the arm's current history; ``None`` if its provider reports none."""
        return versions.current if (versions := self._versions.get(arm)) is not None else None

    def changed_version(self) -> tuple[str, str, int] | None:
        """An arm whose version has changed, its new version, and the number of the history for it."""
        for arm, versions in self._versions.items():
            other, known = versions.other, versions.known
            if other is not None and versions.run >= RUN and (other in known or len(known) < MOST_VERSIONS):
                return arm, other, known.get(other, self.next(arm))
        return None

    def to_list(self) -> list[Any]:
        """The histories as plain JSON, for a snapshot."""
        versions = {arm: asdict(each) for arm, each in self._versions.items()}
        return [self.current, self.begun, versions]

    @classmethod
    def from_list(cls, data: list[Any]) -> Histories:
        """Inverse of :meth:`to_list`."""
        current, begun, versions = data
        return cls(current, begun, {arm: _Versions(**each) for arm, each in versions.items()})
