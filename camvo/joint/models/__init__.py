"""Two models of votes: kinds of items and two coins; and the student beside either."""
