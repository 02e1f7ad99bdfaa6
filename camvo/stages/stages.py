"""The part of a plan that says in which order arms are asked and when to stop; nothing changes it later."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from camvo.stages.rule import Rule, is_certain
from camvo.state.vote_patterns import SILENT, Pattern, Probe, Signature, canonical
from camvo.typing import Array
from camvo.weights.vote_weights import VoteWeights

Coin: TypeAlias = Literal["everyone", "certificate", "nobody"]
"""Whom the coin sends a round to: to everyone, to as many as make it certain, or to nobody in particular, so
that the learned stop decides."""

_EVERYONE, _EVERYONE_DECAY = 2.0, 2.0 / 3.0
_CERTIFICATE, _CERTIFICATE_DECAY = 8.0, 0.5


def propensities(rounds: int) -> tuple[float, float]:
    """The probabilities that everyone is asked, and that a round goes on at least until it is certain.

    After n rounds the first has come about 6·n^⅓ times and the second about 16·n^½ times. Certainty costs
    little more than the learned stop, so it can be had often; all votes are needed for the weights alone.
    """
    t = rounds + 1.0
    return min(1.0, _EVERYONE * t**-_EVERYONE_DECAY), min(1.0, _CERTIFICATE * t**-_CERTIFICATE_DECAY)


def throw(contexts: Iterable[Array], rounds: int) -> float:
    """A number in [0, 1), drawn from the contexts and from how many rounds came before: no vote is in it."""
    digest = hashlib.blake2b(rounds.to_bytes(8, "little"), digest_size=8)
    for context in contexts:
        digest.update(np.ascontiguousarray(context, dtype="<f8").tobytes())
    return int.from_bytes(digest.digest(), "little") / 2.0**64


def teachers(order: Sequence[str], first: int, *, human: bool) -> frozenset[str]:
    """The arms whose rewards say how good they are: those that were not asked because of the votes.

    A voted label that was not everybody's agrees with the arms that made it, so it teaches nothing; a human's
    teaches about the arms of the first stage.

    Args:
        order: all arms, in the order in which they are asked.
        first: how many of them were asked whatever the votes.
        human: whether the label is a human's.
    """
    return frozenset(order[:first] if human or first == len(order) else ())


@dataclass(frozen=True, slots=True)
class Path:
    """How one question is asked about.

    Attributes:
        weights: ω of the arms, in the order in which they are asked.
        rule: what the round goes by.
        trial: the learned stop where the coin overruled it: what it would have done is compared.
        origin: where the weights come from; ``None`` where votes are not weighed.
    """

    weights: tuple[float, ...]
    rule: Rule
    trial: Rule | None = None
    origin: VoteWeights | None = None


@dataclass(frozen=True, slots=True)
class Stages:
    """In which order arms are asked about a task, and when to stop.

    Attributes:
        order: the arms, in the order in which they are asked.
        coin: what the coin said.
        propensity: the probabilities of ``"everyone"`` and of at least ``"certificate"``; (p, 1) where there
            is no learned stop that could be followed.
        paths: question → how it is asked about. A task goes on while any of its questions wants to.
    """

    order: tuple[str, ...]
    coin: Coin
    propensity: tuple[float, float]
    paths: Mapping[str, Path]

    @property
    def first(self) -> tuple[str, ...]:
        """The arms that are asked whatever the votes."""
        if self.coin == "everyone":
            return self.order
        return self.order[: max(path.rule.first for path in self.paths.values())]

    def ask(self, votes: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
        """The arms to ask now, given the votes so far; nobody means that every question is decided."""
        length = len(self.first)
        last = len(next(iter(self.paths.values())).rule.moves)
        for stage in range(last + 1):
            missing = tuple(arm for arm in self.order[:length] if arm not in votes)
            if missing or stage == last:
                return missing
            upto = max(
                self._upto(path, path.rule, stage, self._seen(question, votes, length))
                for question, path in self.paths.items()
            )
            if upto == length:
                break
            length = upto
        return ()

    def probe(self, question: str, votes: Mapping[str, Mapping[str, str]]) -> Probe | None:
        """What the round shows about ``question``; ``None`` unless the coin chose it."""
        if self.coin == "nobody":
            return None
        given = {arm: answers.get(question) for arm, answers in votes.items()}
        everyone = len(self.first) == len(self.order)
        pattern = Pattern.of(sorted(self.order), given, everyone=everyone)
        return Probe(pattern, self._would_be_right(question, votes))

    def teachers(self, *, human: bool) -> frozenset[str]:
        """The :func:`teachers` of a round that is asked about like this."""
        return teachers(self.order, len(self.first), human=human)

    def describe(self, question: str) -> dict[str, Any]:
        """One question's part of a plan's description, as plain JSON."""
        path = self.paths[question]
        stages = {
            "order": list(self.order),
            "coin": self.coin,
            "propensity": list(self.propensity),
            "first": len(self.first),
            "kept": None if path.origin is None else "labelled",
            "weights": list(path.weights),
            "rule": path.rule.describe(),
            "trial": None if path.trial is None else path.trial.describe(),
        }
        return {"stages": stages} | ({} if path.origin is None else path.origin.describe())

    def _upto(self, path: Path, rule: Rule, stage: int, seen: Signature) -> int:
        if len(seen) == len(self.order) or is_certain(seen, path.weights):
            return len(seen)
        return max(rule.after(stage, seen, len(self.order)), len(seen))

    def _seen(self, question: str, votes: Mapping[str, Mapping[str, str]], length: int) -> Signature:
        return canonical(votes[arm].get(question, SILENT) for arm in self.order[:length])

    def _would_be_right(self, question: str, votes: Mapping[str, Mapping[str, str]]) -> bool | None:
        """Whether the trial would have named the label of the round; where it asks more arms, it would."""
        path = self.paths[question]
        if path.trial is None:
            return None
        asked = sum(arm in votes for arm in self.order)
        length = path.trial.first
        for stage in range(len(path.trial.moves)):
            if length >= asked:
                return True
            upto = self._upto(path, path.trial, stage, self._seen(question, votes, length))
            if upto == length:
                break
            length = upto
        if length >= asked:
            return True
        leaders = [_leader(self._seen(question, votes, upto), path.weights) for upto in (length, asked)]
        return leaders[0] is not None and leaders[0] == leaders[1]


def _leader(seen: Signature, weights: tuple[float, ...]) -> int | None:
    """The group with the largest weight, ``None`` without a vote; of tied ones that of the earlier arms."""
    totals = np.zeros(len(seen) + 1)
    for group, weight in zip(seen, weights, strict=False):
        totals[group] += weight
    return int(totals[:-1].argmax()) if any(group != SILENT for group in seen) else None
