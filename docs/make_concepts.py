"""Make the pictures of ``concepts.md``: ``python -m docs.make_concepts``.

Simulated walkers: healthy people, and patients who linger late in the cycle.
"""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from docs.make_plots import save
from percdl import Algorithm, Cohort, L0Coder, PerCDL, TimeWarp, make_synthetic
from percdl.analysis import measure_deviation
from percdl.plotting import (
    plot_activations,
    plot_atoms,
    plot_cycles,
    plot_deviation_ranking,
    plot_landmarks,
    plot_marks,
    plot_personal_atoms,
    plot_reconstruction,
    plot_warps,
    style,
)

IMAGES = Path(__file__).resolve().parent / "images" / "concepts"
SFREQ, LENGTH, N_HEALTHY, N_PATIENTS, N_CYCLES = 100.0, 60, 26, 6, 10
PHASE = np.linspace(0, 1, LENGTH)
CYCLE = np.exp(-(((PHASE - 0.3) / 0.1) ** 2)) - 0.7 * np.exp(-(((PHASE - 0.7) / 0.1) ** 2))
WARP = TimeWarp(1, 4)
# The person of most pictures, and the cycle that is spoilt.
EXAMPLE, SPOILT = "P28", 6
SIGNAL = {"name": "angular velocity", "units": "deg/s", "sfreq": SFREQ}


def main() -> None:
    """Fit the walkers and write one picture per concept."""
    cohort = make_walkers()
    init = CYCLE[None, :, None]
    plain = Algorithm(realign=False, multistart=False)
    model = PerCDL(1, LENGTH, WARP, penalty=1e4, init=init, algorithm=plain).fit(cohort)
    pictures = {
        "window": draw_window(model, cohort),
        "activation": draw_activation(model, cohort),
        "warp": draw_warp(model),
        "gauge": draw_gauge(model),
        "duration": draw_duration(),
        "prior": draw_prior(),
        "cycle": draw_cycle(model, cohort),
        "quality": draw_quality(model, cohort),
        "landmark": draw_landmark(model, cohort),
        "deviation": draw_deviation(model, cohort),
    }
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures.items():
        save(figure, IMAGES / f"{name}.png")


def make_walkers() -> Cohort:
    """Return people with a warp each, whose cycles differ a little in timing and strength."""
    rng = np.random.default_rng(0)
    groups = ["healthy"] * N_HEALTHY + ["patient"] * N_PATIENTS
    values = []
    for group in groups:
        own = rng.normal([0, 0.6 * (group == "patient"), 0], [0.15, 0.1, 0.05])
        cycles = [one_cycle(own + rng.normal(0, [0.12, 0.12, 0.04]), rng) for _ in range(N_CYCLES)]
        signal = np.concatenate([np.pad(cycle, (int(rng.integers(5, 15)), 0)) for cycle in cycles])
        values.append(100 * (signal + 0.03 * rng.standard_normal(len(signal))))
    names = [f"P{i:02d}" for i in range(len(groups))]
    return Cohort.from_arrays(
        values, sfreq=SFREQ, subjects=names, groups=groups, channels="gyro", units="deg/s"
    )


