"""Comparing texts: BERTScore, embeddings, keywords, whole words."""
