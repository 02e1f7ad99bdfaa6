"""What the server answers: to Label Studio, to the commands of ``camvo``, and to people."""
