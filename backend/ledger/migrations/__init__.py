"""Alembic's environment for the ledger, run by ``Ledger.migrate``; there is no ``alembic.ini``.

A new ledger is made of the tables of today, and migrations change older ones. The first release has
``0001_ledger.py``. From then on a change of the tables adds a file to ``versions``, with a test that the
tables of the release before become those of today, and no released migration is changed or folded.
"""
