"""Gavel's library: everything of the evaluation that can be tested without an orchestrator."""

__version__ = "0.1.0"
