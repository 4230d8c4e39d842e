"""One rank: a pytest session whose cases the agent starts."""
