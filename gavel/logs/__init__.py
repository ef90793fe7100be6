"""Source rows to records to shards: reading logs, cleaning them, and dealing them out."""
