"""A folder of recordings, and a model fitted to it by the command."""

import pytest
from commands import MODEL, READ, run, write_walks


@pytest.fixture(scope="session")
def walks(tmp_path_factory):
    """Folder of four CSV files."""
    return write_walks(tmp_path_factory.mktemp("data") / "walks")


@pytest.fixture(scope="session")
def model_file(walks, tmp_path_factory):
    """Model fitted to the folder."""
    out = tmp_path_factory.mktemp("model") / "walks.percdl"
    result = run("fit", walks, *READ, *MODEL, "--out", out)
    assert result.exit_code == 0, result.output
    return out
