"""The texts of a replayed table: the student that reads them, and made-up ones to try it on."""
