"""The learned state: a sum of contributions, and nothing else.

A finished round adds a :class:`Contribution`; a human answer appends another that takes the old rewards out
and puts the new ones in; a withdrawn one appends the opposite. Learning, correcting and withdrawing are thus
one operation on signed sums, and nothing here grows with the number of rounds but the few that are kept whole
(:mod:`camvo.state.kept_rounds`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any
from zipfile import BadZipFile

import numpy as np

from camvo.errors import InvalidParameterError, SnapshotError
from camvo.state.arm import NEWCOMER, Arm, Standing, look
from camvo.state.beta_mixture import BetaSums, EstimatorName
from camvo.state.contribution import Change, Contribution
from camvo.state.kept_rounds import Rows
from camvo.state.linucb import Inverse
from camvo.state.lookahead import Lookahead
from camvo.state.pairs import PairSums
from camvo.state.vote_patterns import ProbeSums
from camvo.typing import Array

_SNAPSHOT_FORMAT = 5


class State:
    """What a policy knows about one question of one project.

    Arms appear with their first reward: a model that joins the pool later starts from nothing, one that
    leaves keeps its sums and costs nothing. ``lambda_l`` is the paper's λ_L > 0, ``dimension`` is d. Undoing
    is exact to 1e-9 for λ_L ≥ 0.01; with a smaller one the first contexts are lost in rounding. ``pairs``
    says which arms are right together; a contribution that takes rewards out names every arm of its round,
    as :func:`revision` does, or the pairs keep what is left of it.

    >>> import numpy as np
    >>> state = State(dimension=2, lambda_l=1.0)
    >>> lesson = Contribution(np.array([1.0, 0.0]), (Change("small", 0.5, None, 1.0),))
    >>> state.add(lesson)
    >>> state.rounds, state["small"].rewards, state["small"].b.tolist()
    (1, 1, [1.0, 0.0])
    """

    def __init__(self, dimension: int, lambda_l: float = 1.0) -> None:
        if dimension < 1 or not lambda_l > 0:
            raise InvalidParameterError(f"need dimension ≥ 1 and λ_L > 0, got {dimension} and {lambda_l}")
        self.dimension = dimension
        self.lambda_l = float(lambda_l)
        self.rounds = 0
        self.pairs = PairSums()
        self.probes = ProbeSums()
        self.rows = Rows()
        self._arms: dict[str, Arm] = {}
        self._ahead: Lookahead | None = None

    def __getitem__(self, arm: str) -> Arm:
        return self._arms[arm]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arms)

    def get(self, arm: str) -> Arm | None:
        """The arm's sums, or ``None`` when it has no history."""
        return self._arms.get(arm)

    def standings(self, arms: Sequence[str], estimator: EstimatorName) -> list[Standing]:
        """What is known of each arm whatever the context."""
        known = [self._arms.get(name) for name in arms]
        return [NEWCOMER if arm is None else arm.standing(estimator) for arm in known]

    def look_ahead(self, contexts: Sequence[Array]) -> None:
        """Announce contexts that will be scored and learnt from one after the other.

        Nothing that is scored or learnt changes but for rounding; for some dozens of contexts both cost a
        fraction, and K·m·d numbers are held until others are scored.

        Args:
            contexts: m embeddings of shape (d,), all finite; to be scored as the same objects, unchanged.

        Raises:
            InvalidParameterError: a context does not fit the state or is not finite.
        """
        self._ahead = Lookahead(contexts, self.dimension)

    def score(self, arms: Sequence[str], contexts: Sequence[Array]) -> tuple[Array, Array]:
        """Each arm's estimate q and width for each context (lines 6–7), shape (m, K) each.

        An arm without rewards has q = 0 and the width 0. What was solved on the way is kept until other
        contexts are scored, so that learning from the same context objects does not solve it again.

        Args:
            arms: the names of the K arms.
            contexts: m embeddings of shape (d,), all finite.

        Raises:
            InvalidParameterError: a context does not fit the state or is not finite.
        """
        ahead = self._ahead
        span = None if ahead is None else ahead.span(contexts)
        if ahead is None or span is None:
            self._ahead = ahead = Lookahead(contexts, self.dimension)
            span = slice(None)
        known = {
            position: arm
            for position, name in enumerate(arms)
            if (arm := self._arms.get(name)) is not None and arm.rewards
        }
        views = look(ahead, [*known.values()])
        found = np.zeros((len(arms), 2, len(contexts)))
        for position, view in zip(known, views, strict=True):
            found[position] = view.estimates()[:, span]
        q, squares = found.transpose(1, 2, 0)
        return q, np.sqrt(np.maximum(squares, 0.0))

    def add(self, *contributions: Contribution) -> None:
        """Add contributions in place; many at once are quicker than one by one, and the sum is the same.

        Raises:
            InvalidParameterError: a context has another dimension than the state.
        """
        lessons: dict[str, list[tuple[Array, Change]]] = {}
        for contribution in contributions:
            if contribution.context.shape != (self.dimension,):
                raise InvalidParameterError(
                    f"context of shape {contribution.context.shape}, the state has d = {self.dimension}"
                )
            for change in contribution.changes:
                lessons.setdefault(change.arm, []).append((contribution.context, change))
            if contribution.dropped is not None:
                self.rows.remove(contribution.dropped)
            if contribution.kept is not None:
                self.rows.add(contribution.kept)
        self.rounds += sum(contribution.rounds for contribution in contributions)
        for name, taught in lessons.items():
            if name not in self._arms:
                self._arms[name] = Arm.fresh(self.dimension, self.lambda_l)
            self._arms[name].learn(taught)
        changes = [contribution.changes for contribution in contributions]
        self.pairs.add([{c.arm: c.removed for c in row if c.removed is not None} for row in changes], -1)
        self.pairs.add([{c.arm: c.added for c in row if c.added is not None} for row in changes], +1)
        for contribution in contributions:
            if contribution.probe is not None:
                self.probes.add(contribution.probe, contribution.rounds)

    def snapshot(self) -> bytes:
        """The state as bytes: a NumPy ``.npz`` archive, read back by :meth:`restore` to the same bits."""
        header = {
            "format": _SNAPSHOT_FORMAT,
            "dimension": self.dimension,
            "lambda_l": self.lambda_l,
            "rounds": self.rounds,
            "pairs": self.pairs.names,
            "probes": self.probes.to_list(),
            "rows": self.rows.to_list(),
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
            SnapshotError: the bytes are no snapshot, or one of another format.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                header = json.loads(archive["header"].tobytes())
                if header["format"] != _SNAPSHOT_FORMAT:
                    raise SnapshotError(
                        f"a snapshot of format {header['format']}, expected {_SNAPSHOT_FORMAT}"
                    )
                state = cls(header["dimension"], header["lambda_l"])
                state.rounds = header["rounds"]
                state.pairs = PairSums(header["pairs"], archive["pairs"])
                state.probes = ProbeSums.from_list(header["probes"])
                state.rows = Rows.from_list(header["rows"])
                for position, (name, sums) in enumerate(header["arms"].items()):
                    state._arms[name] = Arm(
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
