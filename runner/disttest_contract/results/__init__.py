"""The report of an attempt and what it consists of."""
