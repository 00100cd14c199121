"""One call of every plot on small data, and what can be asked of any picture."""

import numpy as np
import pandas as pd

from percdl import plotting
from percdl.analysis import score_events
from percdl.estimators import Mark

RNG = np.random.default_rng(0)
SUBJECTS = list("abcdef")
GROUPS = ["healthy", "healthy", "stroke", "stroke", "stroke", "healthy"]
DICTIONARY = RNG.normal(size=(2, 20, 3))
PERSONAL = DICTIONARY + 0.1 * RNG.normal(size=(6, 2, 20, 3))
STEPS = RNG.uniform(0.2, 1, (6, 19))
WARPS = 19 * np.hstack([np.zeros((6, 1)), np.cumsum(STEPS, 1) / STEPS.sum(1, keepdims=True)])
SIGNAL = RNG.normal(size=(200, 3))
EVENTS = pd.DataFrame(
    {
        "subject": "a",
        "atom": [0, 1, 0],
        "onset_sample": [10, 60, 150],
        "amplitude": [1.5, -0.5, 2.0],
    }
)
KINDS_PATH = pd.DataFrame(
    {
        "step": ["start", "atom 0 is divided (9 cycles)", "atom 1 is divided: taken back"],
        "n_atoms": [1, 2, 3],
        "objective": [9.0, 4.0, 3.5],
    }
)
HISTORY = pd.DataFrame(
    {
        "phase": ["population", "population", "personal", "final"],
        "round": [0, 0, 0, 0],
        "step": ["CSC", "CDU", "IPU", "CSC"],
        "objective": [100.0, 10.0, 1.0, 0.5],
        "seconds": [1.0, 1.5, 3.0, 3.2],
    }
)
BAND = (DICTIONARY[0] - 0.1, DICTIONARY[0] + 0.1)
CYCLES = EVENTS.assign(atom=0, duration=20 / 50, flagged=[False, True, False])
LANDMARKS = pd.DataFrame(
    {"landmark": ["onset", "peak"] * 3, "sample": [12, 20.5, 65, 71, np.nan, 160]}
)
MARKS = [Mark("onset", 0, 0.1, 0.03), Mark("peak", 0, 0.2), Mark("other", 1, 0.2)]
SCORE = score_events({"a": [1, 12, 22.5, 50]}, {"a": [0, 10, 20, 30, 70]}, 4)
CLUSTERS = [(2, 6, 0.01), (9, 12, 0.4)]
DEVIATION = np.array([1.0, 2.0, 7.0, 0.5, 4.0, 1.5])
FEATURES = RNG.normal(size=(6, 4))
CHANGES = pd.DataFrame(
    {
        "measure": "period",
        "person": ["a", "a", "b", "b", "c"],
        "first_visit": "spring",
        "visit": ["autumn", "winter", "autumn", "winter", "winter"],
        "change": [0.1, -0.2, 0.6, 0.9, -0.1],
        "sdc": 0.5,
        "beyond": [False, False, True, True, False],
    }
)

TIMED = {
    "atoms": lambda **k: plotting.plot_atoms(DICTIONARY, DICTIONARY, **k),
    "band": lambda **k: plotting.plot_atom_band(DICTIONARY[0], BAND, **k),
    "personal": lambda **k: plotting.plot_personal_atoms(
        PERSONAL, DICTIONARY, highlight=["b", 2], subjects=SUBJECTS, **k
    ),
    "warps": lambda **k: plotting.plot_warps(WARPS, highlight=[0], **k),
    "speed": lambda **k: plotting.plot_speed(WARPS, "c", subjects=SUBJECTS, **k),
    "activations": lambda **k: plotting.plot_activations(SIGNAL, EVENTS, **k),
    "reconstruction": lambda **k: plotting.plot_reconstruction(
        SIGNAL, SIGNAL, EVENTS, atom_length=20, **k
    ),
    "cycles": lambda **k: plotting.plot_cycles(SIGNAL, CYCLES, DICTIONARY[0], **k),
    "landmarks": lambda **k: plotting.plot_landmarks(SIGNAL, LANDMARKS, **k),
    "comparison": lambda **k: plotting.plot_group_comparison(
        PERSONAL[:, 0], GROUPS, CLUSTERS, channel=1, **k
    ),
    "profile": lambda **k: plotting.plot_deviation_profile(3 * FEATURES, subject="a", **k),
}
OTHERS = {
    "marks": lambda **k: plotting.plot_marks(DICTIONARY, MARKS, 50.0, **k),
    "score": lambda **k: plotting.plot_score(SCORE, **k),
    "history": lambda **k: plotting.plot_history(HISTORY, **k),
    "kinds path": lambda **k: plotting.plot_kinds_path(KINDS_PATH, **k),
    "ranking": lambda **k: plotting.plot_deviation_ranking(
        DEVIATION, GROUPS, reference="healthy", subjects=SUBJECTS, **k
    ),
    "long ranking": lambda **k: plotting.plot_deviation_ranking(
        np.tile(DEVIATION, 20), GROUPS * 20, reference="healthy", **k
    ),
    "changes": lambda **k: plotting.plot_changes(CHANGES, **k),
    "embedding": lambda **k: plotting.plot_embedding(FEATURES, GROUPS, highlight=[1], **k),
}
ALL = TIMED | OTHERS


def legend(ax):
    """Return the entries of the legend."""
    return [text.get_text() for text in ax.get_legend().get_texts()]


def drawn_points(figure):
    """Return the points of all lines, areas and texts drawn inside a figure, in pixels."""
    points = []
    for ax in figure.axes:
        points += [_dense(line.get_transform().transform(line.get_xydata())) for line in ax.lines]
        for collection in ax.collections:
            transform = collection.get_transform()
            points += [
                _dense(transform.transform(path.vertices)) for path in collection.get_paths()
            ]
        points += [text.get_window_extent().corners() for text in ax.texts]
    return np.concatenate(points)


def _dense(points):
    """Add ten points between any two, so that what passes through a box is seen in it."""
    if len(points) < 2:
        return points
    share = np.linspace(0, 1, 11)[:, None, None]
    return ((1 - share) * points[:-1] + share * points[1:]).reshape(-1, 2)
