"""The f of the paper: how a common atom becomes a personal one."""

from percdl.transforms.base import (
    ChannelTransform,
    ClosedFormTransform,
    LinearTransform,
    Transform,
    WarpTransform,
    require,
)
from percdl.transforms.channels import Gain, Modulation, Rotation
from percdl.transforms.compose import Compose
from percdl.transforms.custom import Custom
from percdl.transforms.extremes import Free, Identity
from percdl.transforms.shift import Shift
from percdl.transforms.time_warp import TimeWarp

__all__ = [
    "ChannelTransform", "ClosedFormTransform", "Compose", "Custom", "Free", "Gain", "Identity",
    "LinearTransform", "Modulation", "Rotation", "Shift", "TimeWarp", "Transform", "WarpTransform",
    "require",
]  # fmt: skip
