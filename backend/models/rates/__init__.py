"""Rates: how many requests and tokens a model is sent, as one controller for all processes of a ledger.

- ``controller.py`` with ``quota.py``, ``counts.py`` and ``messages.py`` decides, without a clock or I/O.
- ``stores.py`` keeps its state: in the ledger, or in the process.
- ``gate.py`` with ``lease_holder.py``, ``concurrency.py`` and ``outcomes.py`` lets the calls of one process
  through, by leases of a second.
- ``headers.py`` reads what providers say about their quotas.
"""
