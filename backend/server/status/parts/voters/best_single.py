"""What the best single model would have cost alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from backend.server.status.evidence import Share, VotesReport

_LEAST = 10
"""Checked votes that every model with a say needs."""


@dataclass(frozen=True, slots=True)
class SingleModel:
    """What is known of one model, in the words of its report."""

    name: str
    in_pool: bool
    agreement: Share
    audit: Share
    reviewed: Share
    answered: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class BestSingleReport:
    """The best single model, had it labelled all tasks alone.

    Attributes:
        model: its name.
        usd: what its calls would have cost, at its mean price so far.
        share: how often it is right, or agrees.
        basis: what ``share`` rests on: ``blind`` labels, ``reviewed`` ones, the ``votes`` alone (estimated),
            or the ``agreement`` with the voted label.
    """

    model: str
    usd: float
    share: float
    basis: Literal["blind", "reviewed", "votes", "agreement"]


def best_single_report(
    models: Sequence[SingleModel], votes: VotesReport | None, tasks: int
) -> BestSingleReport | None:
    """Find the best single model by the best evidence there is; ``None`` before any answer.

    Args:
        models: the models of the project.
        votes: what votes on its question are worth, ``None`` if it has several questions or no such model.
        tasks: the number of labelled tasks.
    """
    asked = [model for model in models if model.in_pool and model.answered]
    for basis, share_of in _evidence(votes).items():
        shares = {model.name: share for model in asked if (share := share_of(model)) is not None}
        if len(shares) == len(asked) > 0:
            best = max(asked, key=lambda model: (shares[model.name], -model.cost_usd / model.answered))
            usd = best.cost_usd / best.answered * tasks
            return BestSingleReport(best.name, usd, shares[best.name], basis)
    return None


_Basis = Literal["blind", "reviewed", "votes", "agreement"]


def _evidence(votes: VotesReport | None) -> Mapping[_Basis, Callable[[SingleModel], float | None]]:
    """How right a model is, by each kind of evidence, the best first."""
    return {
        "blind": lambda model: model.audit.share if model.audit.count >= _LEAST else None,
        "reviewed": lambda model: model.reviewed.share if model.reviewed.count >= _LEAST else None,
        "votes": lambda model: None if votes is None else _estimated(votes, model.name),
        "agreement": lambda model: model.agreement.share,
    }


def _estimated(votes: VotesReport, model: str) -> float | None:
    """A model's accuracy as the votes alone show it, over all kinds of items."""
    accuracy = votes.accuracy.get(model)
    if accuracy is None or not votes.everyone:
        return None
    weights = votes.kinds or [1.0 / len(accuracy)] * len(accuracy)
    return sum(weight * share for weight, share in zip(weights, accuracy, strict=True))
