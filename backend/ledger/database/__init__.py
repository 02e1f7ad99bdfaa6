"""The SQL database under the ledger: engines, tables, transactions."""
