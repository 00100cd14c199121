"""Colours and words that the pictures of walkers share."""

from percdl.datasets.gait import GROUPS
from percdl.plotting.style import COLORS

GROUP_COLORS: dict[str, str] = dict(zip(GROUPS, (COLORS[0], COLORS[4], COLORS[2]), strict=True))
VARIABILITY_COLOR = COLORS[1]
VELOCITY = "angular velocity (unit norm)"
WINDOW = "time in the window of the atom (s)"
