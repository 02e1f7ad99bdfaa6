"""What a model of votes says about the rounds that it is fitted to, row by row."""

from __future__ import annotations

from dataclasses import dataclass

from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """The E-step of n rounds with K arms, on items of C kinds (with two labels: of each label).

    Attributes:
        mass: the probability of each kind, shape (n, C).
        right: the same, and that the arm's vote is right, shape (n, K, C); 0 for an arm without a vote.
        evidence: the log-probability of the votes, shape (n,).
    """

    mass: Array
    right: Array
    evidence: Array
