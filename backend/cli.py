"""The command line. Each command imports what it needs when it runs, which keeps the help fast."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from backend.commands import ledger_commands, project_commands, task_commands
from backend.commands.replay import replay_command
from backend.commands.shared.arguments import Config, environment_with, quiet_environment
from backend.errors import DISK_FULL
from camvo.errors import CamvoError

app = typer.Typer(name="camvo", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        print(metadata.version("camvo"))  # noqa: T201 - the output
        raise typer.Exit


@app.callback()
def _camvo(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Pre-label Label Studio tasks with several LLMs, and stop paying for votes once the label is settled."""


@app.command("demo")
def _demo(
    serve: Annotated[
        bool, typer.Option("--serve", help="Keep the server running, and print the address of its /status.")
    ] = False,
    port: Annotated[int | None, typer.Option(help="Port of the server.", show_default="a free one")] = None,
) -> None:
    """Label texts with a real server, and digits with eight classifiers. Needs no API key and no network.

    Example: camvo demo --serve --port 9090
    """
    from backend.commands.demo import run_demo  # noqa: PLC0415 - the same

    run_demo(console=Console(), serve=serve, port=port)


@app.command("serve")
def _serve(
    config: Config = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="CAMVO_HOST, else 127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port to listen on.", show_default="CAMVO_PORT, else 9090"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes.", show_default="CAMVO_WORKERS, else 1")
    ] = None,
) -> None:
    """Run the ML backend for Label Studio, until Ctrl-C.

    Example: camvo serve --host 0.0.0.0 --port 9090
    """
    from backend.server import gunicorn_server  # noqa: PLC0415 - the help must not wait for it

    options = {"host": host, "port": port, "workers": workers}
    chosen = {name: value for name, value in options.items() if value is not None}
    gunicorn_server.serve(environment_with(config).model_copy(update=chosen))


@app.command("check")
def _check(
    config: Config = None,
    live: Annotated[
        bool, typer.Option("--live", help="Also ask each model about a short text, which costs money.")
    ] = False,
    label_config: Annotated[
        Path | None, typer.Option(help="Also say which of its controls get predictions; --live asks these.")
    ] = None,
) -> None:
    """Check the configuration, keys, ledger and embedder, and estimate the cost of one text.

    Spends nothing without --live.

    Example: camvo check --live
    """
    from backend.commands.check import check_setup  # noqa: PLC0415 - the same

    if not check_setup(Console(), quiet_environment(config), live=live, label_config=label_config):
        raise typer.Exit(1)


@app.command("report")
def _report(  # noqa: PLR0917 - typer: the options of the command
    config: Config = None,
    project: Annotated[
        str | None,
        typer.Option(
            help="One project: its number in Label Studio, or the name of a file's.", show_default="all"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as GET /status returns it.")] = False,
    annotators: Annotated[
        bool, typer.Option("--annotators", help="Also report on each annotator, by their id in Label Studio.")
    ] = False,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", help="Also write the certificate of one project, an HTML page."),
    ] = None,
    methods: Annotated[
        Path | None,
        typer.Option("--methods", help="Also write what a reviewer asks about one project, as Markdown."),
    ] = None,
) -> None:
    """Print accuracy, cost and alerts of every project so far. Reads the ledger; needs no server.

    Example: camvo report --project 1 --certificate certificate.html
    """
    from backend.commands.report import print_report  # noqa: PLC0415 - the same

    environment = quiet_environment(config)
    if certificate is not None:
        from backend.commands.shared.certificate import issue_certificate  # noqa: PLC0415 - the same

        issue_certificate(Console(stderr=as_json), environment, project, certificate)
    if methods is not None:
        from backend.commands.methods import write_methods  # noqa: PLC0415 - the same

        write_methods(Console(stderr=as_json), environment, project, methods)
    print_report(Console(), environment, project=project, as_json=as_json, annotators=annotators)


for _commands in (task_commands.app, replay_command.app, project_commands.app, ledger_commands.app):
    app.add_typer(_commands)

_FULL = 5
"""The exit code if a disk is full."""


def main() -> None:
    """Run the console script. An expected error is one line on standard error, with exit code 2 or 5."""
    os.umask(0o077)  # what a command writes may hold texts of tasks: only its user may read it
    try:
        app()
    except CamvoError as error:
        print(f"camvo: {error}", file=sys.stderr)  # noqa: T201 - the output
        sys.exit(_FULL if error.code == DISK_FULL else 2)


if __name__ == "__main__":
    main()
