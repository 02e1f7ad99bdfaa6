"""The status of every project, for people and for programs: ``GET /status`` and ``camvo report``.

``report`` and ``evidence`` define what is reported. ``build`` collects it from the ledger with ``questions``,
``models``, ``reliability``, ``failed`` and ``alerts``; ``live`` adds what only a running server knows.
``page`` renders it as HTML. To add a section, add a dataclass, a function that fills it, and a template in
``templates``.
"""
