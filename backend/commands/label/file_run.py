"""``camvo label FILE``."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console

from backend.commands.certificate.outcome import print_outcome
from backend.commands.environment import environment_with
from backend.commands.label.options import LabelOptions
from backend.commands.label.run import run_label
from backend.commands.label.run_tally import RunTally
from backend.datasets.columns import Columns
from backend.datasets.sinks.open_sink import check_sink, open_sink
from backend.datasets.sinks.result import Result
from backend.datasets.sources.open_source import open_source
from backend.errors import DatasetError
from backend.models.embedder.embedder import Embedder
from backend.settings import Environment
from backend.telemetry import logs


def label_file(path: Path, out: Path, options: LabelOptions, config: Path | None) -> bool:
    """Label a file and write the labels to another.

    Args:
        path: the tasks.
        out: the labels.
        options: how to label.
        config: ``camvo.yaml``; ``None`` for that of the environment.

    Returns:
        Whether all tasks are labelled or have failed, so that none is left.

    Raises:
        CamvoError: an input is wrong, which is found before anything is spent, or the run cannot go on.
        typer.Exit: somebody interrupted the run.
    """
    environment = environment_with(config)
    quiet_logs(environment)
    console = Console()
    with interruptible():
        tally = label_into(out, path, options, environment, console)
    console.print(tally.summary(), highlight=False, soft_wrap=True)
    console.print(f"written to {out}", highlight=False, soft_wrap=True)
    print_outcome(console, environment, options.project(path))
    return not tally.left


def label_into(  # noqa: PLR0917 - two files, and what a run needs
    out: Path,
    path: Path,
    options: LabelOptions,
    environment: Environment,
    console: Console,
    embedder: Embedder | None = None,
) -> RunTally:
    """Label a file and write the labels to ``out``; see :func:`run_label`.

    Raises:
        DatasetError: a file cannot be read or written.
    """
    source = open_source(path)
    if out.exists() and out.samefile(path):
        raise DatasetError("is the file of the tasks", where="--out", fix="give it another name")
    check_sink(out)

    def write(results: Iterator[Result], columns: Columns) -> None:
        write_results(out, results, columns, console)

    return run_label(source, options, environment, console, write, embedder)


def write_results(out: Path, results: Iterator[Result], columns: Columns, console: Console) -> None:
    """Write results to a file.

    Args:
        out: the file; its ending names the format.
        results: what is written, row by row.
        columns: the columns of the source.
        console: where progress is shown.

    Raises:
        DatasetError: the file cannot be written; the one of the run before stays.
    """
    try:
        with console.status(f"writing {out}"), open_sink(out, columns) as sink:
            for result in results:
                sink.write(result)
    except OSError as error:
        raise DatasetError(
            f"cannot be written: {error.strerror or type(error).__name__}",
            where=str(out),
            fix="make room, and run the same command again: nothing is paid twice",
        ) from error


@contextmanager
def interruptible() -> Iterator[None]:
    """Take SIGTERM as Ctrl-C, and end with exit code 130 after either.

    Raises:
        typer.Exit: somebody interrupted the block.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def quiet_logs(environment: Environment) -> None:
    """Log errors only, unless the environment says otherwise: the command itself says what it does."""
    logs.configure(environment.log_level if "log_level" in environment.model_fields_set else "error")
