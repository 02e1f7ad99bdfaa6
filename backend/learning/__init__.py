"""Learning: human answers come in; states, background fits, scorers and prompt examples come out.

``actions`` applies a webhook, ``teaching`` stores what a round teaches and corrects it by human labels. The
other modules hold what one process reads from the ledger for its next predictions.
"""
