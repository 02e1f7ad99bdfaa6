"""In which order arms are asked, and when to stop."""
