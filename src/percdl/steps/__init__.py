"""One file per verb of the algorithm: pure functions on arrays."""
