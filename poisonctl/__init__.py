"""`poisonadmin`, the command line of PoisonAdmin: for runbooks, and for configuration as code."""
