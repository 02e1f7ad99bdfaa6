"""``camvo connect``, ``camvo disconnect`` and ``camvo predict`` as a person meets them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backend.errors import LabelStudioError

if TYPE_CHECKING:
    from rich.console import Console

    from backend.commands.connect.proof import Fact

LabelStudio = Annotated[
    str | None, typer.Option("--label-studio", help="Label Studio's address; LABEL_STUDIO_URL by default.")
]
Project = Annotated[int, typer.Option("--project", min=1, help="The project's number, as in its address.")]
BackendUrl = Annotated[
    str | None,
    typer.Option("--backend-url", help="The server's address as Label Studio reaches it; CAMVO_PORT here."),
]
Config = Annotated[
    Path | None, typer.Option("--config", help="The camvo.yaml that the server has; CAMVO_CONFIG by default.")
]


def connect(  # noqa: PLR0917 - a command's options
    project: Project,
    label_studio: LabelStudio = None,
    backend_url: BackendUrl = None,
    review_queue: Annotated[
        bool, typer.Option("--review-queue", help="Give annotators the least confident task first.")
    ] = False,
    extra_params: Annotated[
        list[str] | None,
        typer.Option(help="Overrides for this project: a JSON object, or key=value, repeatedly."),
    ] = None,
    config: Config = None,
) -> None:
    """Connect a project of Label Studio to the running server, and prove that it works."""
    from rich.console import Console  # noqa: PLC0415 - the help must not wait for it

    from backend import settings  # noqa: PLC0415 - the same
    from backend.commands.connect import connect as connecting  # noqa: PLC0415
    from backend.commands.connect import options  # noqa: PLC0415
    from backend.commands.connect.extra_params import read  # noqa: PLC0415
    from backend.commands.connect.proof import Fact, prove  # noqa: PLC0415
    from backend.commands.connect.server import Server  # noqa: PLC0415
    from backend.commands.connect.wanted import Wanted  # noqa: PLC0415

    environment = options.environment(config)
    loaded = settings.load(environment.config)
    overrides = read(extra_params or [])
    loaded.for_project(overrides)
    options.require_secret(environment)
    backend = options.backend_url(backend_url, environment)
    wanted = Wanted(project, backend, loaded.model_version, environment, overrides, review_queue)
    console, facts = Console(), []

    def show(fact: Fact) -> None:
        facts.append(fact)
        _print(console, fact)

    server = Server(backend, environment)
    try:
        client = options.client(label_studio, environment)
        show(Fact("label studio", f"{client.url}, {client.version()}"))
        changed = connecting.connect(client, wanted, lambda name, text: show(Fact(name, text)))
        if not changed:
            console.print("nothing had to be changed")
        for fact in prove(client, server, wanted):
            show(fact)
    except LabelStudioError as error:
        show(Fact("label studio", str(error), holds=False))
    finally:
        server.close()
    if any(fact.holds is False for fact in facts):
        raise typer.Exit(1)


def disconnect(
    project: Project,
    label_studio: LabelStudio = None,
    backend_url: BackendUrl = None,
    config: Config = None,
) -> None:
    """Take the server, its webhook and its settings out of a project again; predictions stay."""
    from rich.console import Console  # noqa: PLC0415 - the help must not wait for it

    from backend import settings  # noqa: PLC0415 - the same
    from backend.commands.connect import disconnect as disconnecting  # noqa: PLC0415
    from backend.commands.connect import options  # noqa: PLC0415
    from backend.commands.connect.proof import Fact  # noqa: PLC0415

    environment = options.environment(config)
    title = settings.load(environment.config).model_version
    backend, console = options.backend_url(backend_url, environment), Console()
    try:
        client = options.client(label_studio, environment)
        found = disconnecting.disconnect(
            client, project, backend, title, lambda name, text: _print(console, Fact(name, text))
        )
    except LabelStudioError as error:
        _print(console, Fact("label studio", str(error), holds=False))
        raise typer.Exit(1) from None
    if not found:
        console.print("nothing of CaMVo's was there")


def predict(
    project: Project,
    label_studio: LabelStudio = None,
    backend_url: BackendUrl = None,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh/--only-missing",
            help="Replace predictions that the server sees differently by now, or leave all that are there.",
        ),
    ] = False,
    batch: Annotated[int, typer.Option(min=1, max=500, help="Tasks in one request.")] = 50,
) -> None:
    """Store the server's predictions for a whole project; stop and run it again as you like."""
    from rich.console import Console  # noqa: PLC0415 - the help must not wait for it

    from backend.commands.connect import options  # noqa: PLC0415
    from backend.commands.connect.predict import Run  # noqa: PLC0415
    from backend.commands.connect.progress import bar, summary  # noqa: PLC0415
    from backend.commands.connect.server import Server  # noqa: PLC0415
    from backend.label_studio import webhooks  # noqa: PLC0415 - the same

    environment = options.environment(None)
    server = Server(options.backend_url(backend_url, environment), environment)
    console = Console()
    try:
        client = options.client(label_studio, environment)
        found = client.project(project)
        run = Run(
            client=client,
            predictor=server,
            project=project,
            key=webhooks.project_key(found),
            label_config=found["label_config"],
            model_version=server.model_version(),
            refresh=refresh,
            batch=batch,
        )
        with bar(console, client.count_tasks(project)) as advance:
            tally = run(advance)
    finally:
        server.close()
    console.print(summary(tally), highlight=False, soft_wrap=True)


def _print(console: Console, fact: Fact) -> None:
    from rich.markup import escape  # noqa: PLC0415 - the help must not wait for it

    sign = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[yellow]–[/]"}[fact.holds]
    console.print(f"{sign} {fact.name:<14} {escape(fact.text)}", highlight=False, soft_wrap=True)
