"""The commands of ``camvo``."""
