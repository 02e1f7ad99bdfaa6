"""The learned state: a sum of contributions.

A finished round adds a :class:`Contribution`. A human label adds another, which replaces the old rewards by
new ones. Withdrawing the label adds the opposite. Learning, correcting and withdrawing are therefore one
operation on signed sums. Only the vote patterns, the few rounds that are kept whole
(:class:`.KeptRound`) and the student's texts, up to a fixed number, grow with the number of
rounds.

The tests of drift and the versions that answers report are not sums: they depend on
the order of the rounds, and a corrected or withdrawn round stays in them. A restart that they require becomes
a separate contribution (:meth:`State.restart_due`), so that every replay of the ledger restarts at the same
place.

**Drift**: continuous tests of one question: do stops keep their promise, and have votes changed?

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
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final
from zipfile import BadZipFile

import numpy as np

from camvo.errors import InvalidParameterError, SnapshotError
from camvo.numerics.sequential_tests import STEPS, ExchangeabilityTest, PromiseTest
from camvo.numerics.small import is_known
from camvo.state.arm import (
    NEWCOMER,
    NOT_LINEAR,
    Arm,
    BetaSums,
    EstimatorName,
    Histories,
    Inverse,
    PairSums,
    Standing,
    score,
)
from camvo.state.contribution import Change, ConfidenceSums, Contribution, KeptRounds, Restart
from camvo.state.earlier import NOTHING_EARLIER, Earlier
from camvo.state.exploration import ContextRounds, ExplorationRound, ExplorationSums
from camvo.student import TaughtTexts
from camvo.typing import Array

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
        voted = round_.witnesses
        if len(voted) < 2:
            return
        # Not those asked: a model that is down for an hour has not changed, and neither have the others.
        stratum = tuple(voted)
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


_SNAPSHOT_FORMAT = 8


class State:
    """What a policy knows about one question of one project.

    An arm appears with its first reward, so a model that joins the pool later starts from nothing. A model
    that leaves keeps its sums. Taking contributions back is exact to 1e-9 for λ_L ≥ 0.01; with a smaller λ_L
    the first contexts are lost in rounding. A contribution that removes rewards must have a change for every
    arm of its round, as :func:`.revision` makes it. Otherwise ``pairs`` keeps part of the round.

    Args:
        dimension: d ≥ 1, the length of the contexts.
        lambda_l: λ_L > 0, the ridge strength of the linear models.
        linear: whether to keep the arms' linear models of the context (A⁻¹ and b): d² numbers an arm, 132 MB
            for seven arms at d = 1,536. Policies that never read them need none
            (:meth:`camvo.policies.ensemble.Ensemble.linear`).

    Attributes:
        rounds: t, the number of completed rounds.
        pairs: which arms are right together.
        exploration: vote patterns of the exploration rounds.
        kept_rounds: the rounds that are kept whole.
        context_rounds: the contexts of rounds that asked all arms.
        confidences: how sure the arms said they were, beside whether they were right.
        texts: the texts that teach the student.
        drift: the tests of the stops' promise and of the arms.
        histories: which history of each arm is current.
        restarted_at: t at the last restart; 0 if there was none.
        restarts: the restarts, the oldest first.
        earlier: what earlier projects taught about the arms.

    >>> import numpy as np
    >>> state = State(dimension=2, lambda_l=1.0)
    >>> state.add(Contribution(np.array([1.0, 0.0]), (Change("small", 0.5, None, 1.0),)))
    >>> state.rounds, state["small"].rewards, state["small"].b.tolist()
    (1, 1, [1.0, 0.0])
    """

    _arm: ClassVar[type[Arm]] = Arm
    """The class of one arm's sums; a subclass of the state may replace it."""

    def __init__(self, dimension: int, lambda_l: float = 1.0, *, linear: bool = True) -> None:
        if dimension < 1 or not lambda_l > 0:
            raise InvalidParameterError(
                f"a state needs a dimension ≥ 1 and λ_L > 0, got {dimension} and {lambda_l}"
            )
        self.dimension = dimension
        self.lambda_l = float(lambda_l)
        self.linear = linear
        self.rounds = 0
        self.pairs = PairSums()
        self.exploration = ExplorationSums()
        self.kept_rounds = KeptRounds()
        self.context_rounds = ContextRounds()
        self.confidences = ConfidenceSums()
        self.texts = TaughtTexts()
        self.drift = DriftTests()
        self.histories = Histories()
        self.restarted_at = 0
        self.restarts: list[Restart] = []
        self.earlier = NOTHING_EARLIER
        self._arms: dict[str, Arm] = {}

    def __getitem__(self, arm: str) -> Arm:
        return self._arms[arm]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arms)

    def get(self, arm: str) -> Arm | None:
        """The arm's sums, or ``None`` if it has no history."""
        return self._arms.get(arm)

    def standings(self, arms: Sequence[str], estimator: EstimatorName) -> list[Standing]:
        """What is known of each arm regardless of the context, in the order of ``arms``."""
        return [
            NEWCOMER if (arm := self._arms.get(name)) is None else arm.standing(estimator) for name in arms
        ]

    def score(self, arms: Sequence[str], context: Array) -> tuple[Array, Array]:
        """Compute each arm's estimate q and width for one context (Algorithm 1, lines 6–7, before α).

        An arm without rewards has q = 0 and width 0.

        Args:
            arms: the names of the K arms.
            context: the embedding, shape (d,), finite.

        Returns:
            The estimates and the widths, shape (K,) each.

        Raises:
            InvalidParameterError: the context does not fit the state or is not finite, or the state keeps no
                linear models.
        """
        if not self.linear:
            raise InvalidParameterError(NOT_LINEAR)
        rows = check_contexts([context], self.dimension)
        scored = self._rewarded(arms)
        solved = np.empty((len(scored), *rows.shape))
        for arm, row in zip(scored.values(), solved, strict=True):
            arm.inverse.solve(rows, row)
        estimates = np.zeros((len(arms), 2))
        if scored:
            b = np.array([arm.b for arm in scored.values()])
            estimates[[*scored]] = score(solved, b, rows)[:, :, 0]
        return estimates[:, 0], np.sqrt(np.maximum(estimates[:, 1], 0.0))

    def add(self, *contributions: Contribution) -> None:
        """Add contributions in place. One call with many contributions is faster than many calls.

        Raises:
            InvalidParameterError: a context has another dimension than the state, or a withdrawn context was
                never added.
        """
        for contribution in contributions:
            if contribution.context.shape != (self.dimension,):
                raise InvalidParameterError(
                    f"the context has shape {contribution.context.shape}, "
                    f"but the state has d = {self.dimension}"
                )
        start = 0
        for position, contribution in enumerate(contributions):
            if contribution.restart is not None:
                self._add(contributions[start:position])
                self._restart(contribution.restart)
                start = position + 1
        self._add(contributions[start:])

    def restart_due(self) -> Restart | None:
        """The next restart that is due, if any. Add it as a contribution, and then call this method again."""
        if (changed := self.histories.changed_version()) is not None:
            arm, version, history = changed
            before = self.histories.version(arm)
            due: Restart | None = Restart(
                "version",
                self.drift.restarts,
                arm=arm,
                history=history,
                resumed=history < self.histories.next(arm),
                version=version,
                before=before,
            )
        else:
            due = self.drift.due()
            if due is not None and due.arm is not None:
                due = replace(due, history=self.histories.next(due.arm))
        return None if due is None else replace(due, at=self.rounds)

    def restart_if_due(self) -> None:
        """Add the restarts that are due, for a state whose contributions are kept nowhere else."""
        while (restart := self.restart_due()) is not None:
            self._restart(restart)

    def _add(self, contributions: Sequence[Contribution]) -> None:
        """Add contributions that do not restart anything."""
        lessons: dict[str, list[tuple[Array, Change]]] = {}
        rewards: list[tuple[Change, ...]] = []
        for contribution in contributions:
            names = self._other_names(contribution)
            changes = contribution.changes
            kept, dropped = contribution.kept, contribution.dropped
            if names:
                changes = tuple(c._replace(arm=names.get(c.arm, c.arm)) for c in changes)
                kept, dropped = (r and r.renamed(names) for r in (kept, dropped))
            rewards.append(changes)
            for change in changes:
                lessons.setdefault(change.arm, []).append((contribution.context, change))
            if dropped is not None:
                self.kept_rounds.remove(dropped)
                self.confidences.add_people(dropped, -1)
            if kept is not None:
                self.kept_rounds.add(kept)
                self.confidences.add_people(kept, +1)
            self._add_sure_and_taught(contribution, names)
            for arm, version in contribution.versions.items():
                self.histories.note_version(arm, version)
            if contribution.earlier is not None:
                self.earlier = contribution.earlier
            if contribution.exploration is not None:
                explored = contribution.exploration.renamed(names)
                self.exploration.add(explored, contribution.rounds)
                in_full = explored.pattern.everyone and is_known(contribution.context)
                if in_full and contribution.rounds:
                    self.context_rounds.add(explored.pattern, contribution.context, contribution.rounds)
                if contribution.rounds == 1 and not names:
                    # A promise made before a restart does not count as a test of the stops learnt after it.
                    since = contribution.restarts == self.drift.restarts
                    self.drift.add(explored if since else replace(explored, promised=None))
        self.rounds += sum(contribution.rounds for contribution in contributions)
        for name, arm_lessons in lessons.items():
            if name not in self._arms:
                self._arms[name] = self._new_arm()
            self._arms[name].learn(arm_lessons)
        self.pairs.add([{c.arm: c.removed for c in row if c.removed is not None} for row in rewards], -1)
        self.pairs.add([{c.arm: c.added for c in row if c.added is not None} for row in rewards], +1)

    def _add_sure_and_taught(self, contribution: Contribution, names: Mapping[str, str]) -> None:
        """Add the votes compared with those of other arms, and the text that teaches the student."""
        if contribution.untaught is not None:
            self.texts.remove(contribution.untaught)
        if contribution.taught is not None:
            self.texts.add(contribution.taught)
        if contribution.compared:
            compared = [vote._replace(arm=names.get(vote.arm, vote.arm)) for vote in contribution.compared]
            self.confidences.add(compared, contribution.rounds)

    def _other_names(self, contribution: Contribution) -> dict[str, str]:
        """Arm → the name of its history, for the arms whose history in the contribution is not current."""
        if not self.histories.current:
            return {}
        arms = {change.arm for change in contribution.changes}
        for kept in (contribution.kept, contribution.dropped):
            if kept is not None:
                arms.update(vote.arm for vote in kept.votes)
        if contribution.exploration is not None:
            arms.update(contribution.exploration.pattern.arms)
        arms.update(vote.arm for vote in contribution.compared)
        return self.histories.names(contribution.histories, arms)

    def _restart(self, restart: Restart) -> None:
        """Begin anew. A restart that was due before another one was added is void."""
        if restart.number != self.drift.restarts:
            return
        self.drift.restart(restart)
        self.restarted_at = self.rounds
        self.restarts.append(restart)
        if restart.arm is None:
            self.exploration.forget_stops()
            self.kept_rounds = self.kept_rounds.without_patterns()
            self.context_rounds = ContextRounds()
            return
        names = self.histories.switch(restart.arm, restart.history, restart.version)
        self._arms = {names.get(name, name): arm for name, arm in self._arms.items()}
        self.pairs.rename(names)
        self.exploration.rename(names)
        self.kept_rounds = self.kept_rounds.renamed(names)
        self.context_rounds = self.context_rounds.renamed(names)
        self.confidences = self.confidences.renamed(names)

    def _new_arm(self) -> Arm:
        if not self.linear:
            return self._arm(None, None)
        return self._arm(Inverse(self.dimension, self.lambda_l), np.zeros(self.dimension))

    def _rewarded(self, arms: Sequence[str]) -> dict[int, Arm]:
        """Position in ``arms`` → the arm's sums, for the arms that have rewards."""
        return {
            position: arm
            for position, name in enumerate(arms)
            if (arm := self._arms.get(name)) is not None and arm.rewards
        }

    def snapshot(self) -> bytes:
        """Serialise the state as a NumPy ``.npz`` archive. :meth:`restore` gives the same bits back."""
        header = {
            "format": _SNAPSHOT_FORMAT,
            "dimension": self.dimension,
            "lambda_l": self.lambda_l,
            "linear": self.linear,
            "rounds": self.rounds,
            "pairs": self.pairs.names,
            "probes": self.exploration.to_list(),
            "rows": self.kept_rounds.to_list(),
            "contexts": self.context_rounds.to_list(),
            "confidences": self.confidences.to_list(),
            "texts": self.texts.to_list(),
            "drift": self.drift.to_list(),
            "histories": self.histories.to_list(),
            "restarted_at": self.restarted_at,
            "restarts": [restart.to_dict() for restart in self.restarts],
            "earlier": self.earlier.to_list(),
            "arms": {
                name: {"rewards": arm.rewards, "reward_sum": arm.reward_sum, "mixture": arm.mixture.to_list()}
                for name, arm in self._arms.items()
            },
        }
        arrays: dict[str, Any] = {"contexts": self.context_rounds.to_array()}
        for position, arm in enumerate(self._arms.values() if self.linear else ()):
            arrays[f"inverse{position}"], arrays[f"signs{position}"] = arm.inverse.to_arrays()
            arrays[f"b{position}"] = arm.b
        buffer = io.BytesIO()
        encoded = np.frombuffer(json.dumps(header).encode(), np.uint8)
        np.savez(buffer, header=encoded, pairs=self.pairs.sums, **arrays)
        return buffer.getvalue()

    def with_ridge(self, lambda_l: float) -> State:
        """The same sums with linear models of another ridge strength; exact to 1e-9, as withdrawals are."""
        state = self.restore(self.snapshot())
        for arm in state._arms.values() if self.linear else ():
            arm._inverse = arm.inverse.with_ridge(self.lambda_l, lambda_l)
        state.lambda_l = float(lambda_l)
        return state

    def relabelled(self, label: Callable[[str], str | None]) -> State:
        """The same sums with other labels (:meth:`.Contribution.relabelled`)."""
        state = self.restore(self.snapshot())
        state.exploration.relabel(label)
        state.kept_rounds = state.kept_rounds.relabelled(label)
        state.context_rounds = state.context_rounds.relabelled(label)
        state.confidences = state.confidences.relabelled(label)
        state.texts = state.texts.relabelled(label)
        return state

    @classmethod
    def restore(cls, data: bytes, *, linear: bool | None = None) -> State:
        """Inverse of :meth:`snapshot`.

        Args:
            data: the snapshot.
            linear: whether the state keeps its linear models; ``None`` means if the snapshot has them.

        Raises:
            SnapshotError: the bytes are not a snapshot, a snapshot of another format, or one without the
                linear models that are to be kept.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                header = json.loads(archive["header"].tobytes())
                if header["format"] != _SNAPSHOT_FORMAT:
                    raise SnapshotError(
                        f"the snapshot has format {header['format']}, expected {_SNAPSHOT_FORMAT}"
                    )
                stored = header["linear"]
                if linear and not stored:
                    raise SnapshotError("the snapshot has no linear models of the context")
                keep = stored if linear is None else linear
                state = cls(header["dimension"], header["lambda_l"], linear=keep)
                state.rounds = header["rounds"]
                state.pairs = PairSums(header["pairs"], archive["pairs"])
                state.exploration = ExplorationSums.from_list(header["probes"])
                state.kept_rounds = KeptRounds.from_list(header["rows"])
                state.context_rounds = ContextRounds.from_parts(header["contexts"], archive["contexts"])
                state.confidences = ConfidenceSums.from_list(header["confidences"])
                state.texts = TaughtTexts.from_list(header["texts"])
                state.drift = DriftTests.from_list(header["drift"])
                state.histories = Histories.from_list(header["histories"])
                state.restarted_at = header["restarted_at"]
                state.restarts = [Restart.from_dict(restart) for restart in header["restarts"]]
                state.earlier = Earlier.from_list(header.get("earlier", []))
                for position, (name, sums) in enumerate(header["arms"].items()):
                    inverse, b = None, None
                    if keep:
                        parts = archive[f"inverse{position}"], archive[f"signs{position}"]
                        inverse, b = Inverse.from_arrays(*parts, state.lambda_l), archive[f"b{position}"]
                    state._arms[name] = cls._arm(
                        inverse=inverse,
                        b=b,
                        rewards=sums["rewards"],
                        reward_sum=sums["reward_sum"],
                        mixture=BetaSums.from_list(sums["mixture"]),
                    )
        except (ValueError, TypeError, AttributeError, LookupError, OSError, EOFError, BadZipFile) as error:
            raise SnapshotError(f"not a snapshot of a state: {error}") from error
        return state


def check_contexts(contexts: Sequence[Array], dimension: int) -> Array:
    """Check contexts and stack them into one array of shape (m, d).

    Raises:
        InvalidParameterError: a context does not have the shape (``dimension``,), or is not finite.
    """
    for context in contexts:
        if np.shape(context) != (dimension,):
            raise InvalidParameterError(
                f"the context has shape {np.shape(context)}, but the state has d = {dimension}"
            )
    rows = np.array(contexts, dtype=np.float64).reshape(len(contexts), dimension)
    if not np.isfinite(rows).all():
        raise InvalidParameterError("the context contains NaN or infinity")
    return rows


def findings(state: State) -> dict[str, Any]:
    """What the tests of a state have found, as plain JSON.

    ``tried`` and ``right`` count the rounds that tested a stop: ``all`` of them, and those ``since`` the last
    restart with the number of errors that the stops ``promised`` there. ``rounds`` are those since the last
    restart. ``versions`` are those of the models' current histories.
    """
    stops, tested = state.drift.stops, state.exploration
    return {
        "all": {"tried": tested.tried, "right": tested.right},
        "since": {"tried": stops.tried, "right": stops.right, "promised": stops.promised},
        "rounds": state.rounds - state.restarted_at,
        "restarts": [restart.to_dict() for restart in state.restarts],
        "versions": state.histories.versions,
    }


def findings_with(found: Mapping[str, Any], later: Iterable[Contribution]) -> dict[str, Any]:
    """What the tests have found once later contributions have come to the state, in their order.

    Args:
        found: the findings of a state (:func:`findings`).
        later: what has been added to it since.
    """
    tried, since = {**found["all"]}, {**found["since"]}
    rounds, restarts, versions = found["rounds"], [*found["restarts"]], {**found["versions"]}
    for each in later:
        explored, restart, rounds = each.exploration, each.restart, rounds + each.rounds
        if explored is not None and explored.right is not None:
            tried["tried"] += each.rounds
            tried["right"] += each.rounds * explored.right
            promised = explored.promised if each.restarts == len(restarts) and not explored.chosen else None
            if each.rounds == 1 and promised is not None:
                since["tried"] += 1
                since["right"] += explored.right
                since["promised"] += promised
        if restart is not None and restart.number == len(restarts):
            rounds, since = 0, {"tried": 0, "right": 0, "promised": 0.0}
            restarts.append(restart.to_dict())
            if restart.arm is not None and restart.version is not None:
                versions[restart.arm] = restart.version
    return {"all": tried, "since": since, "rounds": rounds, "restarts": restarts, "versions": versions}
