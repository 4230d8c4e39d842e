"""Formats of reports for users and other programs: pure functions of a Subject."""
