"""What decides that a partition must run: pure decisions, and thin sensors around them."""
