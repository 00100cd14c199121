"""What the command line says of itself, and to shells."""

import os
import subprocess
import sys

import pytest
import typer
from commands import run
from typer.main import get_command

from percdl.cli import app

COMMANDS = [
    "fit", "report", "personalize", "events", "mark", "landmarks", "reliability", "suggest",
    "info", "datasets", "demo", "reproduce",
]  # fmt: skip


def test_all_commands_are_listed():
    result = run("--help")
    assert result.exit_code == 0
    assert all(f" {name} " in result.stdout for name in COMMANDS)
    assert "Exit codes: 0 success" in result.stdout
    assert "--install-completion" in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "--debug" in result.stdout
    command = get_command(app).commands[name]
    assert command.help
    options = [
        p for p in command.get_params(typer.Context(command)) if not getattr(p, "hidden", False)
    ]
    unexplained = [p.name for p in options if not getattr(p, "help", None)]
    assert unexplained == []


@pytest.mark.parametrize("name", ["keys", "invite", "relay", "join", "simulate"])
def test_every_option_of_a_federation_is_explained(name):
    assert f" {name} " in run("federate", "--help").stdout
    result = run("federate", name, "--help")
    assert result.exit_code == 0
    assert "--debug" in result.stdout
    command = get_command(app).commands["federate"].commands[name]
    assert command.help
    options = [
        p for p in command.get_params(typer.Context(command)) if not getattr(p, "hidden", False)
    ]
    assert [p.name for p in options if not getattr(p, "help", None)] == []


def test_shells_complete_commands_and_options():
    complete = "import sys; sys.argv = ['percdl']; from percdl.cli import main; main()"
    asked = {"_PERCDL_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    for words, expected in (
        ("percdl fit --atom", "--atom-length"),
        ("percdl pers", "personalize"),
    ):
        environment = {**asked, "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = subprocess.run(
            [sys.executable, "-c", complete],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **environment},
        )
        assert expected in done.stdout.split(), done.stderr
