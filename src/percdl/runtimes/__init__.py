"""Where local rounds run."""
