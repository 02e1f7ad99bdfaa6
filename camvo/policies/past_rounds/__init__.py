"""Rounds of the past, decided again by what is known today, or asked again."""
