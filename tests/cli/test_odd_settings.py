"""What fuzzing has found in TOML files: each case once ended in a traceback."""

import numpy as np
import pytest
from commands import refused

from percdl.cli.federate_config import read_federation_file, read_site_file
from percdl.cli.output import CommandError

SITE = """
[site]
identity = "lyon.key"
folder = "out"
"""
FEDERATION = """
[federation]
run = "one"
server = "a:1"
authority = "out"
[members]
lyon = "lyon.pub"
nice = "nice.pub"
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("realign = [1]", "realign = [1]: Input should be a valid boolean"),
        ("depth = inf", "'inf' must be an integer"),
        ("depth = [[1]]", "depth = [[1]]: Input should be a valid string"),
        ("x = " + "[" * 5000, "is not a TOML file"),
        (f'atom-length = "{"9" * 400}"', "must be an integer"),
        ('min-gap = "2000000000s"', "must be an integer"),
        (f'n-atoms = "{"9" * 5000}"', "must be an integer"),
        ("seed = 4294967296", "must be an integer of at least 0 and below"),
    ],
)
def test_a_value_of_another_kind_is_refused(walks, tmp_path, text, words):
    path = tmp_path / "odd.toml"
    path.write_text(text)
    assert words in refused("fit", walks, "--config", path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[data]\ndata = true", "[data]: data = True: Input should be a valid list"),
        ("[data]\ndata = [true]", "[data]: data = True: Input should be a valid string"),
        ("[data]\nbandpass = [[1], 2]", "[data]: bandpass = [1]: Input should be a valid number"),
        ("[data]\nbandpass = [1]", "[data]: bandpass: Field required"),
        (
            "[data]\nbandpass = ['a', 'b']",
            "[data]: bandpass = 'a': Input should be a valid number",
        ),
        (f"[data]\nsfreq = {10**400}", "Input should be a valid number"),
        ("[data]\ndata = '~nobody-here/x'", "Could not determine home"),
        ("x = " + "[" * 5000, "is not a TOML file"),
        ("max-epsilon = inf", "max-epsilon = inf: Input should be a finite number"),
        ("max-delta = 1.0", "max-delta = 1.0: Input should be less than 1"),
    ],
)
def test_a_file_of_a_site_that_is_odd_is_refused(tmp_path, text, words):
    path = tmp_path / "site.toml"
    path.write_text(SITE + text)
    with pytest.raises(CommandError) as refusal:
        read_site_file(path)
    assert words in str(refusal.value)


def test_a_home_of_nobody_is_refused(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION.replace('"out"', '"~nobody-here/out"'))
    with pytest.raises(CommandError, match=r"\[federation\]: authority = .*nobody-here/out"):
        read_federation_file(path)


def test_a_misspelled_key_is_reported_with_the_known_ones(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION.replace("run =", "rum ="))
    with pytest.raises(
        CommandError, match=r"\[federation\]: there is no key 'rum'. Did you mean 'run'"
    ):
        read_federation_file(path)


def test_groups_of_a_table_that_is_not_given(tmp_path):
    for name in "ab":
        np.savez(tmp_path / f"{name}.npz", values=np.arange(9.0), sfreq=50.0)
    words = "--by diagnosis names a column of the table of subjects, and none is given"
    out = tmp_path / "out"
    assert words in refused("federate", "simulate", tmp_path, "--by", "diagnosis", "--out", out)
