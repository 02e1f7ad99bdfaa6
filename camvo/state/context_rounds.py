"""The contexts of rounds that asked all arms, each beside the pattern of its votes.

Vote patterns are counted and know no context. Where the skill of an arm depends on the task, only rounds
with both can show it. Rounds that stopped early because of their votes are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from camvo.state.vote_patterns import VotePattern
from camvo.typing import Array

MOST_CONTEXTS: Final = 2000
"""How many rounds are kept: the latest ones, 3 MB at d = 384."""

_GROWTH: Final = 1.2
"""The growth of the number of rounds after which a view is renewed, as costly fits need it."""


@dataclass(frozen=True, slots=True, eq=False)
class LatestContexts:
    """An immutable view of the rounds. Hashed by identity, so that fits of it can be cached.

    Attributes:
        patterns: the pattern of each round's votes, n of them, the oldest first.
        contexts: the rounds' contexts, shape (n, d), in float32.
    """

    patterns: tuple[VotePattern, ...] = ()
    contexts: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))


NO_CONTEXTS: Final = LatestContexts()


@dataclass(slots=True, eq=False)
class ContextRounds:
    """The rounds, in the order in which they were added.

    Attributes:
        patterns: the pattern of each round's votes, the oldest first.
        contexts: the rounds' contexts, shape (d,) each.
        latest: the view that fits read. It lags up to a fifth of the rounds behind.
    """

    patterns: list[VotePattern] = field(default_factory=list)
    contexts: list[NDArray[np.float32]] = field(default_factory=list)
    latest: LatestContexts = NO_CONTEXTS
    _added: int = 0
    """How many rounds were added or taken back since the view was renewed."""

    def add(self, pattern: VotePattern, context: Array, sign: int) -> None:
        """Add a round (+1) or take it back (−1). A round that is not kept any more has no effect then."""
        short = np.asarray(context, dtype=np.float32)
        if sign < 0:
            self._remove(pattern, short)
            return
        self.patterns.append(pattern)
        self.contexts.append(short)
        self._added += 1
        if len(self.patterns) > MOST_CONTEXTS:
            del self.patterns[0], self.contexts[0]
        if self._added > (_GROWTH - 1.0) * len(self.latest.patterns):
            self._renew()

    def _remove(self, pattern: VotePattern, context: NDArray[np.float32]) -> None:
        for position in reversed(range(len(self.patterns))):
            if self.patterns[position] == pattern and np.array_equal(self.contexts[position], context):
                del self.patterns[position], self.contexts[position]
                self._renew()
                return

    def _renew(self) -> None:
        self._added = 0
        self.latest = LatestContexts(tuple(self.patterns), np.array(self.contexts))

    def renamed(self, names: Mapping[str, str]) -> ContextRounds:
        """The same rounds with other names (old → new) for some arms."""
        rounds = ContextRounds([pattern.renamed(names) for pattern in self.patterns], self.contexts)
        rounds._renew()
        return rounds

    def to_list(self) -> list[Any]:
        """The patterns, and how many of the latest rounds the view lacks, as plain JSON."""
        return [[pattern.to_list() for pattern in self.patterns], self._added]

    def to_array(self) -> NDArray[np.float32]:
        """The contexts, shape (n, d)."""
        return np.array(self.contexts, dtype=np.float32)

    @classmethod
    def from_parts(cls, data: list[Any], contexts: NDArray[np.float32]) -> ContextRounds:
        """Inverse of :meth:`to_list` and :meth:`to_array`."""
        patterns, added = data
        rounds = cls([VotePattern.from_list(row) for row in patterns], [*contexts])
        rounds._renew()
        seen = len(rounds.patterns) - added
        rounds.latest = LatestContexts(rounds.latest.patterns[:seen], rounds.latest.contexts[:seen])
        rounds._added = added
        return rounds
