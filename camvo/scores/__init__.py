"""How sure a label is: correlated errors, calibration and the selective guarantee."""
