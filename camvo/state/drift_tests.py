"""Continuous tests of one question: do stops keep their promise, and have votes changed?

Exploration rounds feed them, in the order of the ledger. All of them are valid at every look. Suppose
that tasks arrive in random order, models do not change and stops keep their promise. Then all tests together
ever raise a false alarm with a probability of at most 5%.

Three kinds of tests:

- *Stops*: is the label of the learned rule wrong no more often than promised
  (:class:`camvo.numerics.sequential_tests.PromiseTest`)?
- *Tasks*: do the arms disagree with each other as often as before? The score of a round is the share of the
  pairs of arms that voted for different labels.
- *Arms*: does each arm disagree with the others as often as before? The score of a round is the share of the
  others that voted for another label.

The last two look only at votes that were asked for independently of other votes. Where tasks become harder,
all arms disagree more. An arm has changed only if the others do not disagree more among themselves, so there
is also a test of the tasks without each arm, which raises no alarm itself.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from camvo.numerics.sequential_tests import STEPS, ExchangeabilityTest, PromiseTest
from camvo.state.contribution import Restart
from camvo.state.exploration import SILENT, ExplorationRound

_LEVEL: Final = 0.05
"""The probability of ever raising a false alarm. Each kind of tests gets a third, and each arm its share."""

_MORE: Final = (0.5, 1.0, 2.0, 4.0)
_MORE_OR_LESS: Final = (1.0, 2.0, 4.0, -1.5)
_CLEAR: Final = 3.0
"""An arm is blamed if its evidence is this many times that of each other arm, and of the others together."""

_WAIT: Final = 5.0
"""The further evidence to wait for after an alarm, to decide whether an arm or the tasks have changed."""


def _needed_evidence(level: float, earlier: int) -> float:
    """The evidence for an alarm with which a series of tests keeps one level, after ``earlier`` tests.

    The n-th test of a series gets 6/(π²·n²) of the level; together they get all of it.
    """
    return math.log(math.pi**2 / 6.0 * (earlier + 1) ** 2 / level)


class DriftTests:
    """The tests of one question.

    Attributes:
        stops: the test of the stops' promise since the last restart.
        tasks: the test of the arms' disagreement since the last restart of the tasks or an arm.
        arms: arm → the test of its disagreement with the others.
        restarts: how many restarts there were.
        rounds: the number of exploration rounds since the last restart.
        seen: the number of all exploration rounds.
    """

    def __init__(self) -> None:
        self.stops = PromiseTest()
        self.tasks = ExchangeabilityTest(_MORE)
        self.arms: dict[str, ExchangeabilityTest] = {}
        self.restarts = 0
        self.rounds = 0
        self.seen = 0
        self._without: dict[str, ExchangeabilityTest] = {}

    def add(self, round_: ExplorationRound) -> None:
        """Add one exploration round, after all earlier ones. Tasks that were chosen are no random order."""
        self.rounds += 1
        self.seen += 1
        if round_.chosen:
            return
        if round_.right is not None and round_.promised is not None:
            self.stops.add(round_.promised, right=round_.right)
        stratum = tuple(round_.witnesses)
        voted = {arm: group for arm, group in round_.witnesses.items() if group != SILENT}
        if len(voted) < 2:
            return
        _add(self.tasks, stratum, voted.values(), self._draw("tasks"))
        for arm, group in voted.items():
            others = [other for name, other in voted.items() if name != arm]
            differ = sum(other != group for other in others)
            test = self.arms.setdefault(arm, ExchangeabilityTest(_MORE_OR_LESS))
            test.add(stratum, round(STEPS * differ / len(others)), self._draw(arm))
            if len(others) > 1:
                test = self._without.setdefault(arm, ExchangeabilityTest(_MORE))
                _add(test, stratum, others, self._draw(f"without {arm}"))

    def due(self) -> Restart | None:
        """The restart that is due, if any."""
        level = _LEVEL / 3.0
        arms = sorted(self.arms, key=lambda arm: self.arms[arm].evidence, reverse=True)
        excess = -math.inf
        if arms:
            of_tasks = self.tasks.evidence - _needed_evidence(level, self.restarts)
            of_arm = self.arms[arms[0]].evidence - _needed_evidence(level / len(arms), self.restarts)
            excess = max(of_tasks, of_arm)
        if excess >= 0.0 and (changed := self._changed(arms, excess)) is not None:
            return changed
        if self.stops.evidence >= _needed_evidence(level, self.restarts):
            return Restart(
                "stops",
                self.restarts,
                rounds=self.stops.tried,
                wrong=self.stops.tried - self.stops.right,
                promised=self.stops.promised,
                evidence=self.stops.evidence,
            )
        return None

    def _changed(self, arms: Sequence[str], excess: float) -> Restart | None:
        """The arm with the most evidence if the others have little, else the tasks; ``None`` to wait."""
        first, *others = (self.arms[arm].evidence for arm in arms)
        rest = self._without[arms[0]].evidence if arms[0] in self._without else math.inf
        if first > _CLEAR * max([*others, rest, 0.0]):
            return Restart("arm", self.restarts, rounds=self.rounds, evidence=first, arm=arms[0])
        if excess >= _WAIT or rest >= _needed_evidence(_LEVEL / 3.0, self.restarts) / 2.0:
            evidence = max(first, self.tasks.evidence)
            return Restart("tasks", self.restarts, rounds=self.rounds, evidence=evidence)
        return None

    def restart(self, restart: Restart) -> None:
        """Begin anew after a restart.

        After ``"stops"`` only the test of the promise begins anew. After ``"tasks"`` all do. After an arm's
        restart all do, but scores in which the arm had no part are kept.
        """
        self.restarts += 1
        self.rounds = 0
        self.stops = PromiseTest()
        if restart.kind == "stops":
            return
        if restart.arm is None:
            self.tasks = ExchangeabilityTest(_MORE)
            self.arms, self._without = {}, {}
            return
        self.arms.pop(restart.arm, None)
        self._without.pop(restart.arm, None)
        for test in (self.tasks, *self.arms.values(), *self._without.values()):
            test.restart(without=restart.arm)

    def _draw(self, test: str) -> float:
        """A number in [0, 1) that breaks a tie, the same in every process."""
        key = f"{self.seen} {test}".encode("utf-8", "replace")
        return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") / 2.0**64

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DriftTests) and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]

    def to_list(self) -> list[Any]:
        """The tests as plain JSON, for a snapshot."""
        return [
            self.restarts,
            self.rounds,
            self.seen,
            self.stops.to_list(),
            self.tasks.to_list(),
            {arm: test.to_list() for arm, test in self.arms.items()},
            {arm: test.to_list() for arm, test in self._without.items()},
        ]

    @classmethod
    def from_list(cls, data: list[Any]) -> DriftTests:
        """Inverse of :meth:`to_list`."""
        tests = cls()
        tests.restarts, tests.rounds, tests.seen, stops, tasks, arms, without = data
        tests.stops = PromiseTest.from_list(stops)
        tests.tasks = ExchangeabilityTest.from_list(tasks)
        tests.arms = {arm: ExchangeabilityTest.from_list(test) for arm, test in arms.items()}
        tests._without = {arm: ExchangeabilityTest.from_list(test) for arm, test in without.items()}
        return tests


def _add(test: ExchangeabilityTest, stratum: tuple[str, ...], groups: Iterable[int], draw: float) -> None:
    """Add the share of pairs that voted for different labels."""
    sizes = Counter(groups)
    voted = sizes.total()
    alike = sum(size * (size - 1) for size in sizes.values())
    test.add(stratum, round(STEPS * (1.0 - alike / (voted * (voted - 1)))), draw)
