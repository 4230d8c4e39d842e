"""Which cases a suite has: sources, collection, selection, repetition."""
