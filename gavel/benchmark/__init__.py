"""Evaluators side by side: the same labelled records judged by each, figures, paired tests, pairs of answers."""
