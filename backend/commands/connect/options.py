"""The options that the commands for Label Studio share. Nothing heavy is imported here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

LabelStudioUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--label-studio",
        help="Label Studio's address, e.g. http://host:8080.",
        show_default="LABEL_STUDIO_URL",
    ),
]
ProjectNumber: TypeAlias = Annotated[
    int, typer.Option("--project", min=1, help="The project's number, as in the address of its page.")
]
BackendUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--backend-url",
        help="URL at which Label Studio reaches CaMVo.",
        show_default="from CAMVO_HOST and CAMVO_PORT",
    ),
]
Config: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help="The camvo.yaml to use.", show_default="CAMVO_CONFIG, else the defaults"),
]
