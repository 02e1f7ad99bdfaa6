"""CaMVo's ML backend: Label Studio, models, embedder, ledger and server around the ``camvo`` algorithm."""
