"""Packed arms: how many tasks a prompt holds, what one costs, and how often packing changes the vote."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import Connection

from backend.ledger import reports
from backend.ledger.calls import pack_checks
from backend.server.status.evidence import PackComparison, PackReport
from camvo.twins.pack_test import judge_pack
from camvo.twins.same_model import model_of


def pack_reports(connection: Connection, project: str) -> tuple[PackReport, ...]:
    """A report for each packed arm that a project has asked, by name."""
    agreed: dict[str, dict[tuple[str, str], list[bool]]] = defaultdict(lambda: defaultdict(list))
    for check in pack_checks.of_project(connection, project):
        agreed[check.arm][check.control, check.epoch].append(check.agreed)
    sums = {row.arm: row for row in reports.sum_packs(connection, project)}
    return tuple(
        PackReport(
            arm=arm,
            model=model_of(arm) or arm,
            prompts=0 if (row := sums.get(arm)) is None else row.prompts,
            tasks=0 if row is None else row.tasks,
            cost_usd=0.0 if row is None else row.cost_usd,
            comparisons=tuple(
                PackComparison(control, epoch, verdict.compared, verdict.differed, verdict.unpacked)
                for (control, epoch), same in sorted(agreed[arm].items())
                for verdict in [judge_pack(same)]
            ),
        )
        for arm in sorted({*sums, *agreed})
    )
