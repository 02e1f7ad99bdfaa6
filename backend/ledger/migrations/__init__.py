"""Alembic's environment for the ledger, run by ``Ledger.migrate``; there is no ``alembic.ini``.

The first migration has the revision id 0004: revisions 0001 to 0003 existed only before the first release and
were folded into it. No migration is ever folded again. A change of the tables adds a file to ``versions``,
and a test migrates a ledger that the first release's code wrote.
"""
