"""Further votes: models that rounds left out are asked later, where labels are in doubt.

``doubts`` finds the tasks on which further votes are worth most, ``asking`` asks about one task and stores
the votes beside its rounds, and ``background`` does so by itself for the tasks that people have labelled.
"""
