"""What became of every project, for people and for programs: ``GET /status`` and ``camvo report``.

``report`` says what is reported, ``build`` sums it from the ledger, ``live`` adds what only a running server
knows, ``page`` and ``terminal`` show it. A new section is a dataclass in ``report``, a function that makes it
and a template in ``templates``.
"""
