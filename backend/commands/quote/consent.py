"""Whether a run may spend what its quote says."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from backend.commands.label.options import LabelOptions
from backend.commands.quote.output import dollars
from backend.errors import ConfigError

WITHOUT_ASKING = 1.0
"""Dollars up to which nobody is asked."""


def agree_to(usd: float, options: LabelOptions, console: Console) -> None:
    """Ask whether to spend so much, unless it is little or the options say so already.

    Args:
        usd: the most that the run may cost, in $.
        options: ``--yes`` and ``--budget`` are consent.
        console: where to ask.

    Raises:
        ConfigError: nobody can be asked.
        typer.Exit: the answer is no; nothing more is spent.
    """
    if usd <= WITHOUT_ASKING or options.yes or options.budget is not None:
        return
    if not (console.is_terminal and sys.stdin.isatty()):
        raise ConfigError(
            f"the run may cost {dollars(usd)}, and nobody can be asked; nothing was spent",
            where="--yes",
            fix="give --budget 50 to allow so many dollars for the job, or --yes for what the quote says",
        )
    if not typer.confirm(f"Spend up to {dollars(usd)}?"):
        raise typer.Exit(1)
