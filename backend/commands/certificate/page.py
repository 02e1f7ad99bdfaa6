"""A certificate as one HTML page that loads nothing, for a screen of any width and for A4."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from backend.commands.certificate.advice import what_to_label
from backend.commands.certificate.contents import Contents, current_questions
from backend.commands.certificate.picture import shares
from backend.server.status import formats
from backend.server.status.drawings.drawing import Drawing, drawn
from backend.server.status.report import ProjectReport


def draw(project: ProjectReport) -> dict[str, Drawing]:
    """Return control → the picture of its labels' shares; controls without shares are absent."""
    return {
        question.control: drawn(shares, f"shares-{number}", question.shares.labels)
        for number, question in enumerate(current_questions(project))
        if question.shares is not None and question.shares.labels
    }


def render(  # noqa: PLR0917 - what the page says
    project: ProjectReport,
    contents: Contents,
    number: int,
    issued_at: float,
    version: str,
    drawings: dict[str, Drawing],
) -> str:
    """Return the page.

    Args:
        project: the project's report, with shares.
        contents: what else it says.
        number: the certificate's number.
        issued_at: unix seconds.
        version: CaMVo's version.
        drawings: control → the picture of its shares.
    """
    questions = current_questions(project)
    return (
        _environment()
        .get_template("certificate.html")
        .render(
            project=project,
            contents=contents,
            number=number,
            issued_at=issued_at,
            version=version,
            questions=questions,
            drawings=drawings,
            advice={question.control: what_to_label(project, question) for question in questions},
            models={model.name: model for model in project.models},
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("backend.commands.certificate"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("count", "dollars", "iso", "moment", "of", "percent", "share_of_hundred")
    environment.filters |= {name: getattr(formats, name) for name in names}
    return environment
