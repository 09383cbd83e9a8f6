"""Training: a run script, a round of self-play per update, and the adapter to TRL."""
