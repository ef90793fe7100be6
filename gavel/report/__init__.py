"""What a day's evaluation amounts to: quality figures, the audit trail, the page a person opens."""
