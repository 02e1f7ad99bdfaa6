"""One question asked about many tasks: the policy, its prices and its learned state in one object."""
