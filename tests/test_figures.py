"""Figures on pages are those of the last results of the claims."""

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = json.loads((ROOT / "benchmarks/claims/results.json").read_text(encoding="utf-8"))
# Where each figure of the README's table comes from, in its order: a claim, the beginning of a
# check, and which of its numbers.
README = [
    ("recovery", "S = 1024: distance", 1),
    ("recovery", "S = 1024: distance", 0),
    ("gait_segmentation", "sensitivity", 0),
    ("gait_segmentation", "false positives", 0),
    ("automatic", "gait: sensitivity", 2),
    ("automatic", "gait: false positives", 1),
    ("automatic", "gait: sensitivity", 1),
    ("automatic", "gait: false positives", 0),
    ("gait_errors", "gait, PerCDL / IndCDL", 0),
    ("gait_errors", "gait, PerCDL / IndCDL, default rounds", 0),
    ("ecg_errors", "ECG, PerCDL / PopCDL", 0),
    ("ecg_auc", "ECG, AUC, warps 4 x 7", 0),
    ("ecg_auc", "ECG, AUC, warps 4 x 7 at defaults, official folds", 0),
    ("ecg_auc", "ECG, AUC, warps 4 x 14;", 0),
    ("ecg_auc", "ECG, AUC, warps 4 x 14 and modulation", 0),
]
RETEST = [("retest", f"gait retest, ICC of warp {number}", 0) for number in (1, 2, 3)]
# Sentences of other pages, with {} for each figure.
SENTENCES = {
    "paper/paper.md": {
        "reaches {}, {}, {} and {} times this floor": [
            ("recovery", f"S = {n}: distance", 0) for n in (16, 64, 256, 1024)
        ],
        "finds at least {} of the onsets": [(min, "recovery", r"S = \d+: onsets", 0)],
        "reaches {} times the floor and {} of the onsets at $S$ = 64": [
            ("recovery", "S = 64, the paper's plain algorithm", place) for place in (0, -1)
        ],
        "the mean distance is {}, against {} for soft-DTW": [
            ("peers", "distance, PerCDL blind / tslearn soft-DTW", place) for place in (1, 2)
        ],
        "the atoms are {} and {} times the floor away from the truth; with 1024 people a limit "
        "of 1.5 is missed ({})": [
            ("prior", f"noise 0.1, S = {n}: distance / gauge", 0) for n in (64, 256, 1024)
        ],
        "the error of its delay is at most {} times that of an oracle": [
            (max, "cycles", "cycles, noise", 0)
        ],
        "finds {} of the annotated cycles with {} false ones per cycle": README[2:4],
        "on these walks, and {} with automatic settings": [README[6]],
        "an intraclass correlation of {}, {} and {}": RETEST,
        "a sensitivity of {} and a positive predictive value of {}": [
            ("mitdb", f"mitdb, not chosen on: {name}", 0) for name in ("sensitivity", "PPV")
        ],
    },
    "docs/intended_use.md": {
        "finds {} of the onsets in overlapping pairs, `L1Coder` {}": [
            ("l1_coder", f"overlapping pairs: onsets found within one sample by the l{n}", 0)
            for n in (0, 1)
        ],
        "{} of the onsets with `baseline": [("silent", "drift as large as the pattern, b", 0)],
        "components of the warps {}, {}, {} (": RETEST,
        "1,024 people, {} times the best": [("prior", "noise 0.1, S = 1024: distance", 0)],
        "s.d. {} and {} samples at 100 Hz": [
            ("gait_cycles", f"{end} of a swing", 0) for end in ("start", "end")
        ],
        "AUC {}, below the 0.864": [README[-4]],
        "QRS onset {} ms, of the P onset {} ms": [
            ("ludb", f"ludb, not chosen on: {wave} onset", -1) for wave in ("QRS", "P")
        ],
    },
    "docs/choosing.md": {
        "sensitivity, automatic / by hand | {} / {} | {} / {} |": [
            ("automatic", f"{data}: sensitivity", place)
            for data in ("gait", "ECG")
            for place in (1, 2)
        ],
        "false positives per cycle | {} / {} |": [README[7], README[5]],
    },
    "docs/deviation.md": {
        "is {} for the index and {} for the parameters of all layers": [
            ("deviation_space", "rank correlation", place) for place in (0, -1)
        ],
    },
    "docs/kinds.md": {
        "records 105, 201, 205, 221 | {}, {}, {}, {} |": [
            ("ventricular", f"record {number},", -2) for number in (105, 201, 205, 221)
        ],
    },
    "docs/transforms.md": {
        f"| {name} | {count} | {{}} | {{}} |": [
            ("gyroscope", f"held-out error, {check}", place) for place in (0, 1)
        ]
        for name, count, check in [
            ("none", "0", "nothing"),
            ("warp + shift", "61", "warp + shift"),
            ("warp + gain", "63", "warp + gain"),
            ("warp + rotation", "69 (63 free)", "warp + rotation"),
            ("warp + rotation + gain", "72 (66 free)", "warp + rotation + gain"),
        ]
    },
    "docs/robustness.md": {
        "{} of 64 synthetic subjects and {} of 256 beats had different": [
            ("devices", f"{data}, default, float32", 4) for data in ("synthetic", "beats")
        ],
        **{
            f"{title} | {{}} | {{}} | {{}} | {{}} |": [
                (max, "devices", fits, place) for place in range(4)
            ]
            for title, fits in [
                ("float64, largest difference", ".*float64"),
                ("(beats), median subject or atom", "beats.*float32"),
                ("(synthetic), median subject or atom", "synthetic.*float32"),
            ]
        },
    },
    "docs/uncertainty.md": {
        **{
            f"| {cohort} | {n} | {{}} | {{}} | {{}} | {{}} |": [
                ("bands", f"{cohort}, S = {n}: {atoms}, {kind}", 0)
                for atoms in ("common", "personal")
                for kind in ("pointwise", "simultaneous")
            ]
            for cohort in ("noise", "cycle jitter", "own shape", "AR(1) noise")
            for n in (30, 100)
        },
        "common atoms {} (+- {}), personal atoms {} (+- {}, above its limit of 0.97), "
        "warps {} (+- {}).": [
            ("uncertainty", f"nominal 95% bands of {name} cover", place)
            for name in ("common atoms", "personal atoms", "warps")
            for place in (0, -1)
        ],
        "gave {} of the standard error of the formula": [
            ("uncertainty", "standard error of the common atom", 0)
        ],
    },
    "docs/scale.md": {
        "two workers of one core against one | {} times as fast": [("runtimes", "two workers", 0)],
        "a task | {} ms of overhead, at most {} kB to the worker and {} kB of sums": [
            ("runtimes", "Dask, overhead", 0),
            *[("runtimes", "volume of a round", place) for place in (0, 1)],
        ],
    },
}


