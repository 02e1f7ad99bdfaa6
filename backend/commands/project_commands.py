"""The options of the commands for a project in Label Studio. Heavy modules are imported when one runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console

from backend.commands.shared import arguments
from backend.commands.shared.arguments import Config, LabelStudioUrl, quiet_environment
from backend.errors import ConfigError, LabelStudioError

app = typer.Typer()

_ProjectNumber: TypeAlias = Annotated[
    int, typer.Option("--project", min=1, help="The project's number, as in the address of its page.")
]
_BackendUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--backend-url",
        help="URL at which Label Studio reaches CaMVo.",
        show_default="from CAMVO_HOST and CAMVO_PORT",
    ),
]


@app.command()
def connect(  # noqa: PLR0917 - a command's options
    project: _ProjectNumber,
    label_studio: LabelStudioUrl = None,
    backend_url: _BackendUrl = None,
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
    from backend import settings  # noqa: PLC0415 - keeps the help fast
    from backend.commands.connect import ProjectConnection, Wanted  # noqa: PLC0415
    from backend.commands.shared import backend_client as addresses  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.backend_client import BackendClient  # noqa: PLC0415
    from backend.commands.shared.output import Fact, print_fact  # noqa: PLC0415

    environment = quiet_environment(config)
    loaded = settings.load(environment.config)
    overrides = _parse_extra_params(extra_params or [])
    own_settings = loaded.for_project(overrides)
    arguments.require_webhook_secret(environment, "set it to the same value here and for the server")
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


@app.command()
def disconnect(
    project: _ProjectNumber,
    label_studio: LabelStudioUrl = None,
    backend_url: _BackendUrl = None,
    config: Config = None,
) -> None:
    """Disconnect a Label Studio project from the server, and restore its settings. Predictions stay.

    Removes the ML backend, its webhook and the tab of camvo review. Needs LABEL_STUDIO_API_KEY.

    Example: camvo disconnect --project 1 --label-studio http://localhost:8080
    """
    from backend import settings  # noqa: PLC0415 - keeps the help fast
    from backend.commands.connect import ProjectConnection, Wanted  # noqa: PLC0415
    from backend.commands.shared import backend_client as addresses  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.output import Fact, print_fact  # noqa: PLC0415

    environment = quiet_environment(config)
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


def _parse_extra_params(options: Sequence[str]) -> dict[str, Any] | None:
    """Parse JSON objects, and ``key=value`` with JSON or plain text as the value; later ones win."""
    overrides: dict[str, Any] = {}
    for text in options:
        key, equals, value = text.partition("=")
        if text.lstrip().startswith("{"):
            said = _value(text)
        else:
            said = {key.strip(): _value(value)} if equals and key.strip() else None
        if not isinstance(said, dict):
            raise _mistake()
        overrides |= said
    return overrides if options else None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _PredictOptions:
    """What ``camvo predict`` asks about, and how. The help texts explain it."""

    budget: arguments.Budget = None
    yes: arguments.Yes = False
    pilot: arguments.Pilot = 0
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh/--only-missing",
            help="Also count kept votes again and replace predictions that have changed, or only add missing"
            " ones.",
        ),
    ] = False
    below: Annotated[
        float,
        typer.Option(
            "--below", min=0.0, max=1.0, help="With --refresh: only predictions with a lower score."
        ),
    ] = 1.0
    recount: Annotated[
        bool,
        typer.Option(
            "--recount",
            help="Only count kept votes again by what is known now, and replace what changed. Costs nothing.",
        ),
    ] = False
    ask_more: Annotated[
        float | None,
        typer.Option(
            "--ask-more",
            min=0,
            help="With --recount or --refresh: then ask models that were left out, where that is worth most,"
            " for at most this many dollars over all runs.",
        ),
    ] = None
    failed: Annotated[
        bool, typer.Option("--failed", help="Ask only about tasks that ended without a prediction before.")
    ] = False
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            "--again",
            help="Ask again about the tasks that failed, and no others; models get another attempt.",
        ),
    ] = False
    annotated: Annotated[
        bool, typer.Option("--annotated", help="Also ask about tasks that people have annotated already.")
    ] = False
    in_order: arguments.InOrder = False
    no_wait: arguments.NoWait = False
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, max=500, help="Tasks in one request to the server.")
    ] = 50


@app.command()
@arguments.with_groups
def predict(
    project: _ProjectNumber,
    chosen: _PredictOptions,
    label_studio: LabelStudioUrl = None,
    backend_url: _BackendUrl = None,
) -> None:
    """Store the server's predictions for a whole Label Studio project. Repeat it after an interruption.

    The running server calls the models, which costs money: the command says first how much, and asks before
    more than a dollar is spent. Tasks with annotations are left out.
    With --recount alone no model is called. Needs LABEL_STUDIO_API_KEY.
    Exit codes: 0 every task has a prediction and no vote is missing; 1 tasks have no prediction; 2 wrong
    options, or no consent to the cost; 3 votes are missing that may still come; 4 models were rejected or
    gave no or hardly any votes; 130 after Ctrl-C.

    Example: camvo predict --project 1 --budget 20
    """
    from backend.commands.bulk.predict_command import predict_project  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.options import LabelOptions  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.setup import interruptible  # noqa: PLC0415 - keeps the help fast

    options = LabelOptions(**asdict(chosen))
    if options.ask_more is not None and not (options.recount or options.refresh):
        raise ConfigError("is for counting again", where="--ask-more", fix="add --recount, or --refresh")
    if options.below < 1.0 and not options.refresh:
        raise ConfigError("is for predictions that are there", where="--below", fix="add --refresh")
    if options.recount:
        of_asking = {"budget": options.budget, "yes": options.yes, "pilot": options.pilot}
        arguments.refuse("is for asking models", "leave it out, or give --refresh", **of_asking)
    with interruptible():
        code = predict_project(project, options, label_studio, backend_url)
    raise typer.Exit(code)


@app.command()
def review(  # noqa: PLR0917 - a command's options
    project: _ProjectNumber,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most tasks to suggest.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    tab: Annotated[
        bool,
        typer.Option(
            "--tab", help="Show these tasks in tabs of Label Studio's Data Manager. Needs an API key."
        ),
    ] = False,
    disputed: Annotated[
        bool,
        typer.Option(
            "--disputed",
            help="List the tasks on which people disagree with one another or with a certain vote.",
        ),
    ] = False,
    label_studio: LabelStudioUrl = None,
    config: Config = None,
) -> None:
    """List the tasks that a human should label next, and why. Reads the ledger; needs no server.

    Example: camvo review --project 1 --limit 10
    """
    from backend.commands.review import show_disputed, show_review_list  # noqa: PLC0415
    from backend.commands.shared import backend_client as addresses  # noqa: PLC0415 - keeps the help fast

    environment = quiet_environment(config)
    client = addresses.label_studio_client(label_studio, environment) if tab else None
    show = show_disputed if disputed else show_review_list
    show(Console(), environment, client, project, limit, as_json=as_json)


@app.command()
def accept(  # noqa: PLR0917 - a command's options
    project: _ProjectNumber,
    above: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Accept predictions with at least this score.")
    ] = None,
    uncertified: Annotated[
        bool, typer.Option("--uncertified", help="Also accept labels that no blind label certifies.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be accepted or deleted.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Delete the annotations that camvo accept has made.")
    ] = False,
    label_studio: LabelStudioUrl = None,
    config: Config = None,
) -> None:
    """Turn confident predictions into annotations, without a human look at each.

    Takes certified labels only. Leaves out tasks that are blind, annotated, skipped or begun by somebody.
    What is accepted is never learnt as a human label. Uses the server's ledger; needs LABEL_STUDIO_API_KEY.

    Example: camvo accept --project 1 --above 0.95
    """
    from backend.commands.accept import run_accept, run_undo  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared import backend_client as addresses  # noqa: PLC0415

    if (above is None) != undo:
        raise ConfigError("give either --above or --undo", where="camvo accept", fix="e.g. --above 0.95")
    environment = quiet_environment(config)
    client = addresses.label_studio_client(label_studio, environment)
    if above is None:
        run_undo(Console(), environment, client, project, dry_run=dry_run)
        return
    run_accept(Console(), environment, client, project, above, uncertified=uncertified, dry_run=dry_run)
