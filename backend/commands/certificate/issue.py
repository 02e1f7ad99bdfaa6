"""Issuing a certificate: the page is written, and the ledger keeps what it covers."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

from rich.console import Console
from sqlalchemy import Connection

from backend import settings as settings_module
from backend.commands.certificate.contents import Contents, contents
from backend.commands.certificate.outcome import project_report
from backend.commands.certificate.page import draw, render
from backend.commands.stored_projects import existing_ledger, stored_project
from backend.datasets.sinks.whole_file import WholeFile, check_writable
from backend.errors import ConfigError
from backend.ledger import projects
from backend.ledger.certificates import issued
from backend.ledger.certificates.issued import Issued
from backend.ledger.database.clock import now
from backend.server.status.report import ProjectReport
from backend.settings import Environment


def issue_certificate(console: Console, environment: Environment, project: str | None, path: Path) -> int:
    """Write the certificate of a project's labels as they are now, and remember it.

    Args:
        console: where earlier certificates that no longer hold are named.
        environment: the ledger's address and ``camvo.yaml``.
        project: the project's key, or its number in Label Studio; ``None`` for the only one of the ledger.
        path: the page.

    Returns:
        The certificate's number.

    Raises:
        ConfigError: the ledger has no such project or several, or it has no label.
        DatasetError: the page cannot be written.
    """
    check_writable(path)
    settings = settings_module.load(environment.config)
    with existing_ledger(environment) as ledger:
        ledger.migrate()
        with ledger.read() as connection:
            stored = stored_project(connection, _named(connection, project))
            report = project_report(connection, settings, stored.key)
            if report is None or not report.rounds:
                raise ConfigError(
                    f"project {stored.key!r} has no label", where="--project", fix="label tasks first"
                )
            said = contents(connection, stored, settings)
        drawings = draw(report)
        with ledger.write() as connection:
            number, at = issued.next_number(connection, stored.key), now(connection)
            page = render(report, said, number, at, metadata.version("camvo"), drawings).encode()
            issued.store(connection, stored.key, _record(said, number, at, page))
            with WholeFile(path) as file:
                file.write(page)
    _say(console, report, number, path, hashlib.sha256(page).hexdigest())
    return number


def _named(connection: Connection, project: str | None) -> str:
    if project is not None:
        return project
    known = [stored.key for stored in projects.list_all(connection)]
    if len(known) != 1:
        raise ConfigError(
            f"the ledger has {len(known)} projects", where="--certificate", fix="name one with --project"
        )
    return known[0]


def _record(said: Contents, number: int, at: float, page: bytes) -> Issued:
    return Issued(
        number=number,
        issued_at=at,
        counting=said.counting,
        through=said.through,
        labels=said.covered.count,
        labels_hash=said.covered.hash,
        evidence=said.evidence,
        file_hash=hashlib.sha256(page).hexdigest(),
    )


def _say(console: Console, report: ProjectReport, number: int, path: Path, file_hash: str) -> None:
    console.print(
        f"certificate {number} written to {path} (SHA-256 {file_hash[:16]}…)", highlight=False, soft_wrap=True
    )
    for earlier in report.certificates or ():
        if earlier.reason is not None:
            console.print(
                f"certificate {earlier.number} no longer holds: {earlier.message}",
                highlight=False,
                soft_wrap=True,
            )
