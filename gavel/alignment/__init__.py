"""People's labels: read in, sampled for, held against the evaluator."""
