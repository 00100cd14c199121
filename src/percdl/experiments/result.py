"""What an experiment is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from percdl.experiments.ledger import Ledger

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Setting = TypeVar("Setting")


class Scale(StrEnum):
    """How large an experiment is: minutes on two cores, or the paper's own size."""

    SMALL = "small"
    PAPER = "paper"


@dataclass(frozen=True)
class Study:
    """The question put to an experiment.

    Attributes
    ----------
    scale : Scale
        How large.
    ledger : Ledger
        Where finished measurements are kept, so that an interrupted study goes on.
    """

    scale: Scale = Scale.SMALL
    ledger: Ledger = field(default_factory=Ledger)

    def pick(self, small: Setting, paper: Setting) -> Setting:
        """Return the setting of this scale."""
        return paper if self.scale is Scale.PAPER else small


@dataclass(frozen=True)
class Line:
    """A number or a statement of the paper beside ours.

    Attributes
    ----------
    quantity : str
        What is compared.
    paper, ours : str
        Both values, as text; a dash where the paper states none.
    settings : str
        What ours was measured with.
    """

    quantity: str
    paper: str
    ours: str
    settings: str

    def __str__(self) -> str:
        return f"{self.quantity}: {self.paper} | {self.ours} | {self.settings}"


@dataclass(frozen=True)
class Result:
    """The answer of an experiment.

    Attributes
    ----------
    lines : list of Line
        The paper's values beside ours.
    tables : dict of str to DataFrame
        All numbers behind the figures and lines; one CSV file each.
    figures : dict of str to Figure
        One PNG and one SVG file each.
    reading : str
        What is to be seen: agreement, disagreement and the reason, in a few sentences.
    """

    lines: list[Line]
    tables: dict[str, pd.DataFrame]
    figures: dict[str, Figure]
    reading: str
