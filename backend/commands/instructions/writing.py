"""A project's instructions in Label Studio, changed only as a person agreed to."""

from __future__ import annotations

from difflib import unified_diff
from html import escape

from rich.console import Console

from backend.errors import ConfigError
from backend.label_studio.client import Client
from backend.questions.objects import instructions_text, split_instructions


def change_instructions(  # noqa: PLR0917 - a change, and what it must not do
    client: Client, number: int, old: str, new: str, read: str, console: Console, *, yes: bool, where: str
) -> None:
    """Show how a project's instructions change, and change them.

    Args:
        client: the project's Label Studio.
        number: the project's number.
        old: the instructions now, as HTML.
        new: those to write.
        read: what models are to read of them.
        console: where the lines that change are shown.
        yes: whether the change was agreed to.
        where: the option that asks for the change.

    Raises:
        ConfigError: the change was not agreed to; or Label Studio stores another text for models, and has the
            old one again.
    """
    for line in unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            console.print(line, highlight=False, soft_wrap=True, markup=False)
    if not yes:
        raise ConfigError(
            f"would change the instructions of project {number} as shown; nothing was changed",
            where=where,
            fix="add --yes to write them",
        )
    stored = client.change_project(number, {"expert_instruction": new}).get("expert_instruction")
    if instructions_text(str(stored or "")) != read:
        client.change_project(number, {"expert_instruction": old})
        raise ConfigError(
            "Label Studio stores another text for models than the one that was agreed to, so the instructions"
            " were put back",
            where=where,
            fix="change them by hand in Settings > Instructions",
        )


def with_new_text(written: str, text: str) -> str:
    """The instructions, as HTML, with a new text for models; what is for annotators alone stays."""
    _, below = split_instructions(written)
    paragraphs = "\n".join(f"<p>{escape(line, quote=False)}</p>" for line in text.splitlines())
    kept = instructions_text(paragraphs) == text
    above = paragraphs if kept else escape(text, quote=False)
    return f"{above}\n{below}" if below else above
