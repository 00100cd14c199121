"""The locked environment is what pyproject.toml asks for, on every Python and platform."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
# Libraries that only lend their containers or sources: nothing is developed with them.
NOT_LOCKED = {"bench", "interop", "lsl"}
CORE = PROJECT["project"]["dependencies"]
GROUPS = PROJECT["dependency-groups"]
LOCKS = {
    "dev": [
        *CORE,
        *(need for name in EXTRAS.keys() - NOT_LOCKED for need in EXTRAS[name]),
        *GROUPS["dev"],
        *GROUPS["build"],
    ],
    "demo": [*CORE, *GROUPS["demo"], *GROUPS["build"]],
    "bench": [*CORE, *EXTRAS["bench"]],
}
PLATFORMS = {
    "linux": ("Linux", "posix"),
    "darwin": ("Darwin", "posix"),
    "win32": ("Windows", "nt"),
}
PIN = re.compile(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+( ; .+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def environments():
    """Yield what markers may ask about, for the Pythons and platforms that are supported."""
    for minor in (11, 12, 13, 14):
        for name, (system, family) in PLATFORMS.items():
            yield {
                **default_environment(),
                "python_version": f"3.{minor}",
                "python_full_version": f"3.{minor}.9",
                "sys_platform": name,
                "platform_system": system,
                "os_name": family,
                "extra": "",
            }


def pins(lock):
    lines = (ROOT / "requirements" / f"{lock}.lock").read_text().splitlines()
    return [Requirement(line.removesuffix(" \\")) for line in lines if not line.startswith(" ")]


@pytest.mark.parametrize("lock", LOCKS)
def test_what_is_asked_for_is_locked_within_its_bounds(lock):
    locked = pins(lock)
    asked = [Requirement(need) for need in LOCKS[lock]]
    for environment in environments():
        versions = {}
        for pin in locked:
            if pin.marker is None or pin.marker.evaluate(environment):
                name = canonicalize_name(pin.name)
                assert name not in versions, f"{name} is locked twice"
                versions[name] = str(pin.specifier).removeprefix("==")
        for need in asked:
            if need.name != PROJECT["project"]["name"]:
                assert need.specifier.contains(versions[canonicalize_name(need.name)]), need


@pytest.mark.parametrize("lock", LOCKS)
def test_nothing_but_versions_and_hashes_is_in_the_lock(lock):
    # No index, no address, no folder: the files are what their hashes say, wherever they lie.
    lines = (ROOT / "requirements" / f"{lock}.lock").read_text().splitlines()
    pinned = [i for i, line in enumerate(lines) if not line.startswith(" ")]
    assert all(PIN.fullmatch(lines[i]) for i in pinned)
    assert all(HASH.fullmatch(line) for line in lines if line.startswith(" "))
    assert all(lines[i + 1].startswith(" ") for i in pinned)


def test_the_demo_is_a_part_of_the_development_environment():
    # `make test` adds to the environment of `make demo`: no package changes its version or file.
    assert set(blocks("demo")) < set(blocks("dev"))
    extra = {Requirement(need).name for need in EXTRAS["plot"]}
    assert {Requirement(need).name for need in GROUPS["demo"]} < extra


def blocks(lock):
    """Return each pin of a lock with its hashes, as text."""
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    return re.split(r"\n(?! )", text.rstrip("\n"))


def test_the_peers_are_measured_in_the_locked_environment():
    versions = {(pin.name, str(pin.specifier), str(pin.marker)) for pin in pins("dev")}
    shared = {pin.name for pin in pins("dev")} & {pin.name for pin in pins("bench")}
    assert "numpy" in shared
    for pin in pins("bench"):
        if pin.name in shared and pin.marker is None:
            assert (pin.name, str(pin.specifier), "None") in versions
