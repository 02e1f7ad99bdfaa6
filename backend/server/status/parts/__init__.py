"""The parts of a project's report: one small module each, which fills its own dataclass from the ledger."""
