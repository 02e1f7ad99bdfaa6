"""Ready label configs, to be pasted into Label Studio: one for each kind of task."""
