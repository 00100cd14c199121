"""The long suites: bad luck and bad will, at length. Their short versions are in the tests."""
