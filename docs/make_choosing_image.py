"""Draw the decision tree of the page about settings: ``python docs/make_choosing_image.py``.

Writes the picture and, for readers without pictures, the same tree as a list into the page.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent
PAGE, PICTURE = DOCS / "choosing.md", DOCS / "images" / "choosing.svg"


class Answer(NamedTuple):
    """An answer, what to do then, and the page or section that says more."""

    answer: str
    advice: str
    link: str


GRIDS = "#grids-number-of-atoms-penalty-depth-width"
# A question leads to the next one, unless the advice names another tool.
TREE = {
    "Does a pattern return, much the same?": [
        Answer("no", "not a task for PerCDL", "intended_use.md"),
    ],
    "Are the cycles cut already, and people few?": [
        Answer("yes", "elastic registration", "related.md#elastic-registration"),
    ],
    "Do patterns overlap?": [
        Answer("yes", "`coder=L1Coder()`", "related.md#convolutional-dictionary-learning"),
    ],
    "Do lengths of cycles differ a lot?": [
        Answer("yes", "`coder=L0Coder(stretch=2)`", "#cycles-of-different-lengths"),
    ],
    "What disturbs the recordings?": [
        Answer("drift", '`coder=L0Coder(baseline="line")`', "#signals-as-they-come"),
        Answer("some upside down", '`coder=L0Coder(polarity="person")`', "#signals-as-they-come"),
        Answer("very different sizes", '`loss="relative"`', "#signals-as-they-come"),
        Answer("impulses", "`loss=Huber()`", "troubleshooting.md"),
    ],
    "How do people differ?": [
        Answer("in pace", "`PerCDL`, with `TimeWarp()`", "#depth-and-width-of-a-warp"),
        Answer("also in direction", "`Compose(TimeWarp(), Rotation())`", "transforms.md"),
        Answer("not at all", "`PopCDL`", "guide.md"),
        Answer("in everything", "`IndCDL`", "guide.md"),
    ],
    "Do you know number, length and penalty?": [
        Answer("yes", "pass them", "start.md#fit"),
        Answer("no", '`"auto"`, the default', "#how-good-is-the-automatic-choice"),
        Answer("to be sure", "`select`, on people held out", GRIDS),
    ],
}
LIST = re.compile(r"(?<=<!-- tree -->\n).*?(?=<!-- tree end -->)", re.DOTALL)
LEFT, WIDTH, MIDDLE, RIGHT, LINE, GAP = 24, 360, 410, 620, 30, 22


def as_list() -> str:
    """Return the tree as a nested list."""
    lines = []
    for number, (question, answers) in enumerate(TREE.items(), 1):
        lines.append(f"{number}. {question}")
        lines += [f"   - {a.answer}: [{a.advice}]({a.link})" for a in answers]
    return "\n".join(lines) + "\n"


def draw() -> str:
    """Return the picture: questions on the left, answers and advice on the right."""
    parts, top, above = [], GAP, 0.0
    for question, answers in TREE.items():
        height = max(len(answers) * LINE, 40)
        center = top + height / 2
        if above:
            parts.append(f'<path d="M{LEFT + WIDTH / 2} {above + 20}V{center - 22}" {ARROW}/>')
        above = center
        parts.append(
            f'<rect x="{LEFT}" y="{center - 20}" width="{WIDTH}" height="40" rx="9" '
            f'fill="#eef5fa" stroke="#0072b2" stroke-width="1.5"/>'
            + text(LEFT + WIDTH / 2, center, question, 'text-anchor="middle" font-weight="600"')
        )
        for place, (answer, advice, _) in enumerate(answers):
            y = center + (place - (len(answers) - 1) / 2) * LINE
            parts.append(
                f'<path d="M{LEFT + WIDTH} {center}L{MIDDLE} {y}H{RIGHT - 8}" {ARROW}/>'
                + f'<rect x="{MIDDLE + 4}" y="{y - 10}" width="{8 * len(answer) + 8}" height="20" '
                f'fill="#ffffff"/>'
                + text(MIDDLE + 8, y, answer, 'font-style="italic"')
                + text(RIGHT, y, advice.replace("`", ""), 'font-weight="600"')
            )
        top += height + GAP
    return HEAD.format(height=top) + "\n".join(parts) + "\n</svg>\n"


def text(x: float, y: float, words: str, style: str) -> str:
    """Return a line of text, centred at a height."""
    return f'<text x="{x}" y="{y + 5}" {style}>{escape(words)}</text>'


ARROW = 'fill="none" stroke="#333" stroke-width="1.5" marker-end="url(#tip)"'
# The white card keeps the colours readable on a dark page.
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 {height}" width="940" height="{height}" \
font-family="system-ui, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="14" fill="#1a1a1a" \
role="img" aria-labelledby="t">
<title id="t">Questions about recordings and people, and the setting for each answer</title>
<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" \
orient="auto"><path d="M0 0L10 5L0 10z" fill="#333"/></marker></defs>
<rect width="940" height="{height}" rx="14" fill="#ffffff"/>
"""


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(LIST.sub(lambda _: as_list(), page), encoding="utf-8")
    PICTURE.write_text(draw(), encoding="utf-8")
