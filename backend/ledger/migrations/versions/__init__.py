"""One file per schema version, in order. No migration is folded or edited after its release."""
