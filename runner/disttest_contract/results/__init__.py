"""The report of one attempt and its parts."""
