"""The interface between operator, runner and command line; standard library only."""
