"""The learned state: a sum of contributions.

A finished round adds a :class:`Contribution`. A human label adds another, which replaces the old rewards by
new ones. Withdrawing the label adds the opposite. Learning, correcting and withdrawing are therefore one
operation on signed sums. Only the vote patterns, the few rounds that are kept whole
(:mod:`camvo.state.kept_rounds`) and the texts that teach the student, up to a fixed number, grow with the
number of rounds.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar
from zipfile import BadZipFile

import numpy as np

from camvo.errors import InvalidParameterError, SnapshotError
from camvo.state.arm import NEWCOMER, Arm, Standing
from camvo.state.beta_mixture import BetaSums, EstimatorName
from camvo.state.confidences import ConfidenceSums
from camvo.state.contribution import Change, Contribution
from camvo.state.kept_rounds import KeptRounds
from camvo.state.linucb import Inverse, score
from camvo.state.pairs import PairSums
from camvo.state.vote_patterns import ExplorationSums
from camvo.student.taught_texts import TaughtTexts
from camvo.typing import Array

_SNAPSHOT_FORMAT = 5


class State:
    """What a policy knows about one question of one project.

    An arm appears with its first reward, so a model that joins the pool later starts from nothing. A model
    that leaves keeps its sums. Taking contributions back is exact to 1e-9 for λ_L ≥ 0.01; with a smaller λ_L
    the first contexts are lost in rounding. A contribution that removes rewards must have a change for every
    arm of its round, as :func:`.revision` makes it. Otherwise ``pairs`` keeps part of the round.

    Args:
        dimension: d ≥ 1, the length of the contexts.
        lambda_l: λ_L > 0, the ridge strength of the linear models.

    Attributes:
        rounds: t, the number of completed rounds.
        pairs: which arms are right together.
        exploration: vote patterns of the exploration rounds.
        kept_rounds: the rounds that are kept whole.
        confidences: how sure the arms said they were, beside whether they were right.
        texts: the texts that teach the student.

    >>> import numpy as np
    >>> state = State(dimension=2, lambda_l=1.0)
    >>> state.add(Contribution(np.array([1.0, 0.0]), (Change("small", 0.5, None, 1.0),)))
    >>> state.rounds, state["small"].rewards, state["small"].b.tolist()
    (1, 1, [1.0, 0.0])
    """

    _arm: ClassVar[type[Arm]] = Arm
    """The class of one arm's sums; a subclass of the state may replace it."""

    def __init__(self, dimension: int, lambda_l: float = 1.0) -> None:
        if dimension < 1 or not lambda_l > 0:
            raise InvalidParameterError(
                f"a state needs a dimension ≥ 1 and λ_L > 0, got {dimension} and {lambda_l}"
            )
        self.dimension = dimension
        self.lambda_l = float(lambda_l)
        self.rounds = 0
        self.pairs = PairSums()
        self.exploration = ExplorationSums()
        self.kept_rounds = KeptRounds()
        self.confidences = ConfidenceSums()
        self.texts = TaughtTexts()
        self._arms: dict[str, Arm] = {}

    def __getitem__(self, arm: str) -> Arm:
        return self._arms[arm]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arms)

    def get(self, arm: str) -> Arm | None:
        """The arm's sums, or ``None`` if it has no history."""
        return self._arms.get(arm)

    def standings(self, arms: Sequence[str], estimator: EstimatorName) -> list[Standing]:
        """What is known of each arm whatever the context, in the order of ``arms``."""
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
            InvalidParameterError: the context does not fit the state or is not finite.
        """
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
        lessons: dict[str, list[tuple[Array, Change]]] = {}
        for contribution in contributions:
            if contribution.context.shape != (self.dimension,):
                raise InvalidParameterError(
                    f"the context has shape {contribution.context.shape}, "
                    f"but the state has d = {self.dimension}"
                )
            for change in contribution.changes:
                lessons.setdefault(change.arm, []).append((contribution.context, change))
            if contribution.dropped is not None:
                self.kept_rounds.remove(contribution.dropped)
                self.confidences.add_people(contribution.dropped, -1)
            if contribution.kept is not None:
                self.kept_rounds.add(contribution.kept)
                self.confidences.add_people(contribution.kept, +1)
            if contribution.untaught is not None:
                self.texts.remove(contribution.untaught)
            if contribution.taught is not None:
                self.texts.add(contribution.taught)
            if contribution.compared:
                self.confidences.add(contribution.compared, contribution.rounds)
        self.rounds += sum(contribution.rounds for contribution in contributions)
        for name, arm_lessons in lessons.items():
            if name not in self._arms:
                self._arms[name] = self._arm(Inverse(self.dimension, self.lambda_l), np.zeros(self.dimension))
            self._arms[name].learn(arm_lessons)
        changes = [contribution.changes for contribution in contributions]
        self.pairs.add([{c.arm: c.removed for c in row if c.removed is not None} for row in changes], -1)
        self.pairs.add([{c.arm: c.added for c in row if c.added is not None} for row in changes], +1)
        for contribution in contributions:
            if contribution.exploration is not None:
                self.exploration.add(contribution.exploration, contribution.rounds)

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
            "rounds": self.rounds,
            "pairs": self.pairs.names,
            "probes": self.exploration.to_list(),
            "rows": self.kept_rounds.to_list(),
            "confidences": self.confidences.to_list(),
            "texts": self.texts.to_list(),
            "arms": {
                name: {"rewards": arm.rewards, "reward_sum": arm.reward_sum, "mixture": arm.mixture.to_list()}
                for name, arm in self._arms.items()
            },
        }
        arrays: dict[str, Any] = {}
        for position, arm in enumerate(self._arms.values()):
            arrays[f"inverse{position}"], arrays[f"signs{position}"] = arm.inverse.to_arrays()
            arrays[f"b{position}"] = arm.b
        buffer = io.BytesIO()
        encoded = np.frombuffer(json.dumps(header).encode(), np.uint8)
        np.savez(buffer, header=encoded, pairs=self.pairs.sums, **arrays)
        return buffer.getvalue()

    @classmethod
    def restore(cls, data: bytes) -> State:
        """Inverse of :meth:`snapshot`.

        Raises:
            SnapshotError: the bytes are not a snapshot, or a snapshot of another format.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                header = json.loads(archive["header"].tobytes())
                if header["format"] != _SNAPSHOT_FORMAT:
                    raise SnapshotError(
                        f"the snapshot has format {header['format']}, expected {_SNAPSHOT_FORMAT}"
                    )
                state = cls(header["dimension"], header["lambda_l"])
                state.rounds = header["rounds"]
                state.pairs = PairSums(header["pairs"], archive["pairs"])
                state.exploration = ExplorationSums.from_list(header["probes"])
                state.kept_rounds = KeptRounds.from_list(header["rows"])
                if "confidences" in header:
                    state.confidences = ConfidenceSums.from_list(header["confidences"])
                if "texts" in header:
                    state.texts = TaughtTexts.from_list(header["texts"])
                for position, (name, sums) in enumerate(header["arms"].items()):
                    state._arms[name] = cls._arm(
                        inverse=Inverse.from_arrays(
                            archive[f"inverse{position}"], archive[f"signs{position}"], state.lambda_l
                        ),
                        b=archive[f"b{position}"],
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