def one_cycle(bends: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the common cycle, warped by the sines of the bends."""
    orders = np.pi * np.arange(1, 4)
    warped = PHASE + np.sin(np.outer(PHASE, orders)) @ (bends / orders)
    return rng.uniform(0.9, 1.1) * np.interp(warped, PHASE, CYCLE)


def panels(n_rows: int, ratios: list[float], height: float) -> tuple[Figure, np.ndarray]:
    """Return a figure and its panels, row by row, with these widths."""
    figure = Figure(figsize=(9, height), layout="constrained")
    return figure, figure.subplots(n_rows, len(ratios), width_ratios=ratios, squeeze=False)


def example_of(model: PerCDL, cohort: Cohort):
    """Return the recording of the example, its events and its position."""
    events = model.events_[model.events_["subject"] == EXAMPLE]
    return cohort[EXAMPLE].values, events, cohort.subjects.index(EXAMPLE)


def draw_window(model: PerCDL, cohort: Cohort) -> Figure:
    """Draw a recording with its windows, and the atom."""
    values, events, _ = example_of(model, cohort)
    figure, ((left, right),) = panels(1, [2.2, 1], 2.9)
    plot_reconstruction(values, events=events, atom_length=LENGTH, ax=left, **SIGNAL)
    left.set_xlim(0, 4)
    left.set_title("A recording, with the windows in which the atom occurs")
    plot_atoms(model.dictionary_, sfreq=SFREQ, ax=right).set_title("The atom")
    return figure


def draw_activation(model: PerCDL, cohort: Cohort) -> Figure:
    """Draw the onsets and amplitudes below the recording, and the table of events."""
    values, events, _ = example_of(model, cohort)
    figure, ((left, right),) = panels(1, [1.7, 1], 3.1)
    plot_activations(values[:400], events[events["onset_sample"] < 400], ax=left, **SIGNAL)
    left.set_title("The activations: an onset and an amplitude each")
    columns = ["subject", "onset_seconds", "amplitude"]
    cells = [[s, f"{t:.2f}", f"{a:.0f}"] for s, t, a in events[columns].to_numpy()[:5]]
    right.axis("off")
    right.set_title("The same as events, a row each")
    table = right.table(
        cells, colLabels=columns, loc="center", cellLoc="right", edges="horizontal"
    )
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1.1, 1.6)
    return figure


def draw_warp(model: PerCDL) -> Figure:
    """Draw how a warp takes the common atom to the personal one, at one moment."""
    position = model.subjects_.index(EXAMPLE)
    common, own = model.dictionary_[0, :, 0], model.personal_dictionary_[position, 0, :, 0]
    psi, time = model.warps_[position, 0, 0] / SFREQ, np.arange(LENGTH) / SFREQ
    at = int(np.argmin(own))
    figure, ((left, right),) = panels(1, [1.7, 1], 3.4)
    left.plot(time, common, color=style.SHARED, linewidth=2, label="common atom")
    left.plot(
        time, own, "--", color=style.color(0), linewidth=2, label=f"personal atom of {EXAMPLE}"
    )
    looks = {"arrowstyle": "->", "color": style.color(1), "linewidth": 1.5}
    left.annotate("", (psi[at], own[at]), (time[at], own[at]), arrowprops=looks)
    left.plot([time[at]], [own[at]], "o", color=style.color(1), label="same phase")
    style.finish(style.make_axes(left), "time (s)", "amplitude", 3)
    left.set_title("The personal atom at time t is the common atom at ψ(t)")
    right.plot(time, psi, "--", color=style.color(0), linewidth=2, label=f"warp ψ of {EXAMPLE}")
    right.plot(time, time, ":", color=style.SHARED, linewidth=1, label="identity")
    right.plot([time[at], time[at], 0], [0, psi[at], psi[at]], color=style.color(1), linewidth=1)
    right.plot([time[at]], [psi[at]], "o", color=style.color(1))
    right.set(xlim=(0, time[-1]), ylim=(0, time[-1]), aspect="equal", title="The warp")
    style.label(style.make_axes(right), "t, time of the person (s)", "ψ(t), common time (s)")
    style.add_legend(right)
    return figure


def draw_gauge(model: PerCDL) -> Figure:
    """Draw two dictionaries with other warps and the same personal atoms."""
    time = np.arange(LENGTH) / SFREQ
    atom, warps = model.dictionary_[0, :, 0], model.warps_[:, 0, 0] / SFREQ
    bent = (PHASE + 0.5 * np.sin(np.pi * PHASE) / np.pi) * time[-1]
    # The atom by the inverse of the bend, and the warps followed by the bend.
    other = (np.interp(time, bent, atom), np.interp(warps, time, bent))
    figure, rows = panels(2, [1.1, 0.9, 1.1], 5.8)
    draw_fit(rows[0], *other, "not centred")
    draw_fit(rows[1], atom, warps, "centred")
    return figure


def draw_fit(axes: np.ndarray, atom: np.ndarray, warps: np.ndarray, name: str) -> None:
    """Draw a common atom, warps in seconds, and the personal atoms that follow."""
    time = np.arange(LENGTH) / SFREQ
    axes[0].plot(time, atom, color=style.SHARED, linewidth=2)
    style.label(style.make_axes(axes[0]), "time (s)", "amplitude")
    axes[0].set_title(f"Common atom, {name}")
    plot_warps(warps * SFREQ, sfreq=SFREQ, ax=axes[1]).set_title("Everyone's warps")
    axes[1].plot(time, warps.mean(0), color=style.color(1), linewidth=2.5, alpha=0.6, label="mean")
    style.add_legend(axes[1], place="lower right")
    own = np.stack([np.interp(warp, time, atom) for warp in warps])[:, None, :, None]
    plot_personal_atoms(own, sfreq=SFREQ, ax=axes[2]).set_title("Everyone's personal atoms")


def draw_duration() -> Figure:
    """Draw breaths of several lengths, which one atom describes."""
    rng, rate = np.random.default_rng(0), 25.0
    values = []
    for _ in range(8):
        breaths = [breathe(int(n)) for n in rng.integers(2.5 * rate, 4.5 * rate, 14)]
        signal = np.concatenate(breaths)
        values.append(signal + 0.03 * rng.standard_normal(len(signal)))
    cohort = Cohort.from_arrays(values, sfreq=rate)
    coder = L0Coder(stretch=1.5)
    model = PerCDL(1, "3.3s", TimeWarp(1, 3), penalty="5%", coder=coder, random_state=0).fit(
        cohort
    )
    figure, ((left, right),) = panels(1, [1, 2.2], 2.9)
    plot_atoms(model.dictionary_, sfreq=rate, ax=left).set_title("The atom, in common time")
    events = model.events_[model.events_["subject"] == cohort.subjects[0]]
    looks = {"name": "volume", "units": "l", "sfreq": rate, "ax": right}
    plot_reconstruction(cohort[0].values, events=events, atom_length=model.atom_length_, **looks)
    right.set_xlim(0, 25)
    right.set_title("Activations of one recording, each as long as its breath")
    return figure


def breathe(n_samples: int) -> np.ndarray:
    """Return one breath: quickly in, slowly out."""
    time = np.linspace(0, 1, n_samples)
    into, out = np.sin(np.pi * time / 0.8) ** 2, np.sin(np.pi * (1 - time) / 1.2) ** 2
    return np.where(time < 0.4, into, out)


def draw_prior() -> Figure:
    """Draw the warps of two noisy cycles, with and without a prior, beside the true ones."""
    data = make_synthetic(
        n_subjects=64, noise_std=0.3, n_repetitions=2, depth=1, width=8, random_state=0
    )
    warps = {"true": np.asarray(data.transform.warp(jnp.asarray(data.params[:, 0]), 50, 1))[:, 0]}
    for name, prior in (("without prior", None), ("with prior", "estimated")):
        transform = TimeWarp(1, 8, prior=prior)
        model = PerCDL(2, 50, transform, penalty=1.0, init=data.dictionary).fit(data.cohort)
        warps[name] = model.warps_[:, 0, 0]
    leads = {name: 10 * (psi - np.arange(50)) for name, psi in warps.items()}  # ms, at 100 Hz
    before, after = (np.abs(leads[name] - leads["true"]).mean(1) for name in [*leads][1:])
    # The person whose error changes by the median.
    person = int(np.argsort(before - after)[len(before) // 2])
    figure, ((left, right),) = panels(1, [1.4, 1], 3.4)
    left.axhline(0, color=style.OBSERVED, linewidth=1)
    looks = ("-", style.SHARED), (":", style.color(0)), ("--", style.color(1))
    for (name, lead), (line, tint) in zip(leads.items(), looks, strict=True):
        left.plot(np.arange(50) / 100, lead[person], line, color=tint, linewidth=2, label=name)
    style.finish(style.make_axes(left), "time of the person (s)", "ψ(t) - t (ms)", 3)
    left.set_title("A warp from two noisy cycles")
    right.plot(before, after, "o", color=style.color(0), alpha=0.7)
    right.axline((0, 0), slope=1, color=style.SHARED, linestyle="--", linewidth=1, label="equal")
    ends = (0, 1.05 * max(before.max(), after.max()))
    right.set(xlim=ends, ylim=ends, aspect="equal", title="Error of everyone's warp")
    style.label(style.make_axes(right), "without prior (ms)", "with prior (ms)")
    style.add_legend(right, place="upper left")
    return figure


def draw_cycle(model: PerCDL, cohort: Cohort) -> Figure:
    """Draw two cycles of one person beside the personal atom, and how late each is."""
    values, _, position = example_of(model, cohort)
    cycles = model.cycles(cohort)
    cycles = cycles[cycles["subject"] == EXAMPLE].reset_index(drop=True)
    time, atom = np.arange(LENGTH) / SFREQ, model.personal_dictionary_[position, 0, :, 0]
    sines = np.sin(np.outer(np.pi * np.arange(1, 5), PHASE))
    bends = cycles[["warp1", "warp2", "warp3", "warp4"]].to_numpy()
    delays = 1000 * (cycles["shift"].to_numpy()[:, None] + bends @ sines)
    figure, ((left, right),) = panels(1, [1.2, 1], 3.3)
    typical = np.median(cycles["amplitude"]) * atom
    left.plot(time, typical, color=style.SHARED, linewidth=2.5, label="personal atom")
    right.plot(time, delays.T, color=style.FAINT, linewidth=0.8)
    right.axhline(0, color=style.SHARED, linewidth=1)
    at_valley = delays[:, atom.argmin()]
    for index, at in enumerate((int(at_valley.argmin()), int(at_valley.argmax()))):
        tint, line, _ = style.look(index)
        looks = {"color": tint, "linestyle": line, "linewidth": 1.5, "label": f"cycle {at}"}
        onset = int(cycles["onset_sample"][at])
        left.plot(time, values[onset : onset + LENGTH, 0], **looks)
        right.plot(time, delays[at], **looks)
    style.finish(style.make_axes(left), "time (s)", "angular velocity (deg/s)", 3)
    left.set_title(f"Two cycles of {EXAMPLE}")
    style.finish(style.make_axes(right), "time (s)", "delay (ms)", 2)
    right.set_title("How late each cycle is")
    return figure


def draw_quality(model: PerCDL, cohort: Cohort) -> Figure:
    """Draw the cycles of one person, one of them spoilt, and the quality of each."""
    values, events, position = example_of(model, cohort)
    values = values.copy()
    start = int(events["onset_sample"].iloc[SPOILT]) + 28
    values[start : start + 12] += 35 * np.hanning(12)[:, None]
    changed = [values if name == EXAMPLE else cohort[name].values for name in cohort.subjects]
    spoilt = Cohort.from_arrays(changed, sfreq=SFREQ, subjects=cohort.subjects)
    cycles = model.cycles(spoilt)
    cycles = cycles[cycles["subject"] == EXAMPLE]
    figure, ((left, right),) = panels(1, [1.2, 1], 3.1)
    atom = model.personal_dictionary_[position, 0]
    units = "angular velocity (deg/s)"
    plot_cycles(values, cycles, atom, units=units, sfreq=SFREQ, ax=left)
    left.set_title("One cycle is spoilt")
    for flagged, index, name in ((False, 0, "cycle"), (True, 1, "flagged cycle")):
        tint, _, marker = style.look(index)
        own = np.flatnonzero(cycles["flagged"].to_numpy() == flagged)
        right.semilogy(own, cycles["quality"].to_numpy()[own], marker, color=tint, label=name)
    right.axhline(0.01, color=style.SHARED, linestyle="--", linewidth=1, label="limit, 0.01")
    style.label(style.make_axes(right), "cycle", "quality (p-value)")
    style.add_legend(right)
    right.set_title("The quality of each")
    return figure


def draw_landmark(model: PerCDL, cohort: Cohort) -> Figure:
    """Draw two landmarks on the common atom, and where they are in a recording."""
    atom = model.dictionary_[0, :, 0]
    for name, sample in (("peak", atom.argmax()), ("valley", atom.argmin())):
        model.mark(name, 0, sample / SFREQ)
    landmarks = model.landmarks(cohort)
    figure, ((left, right),) = panels(1, [1, 2.2], 3.1)
    plot_marks(model.dictionary_, model.marks_, SFREQ, ax=left).set_title("Placed once")
    own = landmarks[landmarks["subject"] == EXAMPLE]
    plot_landmarks(cohort[EXAMPLE].values, own, ax=right, **SIGNAL)
    right.set_xlim(0, 4)
    right.set_title("Found in every cycle of everyone")
    return figure


def draw_deviation(model: PerCDL, cohort: Cohort) -> Figure:
    """Draw everyone's displacement, and the deviation index that follows from it."""
    found = measure_deviation(model, cohort.groups, "healthy")
    time = np.arange(LENGTH) / SFREQ
    leads = 1000 * (model.warps_[:, 0, 0] / SFREQ - time)
    figure, ((left, right),) = panels(1, [1, 1.3], 3.3)
    for group, tint, line in (("healthy", style.FAINT, "-"), ("patient", style.color(1), "--")):
        own = leads[np.array(cohort.groups) == group]
        left.plot(time, own.T, line, color=tint, linewidth=1)[0].set_label(group)
    style.finish(style.make_axes(left), "time of the person (s)", "ψ(t) - t (ms)", 2)
    left.set_title("How far everyone is ahead")
    plot_deviation_ranking(
        found.index, cohort.groups, reference="healthy", subjects=model.subjects_, ax=right
    )
    right.set_title("The deviation index")
    return figure


if __name__ == "__main__":
    main()
