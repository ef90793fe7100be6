"""Judging: rubrics, records to requests, answers to verdicts, verdicts to scores."""
