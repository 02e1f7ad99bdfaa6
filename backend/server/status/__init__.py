"""The status of every project, for people and for programs: ``GET /status`` and ``camvo report``.

``build`` makes one report value from the ledger and, on a running server, from the server's own counters. The
page, the JSON and the terminal are made from that value. To add a number about a project:

1. Sum it in ``backend/ledger/reports.py``, if the ledger does not yet.
2. Add a field to a dataclass in ``report``, say in docs/http.md what it means, and fill it in ``work``,
   ``question_reports`` or ``promises``.
3. Show it in a template of ``templates/``.
4. Print it in ``backend/commands/report.py``.

``alarms`` finds what people must know, and ``alarm_watch`` reports it once. ``drawings`` draws the charts.
"""
