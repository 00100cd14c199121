import re
import subprocess
import sys

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from typer.testing import CliRunner

from percdl import __version__
from percdl.cli import app

NARROW = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), env=NARROW)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The outcome of a small demo, and the folder it wrote."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return run("demo", "--out", str(folder), "--subjects", "4", "--seed", "1"), folder


def test_demo_ends_well(demo):
    result, _ = demo
    assert result.exit_code == 0, result.output


def test_demo_shows_the_three_models_beside_the_truth(demo):
    result, folder = demo
    rows = re.findall(
        r"(PopCDL|IndCDL|PerCDL)\W+(\d\.\d{3})\W+(\S+)\s\W+(\S+)%\W+([\d.]+)", result.stdout
    )
    assert [row[0] for row in rows] == ["PopCDL", "IndCDL", "PerCDL"]
    errors = [float(row[2]) for row in rows]
    assert errors[2] < errors[0]
    assert "gauge floor" in result.stdout
    assert str(folder / "index.html") in result.stdout


def test_demo_writes_a_page_and_a_picture_per_model(demo):
    _, folder = demo
    written = sorted(path.name for path in folder.iterdir())
    assert written == ["indcdl.png", "index.html", "percdl.png", "popcdl.png"]
    assert all(
        (folder / name).read_bytes()[1:4] == b"PNG" for name in written if name != "index.html"
    )


def test_page_needs_no_network(demo):
    page = (demo[1] / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r"https?://|//cdn|@import|<script|<link", page)
    assert page.count("data:image/png;base64,") == 3
    for name in ("PopCDL", "IndCDL", "PerCDL"):
        assert f"<h2>{name}</h2>" in page


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("not a folder")
    result = run("demo", "--out", str(taken), "--subjects", "4")
    assert result.exit_code == 2
    assert f"cannot write to {taken}" in result.output
    assert "--out" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("arguments", [("--subjects", "1"), ("--seed", "-1"), ("--nope",)])
def test_wrong_options_are_refused(arguments):
    result = run("demo", *arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout.strip()) == (0, f"percdl {__version__}")


def test_help_names_the_commands():
    result = run("--help")
    assert result.exit_code == 0
    assert "demo" in result.stdout


def test_help_is_light():
    code = (
        "import sys; sys.argv = ['percdl', '--help']\n"
        "from percdl.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'numpy', 'pandas', 'sklearn', 'scipy', 'matplotlib', 'pydantic'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
