"""Redaction: what models see instead of a task's texts, and the way back to the originals."""
