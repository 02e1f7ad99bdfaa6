"""The server: gunicorn, Flask and the runtime of one process."""
