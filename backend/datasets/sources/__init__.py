"""Sources of rows, one module for each format."""
