"""Algorithm 1 as a local half, a sum, and a server half; the loop that joins them."""
