"""Data that cannot be drawn are refused, with a word on what to pass."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from pictures import (
    DEVIATION,
    DICTIONARY,
    EVENTS,
    FEATURES,
    GROUPS,
    PERSONAL,
    SIGNAL,
    SUBJECTS,
    WARPS,
)

from percdl import plotting
from percdl.exceptions import InvalidParameterError

CURVES = PERSONAL[:, 0]
GONE = np.full((6, 20), np.nan)

REFUSED = {
    "a matrix for a dictionary": (
        lambda: plotting.plot_atoms(DICTIONARY[0]),
        r"`dictionary` has shape \(20, 3\).*\(K, L, P\), such as `model.dictionary_`",
    ),
    "truth of another shape": (
        lambda: plotting.plot_atoms(DICTIONARY, DICTIONARY[:1]),
        r"`truth` has shape \(1, 20, 3\)",
    ),
    "too few names of channels": (
        lambda: plotting.plot_atoms(DICTIONARY, channels=["x"]),
        r"`channels` has 1 name\(s\) for 3 channel",
    ),
    "an atom that is not there": (
        lambda: plotting.plot_personal_atoms(PERSONAL, atom=2),
        "`atom=2` is out of range: there are 2",
    ),
    "a channel that is not there": (
        lambda: plotting.plot_reconstruction(SIGNAL, channel=3),
        "`channel=3` is out of range",
    ),
    "all warps at once": (
        lambda: plotting.plot_warps(WARPS[:, None, None]),
        r"`warps` has shape \(6, 1, 1, 20\).*`model.warps_\[:, 0, 0\]`",
    ),
    "warps of a model that warps nothing": (
        lambda: plotting.plot_speed(WARPS[:0]),
        r"`warps` has shape \(0, 20\)",
    ),
    "an unknown name": (
        lambda: plotting.plot_warps(WARPS, highlight=["Zed"], subjects=SUBJECTS),
        "No subject 'Zed' among 6",
    ),
    "a name among the nameless": (
        lambda: plotting.plot_speed(WARPS, "a"),
        "Pass `subjects`",
    ),
    "a position beyond the last": (
        lambda: plotting.plot_embedding(FEATURES, highlight=[6]),
        "`subject=6` is out of range",
    ),
    "the speed of who has none": (lambda: plotting.plot_speed(GONE, 0), "never uses this atom"),
    "events of several subjects": (
        lambda: plotting.plot_reconstruction(SIGNAL, None, EVENTS.assign(subject=list("abc"))),
        "`events` holds 3 subjects",
    ),
    "a reconstruction of another recording": (
        lambda: plotting.plot_reconstruction(SIGNAL, SIGNAL[:-1]),
        r"`reconstruction` has shape \(199, 3\)",
    ),
    "fewer groups than subjects": (
        lambda: plotting.plot_group_comparison(CURVES, GROUPS[:-1]),
        r"`groups` has 5 item\(s\) for 6 subject",
    ),
    "an unknown band": (
        lambda: plotting.plot_group_comparison(CURVES, GROUPS, band="se"),
        "`band='se'` must be one of ci, sd",
    ),
    "a reference without subjects": (
        lambda: plotting.plot_deviation_ranking(DEVIATION, GROUPS, reference="norm"),
        "No subject is in group 'norm'. The groups are: healthy, stroke",
    ),
    "no subject to rank": (
        lambda: plotting.plot_deviation_ranking(np.full(3, np.nan)),
        "NaN for all",
    ),
    "a profile of NaN": (
        lambda: plotting.plot_deviation_profile(GONE[0], subject="Ada"),
        "`profile` of Ada is NaN",
    ),
    "one feature": (
        lambda: plotting.plot_embedding(FEATURES[:, :1]),
        r"6 complete subject\(s\) of 1 feature",
    ),
    "points of too few subjects": (
        lambda: plotting.plot_embedding(FEATURES, embedding=FEATURES[:5, :2]),
        r"`embedding` has shape \(5, 2\)",
    ),
}


@pytest.mark.parametrize(("draw", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_drawn_is_refused(draw, message):
    with pytest.raises(InvalidParameterError, match=message):
        draw()
