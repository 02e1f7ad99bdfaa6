"""``camvo connect``, ``camvo disconnect`` and ``camvo predict`` as a person meets them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from camvo.errors import ConfigError, LabelStudioError

if TYPE_CHECKING:
    from pydantic import SecretStr
    from rich.console import Console

    from backend.label_studio.client import Client
    from backend.label_studio.proof import Fact
    from backend.settings import Environment

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


def connect(
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
    from backend.label_studio import connect as connecting  # noqa: PLC0415
    from backend.label_studio.extra_params import read  # noqa: PLC0415
    from backend.label_studio.proof import Fact, prove  # noqa: PLC0415
    from backend.label_studio.server import Server  # noqa: PLC0415
    from backend.label_studio.wanted import Wanted  # noqa: PLC0415

    environment = _environment(config)
    loaded = settings.load(environment.config)
    overrides = read(extra_params or [])
    loaded.for_project(overrides)
    _require_secret(environment)
    backend = _backend_url(backend_url, environment)
    wanted = Wanted(project, backend, loaded.model_version, environment, overrides, review_queue)
    console, facts = Console(), []

    def show(fact: Fact) -> None:
        facts.append(fact)
        _print(console, fact)

    server = Server(backend, environment)
    try:
        client = _client(label_studio, environment)
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
    from backend.label_studio import connect as connecting  # noqa: PLC0415
    from backend.label_studio.proof import Fact  # noqa: PLC0415

    environment = _environment(config)
    title = settings.load(environment.config).model_version
    backend, console = _backend_url(backend_url, environment), Console()
    try:
        client = _client(label_studio, environment)
        found = connecting.disconnect(
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

    from backend import webhooks  # noqa: PLC0415 - the same
    from backend.label_studio.predict import Run  # noqa: PLC0415
    from backend.label_studio.progress import bar, summary  # noqa: PLC0415
    from backend.label_studio.server import Server  # noqa: PLC0415

    environment = _environment(None)
    server = Server(_backend_url(backend_url, environment), environment)
    console = Console()
    try:
        client = _client(label_studio, environment)
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


def _environment(config: Path | None) -> Environment:
    from backend.settings import Environment  # noqa: PLC0415 - the help must not wait for it

    environment = Environment()
    return environment if config is None else environment.model_copy(update={"config": config})


def _client(label_studio: str | None, environment: Environment) -> Client:
    from backend.label_studio.client import Client  # noqa: PLC0415 - the help must not wait for it

    url = label_studio or environment.label_studio_url
    if url is None:
        raise ConfigError(
            "Label Studio's address is missing",
            where="--label-studio",
            fix="give it, or set LABEL_STUDIO_URL",
        )
    key: SecretStr | None = environment.label_studio_api_key
    if key is None:
        raise ConfigError(
            "the key is missing",
            where="LABEL_STUDIO_API_KEY",
            fix="set it to a token from Label Studio's Account & Settings; docs/label_studio.md says what to do "
            "by hand without one",
        )
    return Client(_address(url, "--label-studio"), key)


def _backend_url(given: str | None, environment: Environment) -> str:
    from backend.label_studio.server import default_url  # noqa: PLC0415 - the help must not wait for it

    return default_url(environment) if given is None else _address(given, "--backend-url")


def _address(url: str, option: str) -> str:
    """An address without a slash at its end."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError("this is no address", where=option, fix="give one like http://host:port")
    if parts.username is not None:
        raise ConfigError(
            "credentials do not belong in an address",
            where=option,
            fix="set BASIC_AUTH_USER and BASIC_AUTH_PASS, or LABEL_STUDIO_API_KEY",
        )
    return url.rstrip("/")


def _require_secret(environment: Environment) -> None:
    if environment.basic_auth_user is not None and environment.webhook_secret is None:
        raise ConfigError(
            "Label Studio's webhooks carry no basic auth: every human answer would be refused",
            where="CAMVO_WEBHOOK_SECRET",
            fix="set it to the same value here and at the server",
        )


def _print(console: Console, fact: Fact) -> None:
    from rich.markup import escape  # noqa: PLC0415 - the help must not wait for it

    sign = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[yellow]–[/]"}[fact.holds]
    console.print(f"{sign} {fact.name:<14} {escape(fact.text)}", highlight=False, soft_wrap=True)
