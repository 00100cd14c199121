"""The steps of the algorithm, one per file: pure functions on arrays."""
