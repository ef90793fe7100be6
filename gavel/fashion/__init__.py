"""The fashion assistant benchmark: simulate, verify, translate, replay, score."""
