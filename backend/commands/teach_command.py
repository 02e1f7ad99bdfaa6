"""``camvo teach``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backend.commands.shared.arguments import Config


def teach(
    source: Annotated[
        Path, typer.Argument(help="The labels: blind.csv, or any table with its columns.", show_default=False)
    ],
    annotator: Annotated[
        str | None,
        typer.Option(
            "--annotator",
            help="Whose labels: a number of Label Studio's, or a name.",
            show_default="the column camvo_annotator",
        ),
    ] = None,
    config: Config = None,
) -> None:
    """Take people's labels of a file back, also changed and emptied ones. Spends nothing.

    Several people may label the same tasks, each in a file of their own or in rows of their own.

    Example: camvo teach blind.csv --annotator anna
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend.commands.teach import teach_file  # noqa: PLC0415 - keeps the help fast

    tally = teach_file(source, config, annotator)
    Console().print(tally.summary(), highlight=False, soft_wrap=True)
