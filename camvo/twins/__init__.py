"""A model and its packed arm: which arms are one model, and whether packing changes its votes."""
