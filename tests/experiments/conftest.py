"""Experiments fit recordings of ordinary size."""

import pytest


@pytest.fixture(autouse=True)
def as_users_do(optimized):
    """Compile programs with the options of users."""
