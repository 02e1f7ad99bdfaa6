"""Recounting: kept votes are counted again by what is known now, and Label Studio shows the new labels."""
