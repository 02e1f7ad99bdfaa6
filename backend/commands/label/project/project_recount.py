"""``camvo label --project N --recount``: kept votes counted again, and shown by Label Studio."""

from __future__ import annotations

from rich.console import Console

from backend.commands.label.counting_again import count_again
from backend.commands.label.options import LabelOptions
from backend.commands.label.project.project_file import ProjectTasks
from backend.commands.label.project.project_process import OpenProject
from backend.recounting.delivery import Delivery
from backend.settings import Environment


def recount_project(
    project: OpenProject, options: LabelOptions, environment: Environment, console: Console
) -> None:
    """Count the kept votes of a project again, after further votes if asked to, and replace what changed.

    Nothing changes in Label Studio where somebody has annotated a task or begun to, and no model is asked
    about it.

    Args:
        project: the project.
        options: how much further votes may cost.
        environment: the key of Label Studio.
        console: where it is said.

    Raises:
        LabelStudioError: Label Studio refused, or cannot be reached; the rest stays to be delivered.
        LedgerError: the ledger failed.
        KeyboardInterrupt: somebody interrupted the run; what was bought is stored.
    """
    untouched = ProjectTasks(project.client, project.number, project.tasks.tasks, untouched=True)
    count_again(project.jobs, untouched, console, options.ask_more)
    process = project.jobs.process
    delivery = Delivery(
        ledger=process.ledger,
        writer=process.writer,
        annotator=process.annotator,
        readers=process.readers,
        settings=process.settings,
        environment=environment.model_copy(update={"label_studio_url": project.client.url}),
        pause=0.0,
    )
    with console.status("replacing predictions"):
        replaced = process.thread.submit(delivery.deliver(project.jobs.project, _go_on)).result()
    console.print(f"{replaced:,} predictions replaced in Label Studio", highlight=False)


async def _go_on() -> bool:
    return True
