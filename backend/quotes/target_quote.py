"""What it costs to make a given share of all labels right, with models and people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from backend.learning.states import StateKey
from backend.ledger.human_annotations import Annotations
from backend.ledger.rounds import QuestionRounds
from camvo.policies.joint import FIRST, Joint
from camvo.quotes.forecast import KnownVotes
from camvo.quotes.mixes import FEWEST, LabelledVotes, Mix, mixes
from camvo.state.exploration import UNASKED

_KNOWN_ROUNDS_MOST = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class KnownRounds:
    """Rounds that asked everyone about one question.

    Attributes:
        votes: their votes.
        human: the position of the human label among the labels, shape (n,); −1 where there is none.
    """

    votes: KnownVotes
    human: NDArray[np.int64]


def read_known_rounds(
    connection: Connection, key: StateKey, labels: Sequence[str], prices: Mapping[str, float]
) -> KnownRounds:
    """Read the latest rounds on a question that asked all arms of today by a draw."""
    arms, names = tuple(sorted(prices)), tuple(sorted(labels))
    place = {label: number for number, label in enumerate(names)}
    found = QuestionRounds(connection, key.project, key.control, key.epoch).everyone_votes(
        set(arms), _KNOWN_ROUNDS_MOST
    )
    rows = [[place.get(votes[arm] or "", -1) for arm in arms] for votes, _ in found]
    return KnownRounds(
        KnownVotes(
            names,
            arms,
            np.array([prices[arm] for arm in arms]),
            np.array(rows, dtype=np.int64).reshape(-1, len(arms)),
        ),
        np.array([place.get(human or "", -1) for _, human in found], dtype=np.int64),
    )


NONE_TO_COME: Final = "no task is to come; camvo report says how many labels are right"

_MOST: Final = 5_000
"""The most labelled tasks that are read."""


@dataclass(frozen=True, slots=True)
class _MixQuote:
    """The mix that is surely the cheapest (``usd_sure``), in dollars and labels."""

    models_usd: float
    labels: int
    labels_sure: int
    label_usd: float
    usd: float
    usd_sure: float
    people_alone_usd: float
    setting: str | None


@dataclass(frozen=True, slots=True)
class TargetQuote:
    """The answer to ``--target``.

    Attributes:
        target: the share of all labels that is to be right.
        mix: the cheapest mix; ``None`` if too little is known.
        labelled: the number of labelled tasks that it is based on, or could be.
        unknown: why there is none, and what to do; ``None`` if there is one.
    """

    target: float
    mix: _MixQuote | None
    labelled: int = 0
    unknown: str | None = None


def target_quote(  # noqa: PLR0917 - a job, and what is wanted of it
    target: float,
    known: KnownRounds,
    labelled: LabelledVotes,
    policy: Joint,
    tasks: int,
    to_come: int,
    everyone_usd: float,
    label_usd: float,
    rng: np.random.Generator,
) -> TargetQuote:
    """The cheapest mix that reaches a target, or what is missing to know it."""
    count, everyone = len(labelled.human), len(known.votes.rows)
    if not to_come:
        return TargetQuote(target, None, count, NONE_TO_COME)
    if everyone < FIRST:
        missing = f"{everyone} of at least {FIRST} tasks have asked everyone; --pilot 200 asks about more"
        return TargetQuote(target, None, count, missing)
    if count < FEWEST:
        missing = (
            f"{count} of at least {FEWEST} tasks have a label of people who did not see the models'; keep"
            " tasks blind (camvo label --blind 300, or audit in camvo.yaml) and have them labelled"
        )
        return TargetQuote(target, None, count, missing)
    worth = policy.worth_in_askings(dict(zip(known.votes.arms, known.votes.prices.tolist(), strict=True)))
    found = [
        _in_dollars(mix, policy, tasks, everyone_usd, label_usd, target)
        for mix in mixes(known.votes, labelled, to_come, worth, target, rng)
    ]
    return TargetQuote(target, min(found, key=lambda mix: (mix.usd_sure, mix.usd)), count)


def _in_dollars(  # noqa: PLR0917 - a mix, a job, and prices
    mix: Mix, policy: Joint, tasks: int, everyone_usd: float, label_usd: float, target: float
) -> _MixQuote:
    models = mix.models * everyone_usd
    labels, sure = _whole(mix.humans * tasks), _whole(mix.humans_sure * tasks)
    setting = (
        f"worth: {mix.times * policy.worth_of(1.0):g}"
        if policy.worth_usd is None
        else f"worth_usd: {mix.times * policy.worth_of(1.0):.3g}"
    )
    return _MixQuote(
        models_usd=models,
        labels=labels,
        labels_sure=sure,
        label_usd=label_usd,
        usd=models + labels * label_usd,
        usd_sure=models + sure * label_usd,
        people_alone_usd=_whole(target * tasks) * label_usd,
        setting=None if mix.times == 1.0 else setting,
    )


def read_labelled(
    connection: Connection, key: StateKey, known: KnownRounds, model_of: Mapping[str, str]
) -> LabelledVotes:
    """Read the votes on tasks that people labelled without seeing what models said.

    These are the blind tasks, and those whose form was not prefilled with a prediction.
    """
    place = {label: number for number, label in enumerate(known.votes.labels)}
    shown = Annotations(connection, key.project).prefilled_tasks()
    rows, human = [], []
    for task, votes, label, blind in QuestionRounds(
        connection, key.project, key.control, key.epoch
    ).labelled_votes(_MOST):
        if label not in place or (task in shown and not blind):
            continue
        # A packed arm and its model are one voter here, whichever of the two was asked.
        cast = {arm: votes.get(arm, votes.get(model_of[arm], "")) for arm in known.votes.arms}
        asked = {arm for arm in known.votes.arms if arm in votes or model_of[arm] in votes}
        if not asked:
            continue
        rows.append([place.get(cast[arm] or "", -1) if arm in asked else UNASKED for arm in known.votes.arms])
        human.append(place[label])
    return LabelledVotes(
        np.array(rows, dtype=np.int64).reshape(-1, len(known.votes.arms)), np.array(human, dtype=np.int64)
    )


def _whole(number: float) -> int:
    return int(np.ceil(number - 1e-9))
