"""The f of the paper: how a common atom becomes a personal one."""

from percdl.transforms.base import (
    ClosedFormTransform,
    LinearTransform,
    Transform,
    WarpTransform,
    require,
)
from percdl.transforms.free import Free
from percdl.transforms.identity import Identity
from percdl.transforms.time_warp import TimeWarp

__all__ = [
    "ClosedFormTransform",
    "Free",
    "Identity",
    "LinearTransform",
    "TimeWarp",
    "Transform",
    "WarpTransform",
    "require",
]
