"""The share of each label in a whole dataset, from all predictions and a random sample of blind labels.

``sample`` says which blind labels are such a sample, and of which tasks. ``label_shares`` computes the
intervals, ``population_counts`` the exact bounds that they are made of, and ``answers`` counts the answers.
"""
