"""What is odd about a table or its options, but not wrong: it is said, and the replay goes on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backend.commands.replay.inputs.votes_file import TRUTH, VotesFile

_MOST = 5
"""The most labels that are listed; the others are counted."""
_SHOWN = 40


def odd_labels(table: VotesFile) -> list[str]:
    """Describe labels that only one column of the table names, which are often typing errors.

    Args:
        table: the votes.

    Returns:
        A sentence for each label that only one model names, where others could, and for each truth that no
        model names.
    """
    columns = {TRUTH: table.truth, **dict(zip(table.models, table.votes.T, strict=True))}
    counts = {
        name: np.bincount(column[column >= 0], minlength=len(table.labels))
        for name, column in columns.items()
    }
    others = len(table.models) > 1 or bool(counts[TRUTH].any())
    sentences = []
    for position, label in enumerate(table.labels):
        named = [name for name, count in counts.items() if count[position]]
        if named == [TRUTH]:
            sentences.append(
                f"no model ever names the truth {_shown(label)} ({_items(counts[TRUTH][position])}), so no"
                " policy can be right there"
            )
        elif len(named) == 1 and others:
            sentences.append(
                f"only {named[0]!r} names the label {_shown(label)} ({_items(counts[named[0]][position])});"
                " a typing error?"
            )
    rest = len(sentences) - _MOST
    return [*sentences[:_MOST], *([f"{rest} more labels are named in one column only"] if rest > 0 else [])]


def odd_k_mins(k_mins: Sequence[int], models: int) -> list[str]:
    """Describe values of k_min that no set of models can have; every model is then asked."""
    return [
        f"k_min = {k_min} is more than the {models} models of the table: every model is always asked"
        for k_min in dict.fromkeys(k_mins)
        if k_min > models
    ]


def _items(count: int) -> str:
    return f"{count:,} item{'' if count == 1 else 's'}"


def _shown(label: str) -> str:
    return repr(label if len(label) <= _SHOWN else label[: _SHOWN - 1] + "…")
