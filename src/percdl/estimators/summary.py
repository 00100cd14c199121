"""A fit on one screen: settings, results, recordings to check, and next steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from percdl.estimators.cycles import FALSE_ALARMS, find_cycles
from percdl.estimators.people import check_names
from percdl.estimators.personalization import errors_of
from percdl.estimators.suspects import KINDS, name_suspects
from percdl.exceptions import visible
from percdl.signals import AnyCohort, Cohort
from percdl.signals.events import usual_interval
from percdl.signals.recording import abbreviate

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from percdl.estimators.described import Described

# Columns of the text, and of the names of facts in it.
WIDTH, INDENT = 88, 14
UNITS = ((86400, "days"), (3600, "hours"), (60, "minutes"))
WHOLE_WORDS: Any = {"break_long_words": False, "break_on_hyphens": False}
# Names listed in a fact.
N_NAMED = 6
LOSSES = {"squared": "", "relative": " Every recording counts alike, independent of its scale."}
ROBUST = " Large residuals count less (Huber)."
ERROR = "Share of the energy of a recording that the model does not explain; 0 is perfect."
RATE = (
    "60 over the usual interval in seconds between the starts of two cycles (the mean of the "
    "middle half of all intervals)."
)
FLAGGED = "Cycles whose residual is larger than that of 99 % of the person's ordinary cycles."
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Fact(NamedTuple):
    """A fact with its name; ``meaning`` explains it to those who ask."""

    name: str
    text: str
    meaning: str = ""


@dataclass(frozen=True)
class Summary:
    """A fit on one screen: as text, in colour with `rich`, and as HTML in notebooks.

    Attributes
    ----------
    title : str
        The model and the size of the cohort.
    sections : dict of str to list of Fact
        Facts by heading.
    """

    title: str
    sections: dict[str, list[Fact]]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [self.title]
        for heading, facts in self.sections.items():
            lines += ["", heading]
            for name, text, _ in facts:
                start = f"  {name:<{INDENT}}"
                margins = {"initial_indent": start, "subsequent_indent": " " * len(start)}
                lines.append(fill(text, WIDTH, **margins, **WHOLE_WORDS))
        return "\n".join(lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table
        from rich.text import Text

        yield Text(self.title, style="bold")
        for heading, facts in self.sections.items():
            yield Text(f"\n{heading}", style="bold cyan")
            table = Table.grid(padding=(0, 2, 0, 2))
            table.add_column(style="dim", no_wrap=True)
            table.add_column()
            for name, text, _ in facts:
                table.add_row(Text(name), Text(text))
            yield table

    def _repr_html_(self) -> str:
        parts = [f"<h3>{escape(self.title)}</h3>"]
        for heading, facts in self.sections.items():
            rows = "".join(
                f'<tr><th scope="row" style="text-align: left; vertical-align: top" '
                f'title="{escape(meaning)}">{escape(name)}</th>'
                f'<td style="text-align: left">{escape(text)}</td></tr>'
                for name, text, meaning in facts
            )
            parts.append(f"<h4>{escape(heading)}</h4><table>{rows}</table>")
        return f'<div class="percdl-summary">{"".join(parts)}</div>'


def summarize(model: Described, X: Any = None, *, quick: bool = False) -> Summary:
    """Summarize a fitted model (`PerCDL.summary`); ``quick`` makes no pass over the recordings."""
    found, cohort = model._described(X, needed=False)
    judged, chosen = None if quick else cohort, describe_choices(model)
    which, also = ("", "") if model.recordings_ is not None else ("recordings", ", recordings")
    page = f'model.report("report.html"{also})'
    sections = {
        "What was fitted": [
            *(describe_cohort(cohort) if cohort is not None else _recall_cohort(model)),
            Fact("Model", describe_model(model)),
            *([Fact("Chosen", f"{chosen}, from the recordings")] if chosen else []),
            Fact("Ended", f"{model.stop_reason_} Objective {model.objective_:.6g}."),
        ],
        "What was found": list(_describe_findings(model, found, judged, which)),
        "What to look at": list(_describe_doubts(found, judged)),
        "Next": [
            Fact("Look", f"{page}, percdl report: a page for a browser"),
            Fact("Tables", f"model.people({which}), model.parameters(), model.cycles({which})"),
            Fact("Compare", "percdl.analysis.measure_deviation(model, groups, reference)"),
            Fact("Keep", 'model.save("model.percdl")'),
        ],
    }
    shown = {k: [Fact(*map(visible, fact)) for fact in own] for k, own in sections.items()}
    n_people = count(len(found.subjects), "recording")
    return Summary(f"{type(model).__name__} of {n_people}", shown)


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count(1, "atom"), count(1200, "cycle")
    ('1 atom', '1,200 cycles')
    """
    return f"{number:,} {noun}" + "s" * (number != 1)


def say_duration(seconds: float) -> tuple[str, str]:
    """Return a duration and its unit.

    >>> say_duration(7200.0)
    ('2', 'hours')
    """
    size, unit = next((pair for pair in UNITS if seconds >= 2 * pair[0]), (1, "s"))
    return f"{seconds / size:.3g}", unit


