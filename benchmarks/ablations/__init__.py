"""Training runs of many arms and seeds, and what is reported of them."""
