"""The student: an arm that costs nothing, taught by the labels of past tasks."""
