"""``camvo label``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from backend.commands.connect.options import BackendUrl, Config, LabelStudioUrl
from backend.errors import ConfigError

if TYPE_CHECKING:
    from backend.commands.label.options import LabelOptions


def label(  # noqa: PLR0917 - a command's options
    source: Annotated[
        Path | None,
        typer.Argument(
            help="The tasks: .csv, .jsonl, .parquet, or Label Studio's .json.", show_default=False
        ),
    ] = None,
    project: Annotated[
        int | None,
        typer.Option(
            "--project",
            min=1,
            help="Label this project of Label Studio instead, and store predictions there.",
        ),
    ] = None,
    label_config: Annotated[
        Path | None, typer.Option("--label-config", help="The label config, an XML file.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option("--labels", help="Instead of a label config: the labels, with commas.")
    ] = None,
    text_column: Annotated[
        str | None, typer.Option("--text-column", help="With --labels: the column of the text.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Where labels go: .csv, .jsonl, .parquet, or .json for import into Label Studio."
        ),
    ] = None,
    config: Config = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id-column", help="The column of the ids.", show_default="a hash of the content"),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="The project in the ledger.", show_default="the file's name"),
    ] = None,
    blind: Annotated[
        int,
        typer.Option(
            "--blind",
            min=0,
            help="Keep so many random tasks blind, and write them to blind.csv beside --out.",
        ),
    ] = 0,
    budget: Annotated[
        float | None,
        typer.Option("--budget", min=0, help="The most dollars that the project may cost over all runs."),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again about the tasks that failed, and no others.")
    ] = False,
    batch: Annotated[
        bool,
        typer.Option("--batch", help="Ask in providers' batches: at half the price, within a day."),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="With batches: wait for them instead of coming back later.")
    ] = False,
    recount: Annotated[
        bool,
        typer.Option(
            "--recount", help="At the end, count kept votes again by what is known then. Costs nothing."
        ),
    ] = False,
    ask_more: Annotated[
        float | None,
        typer.Option(
            "--ask-more",
            min=0,
            help="With --recount: ask models that were left out, where that is worth most, for at most so"
            " many dollars over all runs.",
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", help="Also write the certificate of the labels, an HTML page."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option("--shard", help="Label only this part of the tasks, as 3/16; run the others elsewhere."),
    ] = None,
    engine: Annotated[
        Literal["asyncio", "ray"] | None,
        typer.Option(
            "--engine",
            help="Label in parts, here or on a Ray cluster; --out is then a folder.",
            show_default=False,
        ),
    ] = None,
    server: Annotated[
        bool, typer.Option("--server", help="With --project: let the running server do it (camvo predict).")
    ] = False,
    label_studio: LabelStudioUrl = None,
    backend_url: BackendUrl = None,
) -> None:
    """Label a whole file, or a Label Studio project. Calls models, which costs money.

    After Ctrl-C or a crash, the same command goes on where it stopped: nothing that was paid for is lost.

    Example: camvo label reviews.csv --labels Positive,Negative --text-column review --out labels.csv
    """
    of_files = {
        "--label-config": label_config,
        "--labels": labels,
        "--text-column": text_column,
        "--out": out,
        "--id-column": id_column,
        "--name": name,
        "--blind": blind or None,
        "--shard": shard,
        "--engine": engine,
        "--certificate": certificate,
    }
    of_projects = {"--label-studio": label_studio, "--backend-url": backend_url, "--server": server or None}
    if project is not None:
        fix = f"use camvo predict --project {project} --recount"
        _refuse({"--recount": recount or None, "--ask-more": ask_more}, "is for files", fix)
        _refuse(of_files, "is for files", "leave it out: Label Studio has the tasks and the label config")
        if server:
            _refuse({"--config": config, "--budget": budget}, "is set at the server", "leave it out")
    else:
        _refuse(of_projects, "is for projects", "give --project N in place of a file")
    if (source is None) == (project is None):
        raise ConfigError("say what to label", where="SOURCE", fix="give a file, or --project N")
    if project is not None:
        _label_project(project, config, label_studio, backend_url, server, budget, retry_failed)
        return
    from backend.commands.label.options import LabelOptions  # noqa: PLC0415 - keeps the help fast
    from backend.datasets.shard import WHOLE, Shard  # noqa: PLC0415

    if source is None or out is None:
        raise ConfigError("say where the labels go", where="--out", fix="give --out labels.csv")
    if blind and (shard or engine):
        fix = "set audit in camvo.yaml to a share of the tasks: every host then keeps the same ones blind"
        raise ConfigError("draws one sample of a file that one process labels", where="--blind", fix=fix)
    if ask_more is not None and not recount:
        raise ConfigError("is for counting again", where="--ask-more", fix="add --recount")
    if recount and (shard or engine):
        fix = "run it once more for the whole file, without --shard and --engine: nothing is paid twice"
        raise ConfigError("goes through the whole file in one process", where="--recount", fix=fix)
    if engine:
        _refuse({"--shard": shard}, "divides a file among hosts, as --engine does itself", "leave one out")
    options = LabelOptions(
        label_config=None if label_config is None else _text(label_config),
        labels=[] if labels is None else [text.strip() for text in labels.split(",") if text.strip()],
        text_column=text_column,
        id_column=id_column,
        name=name,
        blind=blind,
        blind_file=out.parent / "blind.csv",
        budget=budget,
        retry_failed=retry_failed,
        batch=batch,
        wait=wait,
        recount=recount,
        ask_more=ask_more,
        shard=WHOLE if shard is None else Shard.parse(shard),
    )
    done = _label_file(source, out, options, config, engine)
    if certificate is not None:
        _issue(certificate, options.project(source), config)
    if not done:
        raise typer.Exit(1)


def _issue(certificate: Path, project: str, config: Path | None) -> None:
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend.commands.certificate.issue import issue_certificate  # noqa: PLC0415
    from backend.commands.environment import environment_with  # noqa: PLC0415

    issue_certificate(Console(), environment_with(config), project, certificate)


def _label_file(
    source: Path,
    out: Path,
    options: LabelOptions,
    config: Path | None,
    engine: Literal["asyncio", "ray"] | None,
) -> bool:
    if engine is None:
        from backend.commands.label.file_run import label_file  # noqa: PLC0415 - keeps the help fast

        return label_file(source, out, options, config)
    from backend.commands.label.engines.engine_run import label_in_parts  # noqa: PLC0415

    return label_in_parts(source, out, options, config, engine)


def _label_project(  # noqa: PLR0917 - the options that have a meaning for projects
    project: int,
    config: Path | None,
    label_studio: str | None,
    backend_url: str | None,
    server: bool,
    budget: float | None,
    retry_failed: bool,
) -> None:
    if server:
        from backend.commands.predict.predict_command import predict  # noqa: PLC0415 - keeps the help fast

        predict(project, label_studio, backend_url, failed=retry_failed, again=retry_failed)
        return
    from backend.commands.label.project_run import label_project  # noqa: PLC0415 - keeps the help fast

    if not label_project(project, config, label_studio, budget=budget, retry_failed=retry_failed):
        raise typer.Exit(1)


def _refuse(options: Mapping[str, object], message: str, fix: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise ConfigError(message, where=name, fix=fix)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {type(error).__name__}", where="--label-config", fix="check the path"
        ) from None
