"""``camvo connect`` and ``camvo disconnect``: their options. Heavy modules are imported when they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.shared.arguments import BackendUrl, Config, LabelStudioUrl, ProjectNumber
from backend.errors import ConfigError, LabelStudioError

if TYPE_CHECKING:
    from backend.settings import Environment


def connect(  # noqa: PLR0917 - a command's options
    project: ProjectNumber,
    label_studio: LabelStudioUrl = None,
    backend_url: BackendUrl = None,
    review_queue: Annotated[
        bool, typer.Option("--review-queue", help="Give annotators the least confident task first.")
    ] = False,
    extra_params: Annotated[
        list[str] | None,
        typer.Option(help="Overrides for this project: a JSON object, or key=value; may be repeated."),
    ] = None,
    config: Config = None,
) -> None:
    """Connect a Label Studio project to the running server, and prove that it works.

    Sets the ML backend, its webhook and the project's settings, and adds a tab to the Data Manager. What can
    be proved first is proved before anything changes. Needs LABEL_STUDIO_API_KEY.

    Example: camvo connect --project 1 --label-studio http://localhost:8080
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend import settings  # noqa: PLC0415 - keeps the help fast
    from backend.commands.connect import ProjectConnection, Wanted  # noqa: PLC0415
    from backend.commands.shared import backend_client as addresses  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.backend_client import BackendClient  # noqa: PLC0415
    from backend.commands.shared.output import Fact, print_fact  # noqa: PLC0415
    from backend.commands.shared.setup import environment_with  # noqa: PLC0415

    environment = environment_with(config)
    loaded = settings.load(environment.config)
    overrides = parse_extra_params(extra_params or [])
    own_settings = loaded.for_project(overrides)
    _require_webhook_secret(environment)
    url = addresses.backend_url(backend_url, environment)
    wanted = Wanted(project, url, loaded.model_version, environment, overrides, review_queue)
    console, facts = Console(), []

    def report(fact: Fact) -> None:
        facts.append(fact)
        print_fact(console, fact)

    backend = BackendClient(url, environment)
    try:
        client = addresses.label_studio_client(label_studio, environment)
        report(Fact("label studio", f"{client.url}, {client.version()}"))
        changed = ProjectConnection(client, wanted).connect_and_prove(backend, own_settings, report)
        if changed is False:
            console.print("nothing had to be changed")
        elif changed is None:
            console.print("nothing was changed in Label Studio")
    except LabelStudioError as error:
        report(Fact("label studio", str(error), holds=False))
    finally:
        backend.close()
    if any(fact.holds is False for fact in facts):
        raise typer.Exit(1)


def disconnect(
    project: ProjectNumber,
    label_studio: LabelStudioUrl = None,
    backend_url: BackendUrl = None,
    config: Config = None,
) -> None:
    """Disconnect a Label Studio project from the server, and restore its settings. Predictions stay.

    Removes the ML backend, its webhook and the tab of camvo review. Needs LABEL_STUDIO_API_KEY.

    Example: camvo disconnect --project 1 --label-studio http://localhost:8080
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend import settings  # noqa: PLC0415 - keeps the help fast
    from backend.commands.connect import ProjectConnection, Wanted  # noqa: PLC0415
    from backend.commands.shared import backend_client as addresses  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.output import Fact, print_fact  # noqa: PLC0415
    from backend.commands.shared.setup import environment_with  # noqa: PLC0415

    environment = environment_with(config)
    title = settings.load(environment.config).model_version
    url, console = addresses.backend_url(backend_url, environment), Console()
    try:
        client = addresses.label_studio_client(label_studio, environment)
        connection = ProjectConnection(client, Wanted(project, url, title, environment))
        removed = connection.disconnect(lambda name, text: print_fact(console, Fact(name, text)))
    except LabelStudioError as error:
        print_fact(console, Fact("label studio", str(error), holds=False))
        raise typer.Exit(1) from None
    if not removed:
        console.print("the project was not connected to CaMVo")


def parse_extra_params(options: Sequence[str]) -> dict[str, Any] | None:
    """Parse JSON objects, and ``key=value`` with JSON or plain text as the value; later ones win."""
    overrides: dict[str, Any] = {}
    for text in options:
        key, equals, value = text.partition("=")
        if text.lstrip().startswith("{"):
            overrides |= _mapping(text)
        elif equals and key.strip():
            overrides[key.strip()] = _value(value)
        else:
            raise _mistake()
    return overrides if options else None


def _mapping(text: str) -> dict[str, Any]:
    value = _value(text)
    if not isinstance(value, dict):
        raise _mistake()
    return value


def _value(text: str) -> Any:
    import yaml  # noqa: PLC0415 - keeps the help fast

    try:
        return yaml.safe_load(text)  # YAML includes JSON, and true, 3 and plain words
    except yaml.YAMLError:
        raise _mistake() from None


def _mistake() -> ConfigError:
    return ConfigError(
        "is neither a JSON object nor key=value",
        where="--extra-params",
        fix="""give '{"delta": 0.9}' or delta=0.9""",
    )


def _require_webhook_secret(environment: Environment) -> None:
    """Refuse to connect a webhook that the server would reject."""
    if environment.basic_auth_user is not None and environment.webhook_secret is None:
        raise ConfigError(
            "Label Studio's webhooks carry no basic auth, so the server would refuse every human answer",
            where="CAMVO_WEBHOOK_SECRET",
            fix="set it to the same value here and for the server",
        )
