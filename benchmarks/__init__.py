"""Measurements: scripts that write their figures, with command, commit, seeds and machine, as JSON."""
