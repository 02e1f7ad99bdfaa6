"""The server: gunicorn, the Flask application, and one runtime per worker process."""
