"""Rates: how many requests and tokens a model is sent, as one controller for all processes of a ledger.

``controller.py`` decides by what ``quota.py`` learns, ``gate.py`` lets the calls of one process through, by
leases of a second, and ``answers.py`` has what they exchange, and what providers' headers say about quotas.
"""
