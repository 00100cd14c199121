"""Slow, simple implementations of the fast code, from the tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import naive
from double import in_double

__all__ = ["in_double", "naive"]
