"""The spine: requests, the ledger of answers, dispatch, and the backends that answer."""
