"""Alembic's environment for the ledger, run by ``Ledger.migrate``; there is no ``alembic.ini``.

Until the first release the only migration is ``0001_ledger.py``, and a change of the tables changes it. From
then on a change of the tables adds a file to ``versions``, and no released migration is changed or folded.
"""
