"""The learned state: a sum of contributions, each of which can be taken back."""
