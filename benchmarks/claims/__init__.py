"""One script for each numeric claim of the documentation, run by ``make claims``."""
