"""Recounts: the kept votes of a round, counted again later. The round itself stays as it was.

A *counting* goes through a project once; it has a number, a reason and a time (``countings``). Its *recounts*
are the labels and scores that it changed (``rows``), of rounds whose task nobody has annotated
(``countable_rounds``). What it says of annotated ones is compared with people's answers (``checks``).
"""
