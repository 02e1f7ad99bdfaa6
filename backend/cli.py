"""The command line; each command imports what it needs when it runs."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from backend.commands.connect import connect_command, predict_command
from backend.commands.replay import replay_command, synthetic_command
from backend.commands.review import review_command
from camvo.errors import CamvoError

app = typer.Typer(
    name="camvo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(metadata.version("camvo"))  # noqa: T201 - this is what a person reads
        raise typer.Exit


@app.callback()
def camvo(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """A Label Studio ML backend that asks the cheapest models whose weighted vote is confident enough."""


Config = Annotated[
    Path | None, typer.Option("--config", help="camvo.yaml; without one the embedded voters are used.")
]


@app.command()
def demo(
    serve: Annotated[
        bool, typer.Option("--serve", help="Stay up, so that a Label Studio can be connected.")
    ] = False,
    port: Annotated[int | None, typer.Option(help="Port of the server; a free one by default.")] = None,
) -> None:
    """Show the main job on real text, without a key or a network."""
    from rich.console import Console  # noqa: PLC0415 - the help must not wait for it

    from backend.commands.demo.demo import run_demo  # noqa: PLC0415 - the same

    run_demo(console=Console(), serve=serve, port=port)


@app.command()
def serve(
    config: Config = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port to listen on.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes.")] = None,
) -> None:
    """Serve Label Studio with gunicorn."""
    from backend import settings  # noqa: PLC0415 - the help must not wait for it
    from backend.server import gunicorn_server  # noqa: PLC0415 - the help must not wait for it

    given = {"config": config, "host": host, "port": port, "workers": workers}
    chosen = {name: value for name, value in given.items() if value is not None}
    gunicorn_server.serve(settings.Environment().model_copy(update=chosen))


@app.command()
def check(config: Config = None) -> None:
    """Validate everything and say what one text would cost, without spending anything."""
    from rich.console import Console  # noqa: PLC0415 - the help must not wait for it

    from backend.commands.check import run  # noqa: PLC0415 - the same
    from backend.settings import Environment  # noqa: PLC0415 - the same

    environment = Environment()
    if config is not None:
        environment = environment.model_copy(update={"config": config})
    if not run(Console(), environment):
        raise typer.Exit(1)


@app.command()
def report(
    config: Config = None,
    project: Annotated[str | None, typer.Option(help="Number of one project in Label Studio.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what GET /status gives programs.")] = False,
) -> None:
    """Say what became of every project so far, from the ledger; no server is needed."""
    from rich.console import Console  # noqa: PLC0415 - the help must not wait for it

    from backend.commands import report  # noqa: PLC0415 - the same
    from backend.settings import Environment  # noqa: PLC0415 - the same

    environment = Environment()
    if config is not None:
        environment = environment.model_copy(update={"config": config})
    report.run(Console(), environment, project=project, as_json=as_json)


app.command()(replay_command.replay)
app.command()(synthetic_command.synthetic)
app.command()(connect_command.connect)
app.command()(connect_command.disconnect)
app.command()(predict_command.predict)
app.command()(review_command.review)


def main() -> None:
    """The console script: an expected error is one line on standard error and exit code 2."""
    try:
        app()
    except CamvoError as error:
        print(f"camvo: {error}", file=sys.stderr)  # noqa: T201 - this is what a person reads
        sys.exit(2)


if __name__ == "__main__":
    main()
