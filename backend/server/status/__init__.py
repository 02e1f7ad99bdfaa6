"""The status of every project, for people and for programs: ``GET /status`` and ``camvo report``.

``build`` makes one report value of what the ledger holds and, with a running server, of what only it knows
(``live``). The page, the JSON and the terminal are made from that value. To add a part of a project:

1. In ``parts/``, write a module with a dataclass and the function that fills it, and add the dataclass to
   ``report`` as a field of ``ProjectReport`` or ``QuestionReport``.
2. In ``templates/``, write a template of the same name, and include it in ``project.html``.
3. Print it in ``backend/commands/report.py``.

``alarms/`` finds what people must know, and reports it once. ``drawings/`` draws the charts of a page.
"""