def describe_cohort(cohort: AnyCohort) -> list[Fact]:
    """Return facts about recordings."""
    lengths = np.asarray(cohort.lengths) / cohort.sfreq
    persons = {*map(str, cohort.persons)} if isinstance(cohort, Cohort) else set()
    who = count(len(lengths), "recording")
    if 0 < len(persons) < len(lengths):
        who += f" of {count(len(persons), 'person').replace('persons', 'people')}"
    sizes = pd.Series([group for group in cohort.groups if group is not None]).value_counts()
    groups = ", ".join(f"{name}: {size}" for name, size in sizes.items())
    total = " ".join(say_duration(float(lengths.sum())))
    each = f", {lengths.min():.3g} to {lengths.max():.3g} s each" if len(lengths) > 1 else ""
    facts = [
        Fact("Recordings", who),
        Fact("Groups", groups or "none given"),
        Fact("Channels", _name_channels(cohort.channels, cohort.units, cohort.sfreq)),
        Fact("Recorded", f"{total}{each}"),
    ]
    if isinstance(cohort, Cohort):
        missing = sum(int(np.isnan(record.values).sum()) for record in cohort)
        share = missing / sum(record.values.size for record in cohort)
        facts.append(Fact("Missing", f"{share:.2%} of the samples" if missing else "none"))
    facts.append(Fact("Processing", "; ".join(cohort.processing) or "none recorded"))
    return facts


def _recall_cohort(model: Described) -> list[Fact]:
    steps = model.processing_
    return [
        Fact("Recordings", count(len(model.subjects_), "recording")),
        Fact("Channels", _name_channels(model.channels_, model.units_, model.sfreq_)),
        Fact("Processing", "unknown" if steps is None else "; ".join(steps) or "none"),
    ]


def _name_channels(channels: Any, units: Any, sfreq: float) -> str:
    pairs = zip(channels, units, strict=True)
    names = abbreviate([f"{name} ({unit})" if unit else name for name, unit in pairs], 16)
    return f"{names} at {sfreq:g} Hz"


def say_lengths(model: Described) -> str:
    """Return the lengths of the atoms in seconds, each once."""
    seconds = [f"{length / model.sfreq_:.3g}" for length in model.atom_lengths_]
    return " and ".join(dict.fromkeys(seconds))


def describe_model(model: Described) -> str:
    """Return the settings that matter, as sentences."""
    n_atoms = model.n_atoms_
    number = NUMBERS[n_atoms] if n_atoms < len(NUMBERS) else str(n_atoms)
    atoms = f"{number.capitalize()} atom{'s' * (n_atoms != 1)} of {say_lengths(model)} s"
    transform, coder = model.resolve("transformation"), model.resolve("coder")
    own = f"each person's version of {'it' if n_atoms == 1 else 'them'} is {transform.in_words}"
    cycles = f"Cycles may overlap; a unit of amplitude costs {model.penalty_:.3g}"
    if hasattr(coder, "n_terms"):
        price = f"{model.penalty_:.3g} squared units of the signal"
        cycles = f"Cycles do not overlap; each costs {price}"
    return f"{atoms}; {own}. {cycles} (the penalty).{LOSSES.get(str(model.loss), ROBUST)}"


def describe_choices(model: Described) -> str:
    """Return the settings that were chosen automatically, or nothing."""
    chosen = {
        "n_atoms": count(model.n_atoms_, "atom"),
        "atom_length": f"a length of {model.atom_length_ / model.sfreq_:.3g} s",
        "penalty": f"a penalty of {model.penalty_:.3g}",
    }
    return ", ".join(text for name, text in chosen.items() if str(getattr(model, name)) == "auto")


def _describe_findings(
    model: Described, found: Any, cohort: AnyCohort | None, which: str
) -> Iterator[Fact]:
    names = check_names(model.atom_names_, model.n_atoms_)
    if cohort is None:
        yield Fact("Error", f"not computed; model.summary({which}) does", ERROR)
    else:
        errors = _spread(errors_of(cohort, found), ".3f")
        yield Fact("Error", f"{errors} of a recording's energy", ERROR)
    for k, name in enumerate(names):
        own = found.events[found.events["atom"] == k]
        n_people = int((found.n_activations[:, k] > 0).sum())
        text = f"{count(len(own), 'cycle')} in {n_people} of {len(found.subjects)} recordings"
        starts = own.sort_values("onset_seconds").groupby("subject")["onset_seconds"]
        rates = 60 / starts.agg(lambda seconds: usual_interval(np.diff(seconds)))
        if rates.notna().any():
            text += f"; {_spread(rates.to_numpy(float), '.3g')} per minute"
        yield Fact("Cycles" if model.n_atoms_ == 1 else name, text, RATE)


def _spread(values: np.ndarray, style: str) -> str:
    """Return the median of the known values, and the range of the middle 90 %."""
    if not len(known := values[np.isfinite(values)]):
        return "unknown"
    low, middle, high = (format(x, style) for x in np.quantile(known, [0.05, 0.5, 0.95]))
    return middle if len(known) == 1 else f"{middle} (median; 90 % from {low} to {high})"


def _describe_doubts(found: Any, cohort: AnyCohort | None) -> Iterator[Fact]:
    """Yield recordings without cycles, suspects and flagged cycles."""
    empty = np.asarray(found.subjects, object)[found.n_activations.sum(1) == 0]
    if len(empty):
        yield Fact("No cycle", f"{len(empty)} recordings: {abbreviate(empty, N_NAMED)}")
    suspects = found.suspects
    for kind, who in name_suspects(suspects, 2) if suspects is not None else ():
        yield Fact("Suspect", f"{KINDS[kind].found}: {who}")
    if cohort is not None and len(found.events):
        table = find_cycles(found, cohort).table
        flagged = table.loc[table["flagged"], "subject"]
        text = f"{len(flagged)} of {count(len(table), 'cycle')} fit worse than usual"
        most = flagged.value_counts()
        if len(most) and most.iloc[0] > 1:
            text += f", most in {most.index[0]} ({most.iloc[0]})"
        yield Fact("Flagged", f"{text}; by chance about {FALSE_ALARMS:.0%}", FLAGGED)
    elif suspects is None:
        yield Fact("Recordings", "not examined; model.summary(recordings) does")
    elif not len(empty) and suspects.empty:
        yield Fact("Recordings", "none is doubtful")
