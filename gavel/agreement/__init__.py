"""Statistics of agreement and change: between evaluators and people, and between days."""