def value(source):
    """A figure of the last results, or the least or largest of all checks with such a name."""
    *which, claim, name, place = source
    if not which:
        return number_of(last_check(claim, name), place)
    alike = [c for c in RESULTS[claim]["checks"] if re.match(name, c["name"])]
    return which[0](number_of(check, place) for check in alike)


def last_check(claim, beginning):
    return next(c for c in RESULTS[claim]["checks"] if c["name"].startswith(beginning))


def number_of(check, place):
    return float(numbers(check["figure"])[place])


def numbers(text):
    return re.findall(r"-?\d+(?:\.\d+)?(?:e-\d+)?", text)


def rounded(figure, like):
    """A figure as it is written, maybe in percent or as a power of ten."""
    if "e-" in like:
        return f"{figure:.0e}"
    number, _, percent = like.partition(" ")
    digits = len(number.partition(".")[2])
    return f"{100 * figure:.{digits}f} %" if percent else f"{figure:.{digits}f}"


@pytest.mark.parametrize(
    ("page", "sentence"),
    [(page, sentence) for page, all_ in SENTENCES.items() for sentence in all_],
)
def test_the_figures_of_a_sentence_are_those_of_the_last_run(page, sentence):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").replace("*", "").split())
    pattern = re.escape(sentence).replace(r"\{\}", r"(\d+(?:\.\d+)?(?:e-\d+)?)")
    found = re.search(pattern, text)
    assert found, f"{page} does not say: {sentence}"
    sources = SENTENCES[page][sentence]
    expected = [
        rounded(value(one), like) for one, like in zip(sources, found.groups(), strict=True)
    ]
    assert [*found.groups()] == expected


def test_limits_of_bands_that_hold_are_counted():
    held = [check["holds"] for check in RESULTS["bands"]["checks"]]
    for page, words in {
        "intended_use.md": f"{sum(held)} of {len(held)} limits on their coverage hold",
        "uncertainty.md": f"Of the {len(held)} limits, {sum(held)} hold",
    }.items():
        assert words in (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_the_table_of_the_readme_is_that_of_the_last_run_and_names_limits_that_are_missed():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## Results")[2].partition("\n\\*")[0]
    rows = [row.split("|") for row in table.splitlines() if row.startswith("|")][2:]
    sources = iter(README)
    for *_, here, settings, _ in rows:
        missed = set()
        for written in re.findall(r"\d+\.\d+(?: %)?", here):
            source = next(sources)
            assert written == rounded(value(source), like=written)
            check = last_check(*source[:2])
            missed |= set(numbers(check["target"])) if check["holds"] is False else set()
        assert set(re.findall(r"limit of (\d+\.\d+)", settings)) == missed
    assert list(sources) == []


def test_the_landscape_has_the_figures_of_the_claims(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    landscape = importlib.import_module("benchmarks.landscape")
    pages = [ROOT / "docs" / f"{name}.md" for name in ("benchmarks", "kinds", "segmentation")]
    measured = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    for row in landscape.ROWS:
        assert {row.ours, row.theirs} <= set(numbers(measured)), row
        assert f"`{row.claim}`" in measured
        figures = " ".join(check["figure"] for check in RESULTS[row.claim]["checks"])
        ours = {rounded(float(n), like=row.ours) for n in numbers(figures)}
        assert row.ours in ours or row.data == landscape.FEW, row  # few: only by --quick
    assert landscape.PAGE.read_text(encoding="utf-8") == landscape.render()
