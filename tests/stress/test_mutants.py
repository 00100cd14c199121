"""A few mutants, as a short version of `make mutants`: tests notice them, and only them."""

import pytest

pytest.importorskip("cosmic_ray", reason="Cosmic Ray is not installed (group dev)")

from benchmarks.stress.mutants import KILLED, ROOT, SURVIVED, Mutant, draw_mutants, hunt

FILE = "steps/ridge.py"
SOURCE = (ROOT / "src" / "percdl" / FILE).read_text(encoding="utf-8")


def test_mutants_are_noticed_and_what_does_nothing_is_not(tmp_path):
    drawn = draw_mutants(2, seed=0, files=[FILE])
    nothing = Mutant(f"src/percdl/{FILE}", "core/NoOp", 0, 1)
    log = tmp_path / "log"
    fates = {f.mutant: f for f in hunt([*drawn, nothing], 1, log, own_tests_only=True)}
    assert fates[nothing].how == SURVIVED
    for mutant in drawn:
        assert fates[mutant].how == KILLED
        assert fates[mutant].change.startswith("- ")
        assert "ridge" in fates[mutant].noticed_by
    assert len(log.read_text(encoding="utf-8").splitlines()) == 3
    # The project itself is left alone.
    assert (ROOT / "src" / "percdl" / FILE).read_text(encoding="utf-8") == SOURCE


@pytest.mark.parametrize("file", ["algorithm/programs.py", "transforms/extremes.py"])
def test_types_and_decorators_without_effect_are_not_mutated(file):
    lines = (ROOT / "src" / "percdl" / file).read_text(encoding="utf-8").splitlines()
    drawn = draw_mutants(10_000, seed=0, files=[file])
    assert len(set(drawn)) == len(drawn) > 10
    for mutant in drawn:
        assert not lines[mutant.line - 1].startswith(("@program", "@final", "@partial(program"))
        assert "-> " not in lines[mutant.line - 1]
