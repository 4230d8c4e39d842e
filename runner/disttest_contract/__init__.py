"""What operator, runner and command line must agree on; standard library only."""
