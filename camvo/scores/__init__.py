"""How sure a label is: shared errors, calibration, the guarantee."""
