"""The student: an arm that costs nothing, taught by the labels that came out."""
