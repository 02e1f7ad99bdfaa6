"""Everything of CaMVo that touches the world: Label Studio, the models, the embedder, the ledger."""
