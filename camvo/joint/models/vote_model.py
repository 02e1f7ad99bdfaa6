"""The interface of a model of votes, and the choice between the two models."""

from __future__ import annotations

from typing import Protocol

from camvo.joint.models.kinds import fit_kinds
from camvo.joint.models.two_coins import fit_two_coins
from camvo.joint.vote_rows import Rows
from camvo.typing import Array


class VoteModel(Protocol):
    """A fitted model of the votes of K arms."""

    @property
    def skill(self) -> Array:
        """The mean log-odds of each arm's vote, shape (K,)."""
        ...

    def beliefs(self, rows: Rows) -> tuple[Array, Array]:
        """What votes say about the label.

        Args:
            rows: vote rows, shape (P, K). Arms that were not asked, or gave no vote, are left out.

        Returns:
            The probability that each number's label is right, shape (P, G) for G = min(K, M) numbers, 0 for a
            number that the row does not have; and the log-probability of the votes, shape (P,).
        """
        ...


def fit_vote_model(rows: Rows, counts: Array, labels: int, temper: Array) -> VoteModel:
    """Fit the model of votes for M labels: two coins for two labels, kinds of items for more.

    With two labels, kinds of items cannot be told apart by votes, but an accuracy for each label can. With
    more labels, an arm has too few votes for each label, and kinds of items can be told apart.

    Args:
        rows: vote rows, shape (P, K).
        counts: the weight of each row in rounds, shape (P,).
        labels: M ≥ 1, the number of labels.
        temper: the exponent of each arm's likelihood, in (0, 1], shape (K,).
    """
    if labels == 2:
        return fit_two_coins(rows, counts, temper)
    return fit_kinds(rows, counts, labels, temper)
