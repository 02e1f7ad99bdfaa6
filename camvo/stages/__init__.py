"""The order in which arms are asked, and when to stop asking."""
