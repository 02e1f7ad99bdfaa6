"""The steps of ``camvo connect``: prove, change, prove again, and only then remove what is older."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from backend.commands.connect import tabs
from backend.commands.connect.backend_client import BackendClient
from backend.commands.connect.connect import connect_project
from backend.commands.connect.preflight import check_before_connecting
from backend.commands.connect.proof import prove_reachable, prove_useful
from backend.commands.connect.wanted import Wanted
from backend.commands.facts import Fact
from backend.label_studio.client import Client
from backend.settings import Settings

Report = Callable[[Fact], None]
"""Called with each fact as soon as it is known."""


def connect_and_prove(
    client: Client, backend: BackendClient, wanted: Wanted, settings: Settings, report: Report
) -> bool | None:
    """Connect a project, and report what was found out and done.

    Args:
        client: Label Studio.
        backend: the server, as seen from here.
        wanted: how the project is to be connected.
        settings: the server's settings for this project.
        report: called with each fact.

    Returns:
        Whether anything had to be changed; ``None`` if a proof failed before any change.

    Raises:
        LabelStudioError: Label Studio refused something, cannot be reached, or cannot use the connection.
            The project is as it was before.
    """
    if not _all_hold(check_before_connecting(client, backend, wanted, settings), report):
        return None
    changed = connect_project(
        client,
        wanted,
        lambda name, text: report(Fact(name, text)),
        proved=lambda: _all_hold(prove_reachable(client, backend, wanted), report),
    )
    address, added = tabs.ensure_overview(client, wanted.project, first=wanted.review_queue)
    report(Fact("tab", f"{tabs.OVERVIEW_TITLE!r} {'added' if added else 'is there'}: {address}"))
    _all_hold(prove_useful(client, wanted), report)
    return changed or added


def _all_hold(facts: Iterable[Fact], report: Report) -> bool:
    """Report facts as they come; return whether none of them fails."""
    hold = True
    for fact in facts:
        report(fact)
        hold &= fact.holds is not False
    return hold
