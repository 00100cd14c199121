"""Datasets are fetched, checked and cached; a local server stands for the official ones."""

import hashlib
import io
import json
import sys
import threading
import zipfile
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from percdl.datasets import downloads, gait, load_gait
from percdl.datasets.downloads import Source, fetch
from percdl.exceptions import DatasetError, DatasetLicenceWarning, MissingPackageError

pytest.importorskip("pooch")
ABOUT = {"PathologyGroup": "Healthy", "LeftFootActivity": [], "RightFootActivity": [[1, 2]]}
# Noise, so that the archive is not compressed to nothing.
SAMPLES = "\n".join(hashlib.sha256(bytes([i % 256, i // 256])).hexdigest() for i in range(3000))
FILES = {
    "GaitData/1-1.csv": "RRY\n0.5\n1.5\n",
    "GaitData/1-1.json": json.dumps(ABOUT),
    "GaitData/noise.txt": SAMPLES,
}


def pack(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return stream.getvalue()


class Site:
    """A web server with files, that can hang up early; it counts the requests."""

    def __init__(self):
        self.files, self.hang_up_after, self.asked = {}, [], 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def url(self, name):
        return f"http://127.0.0.1:{self.server.server_port}/{name}"


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, site, *args):
        self.site = site
        super().__init__(*args)

    def do_GET(self):
        body = self.site.files.get(self.path.lstrip("/"))
        self.site.asked += 1
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        limit = self.site.hang_up_after.pop(0) if self.site.hang_up_after else len(body)
        self.wfile.write(body[:limit])

    def log_message(self, *args):
        pass


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(downloads, "N_RETRIES", 0)
    served = Site()
    served.files["GaitData.zip"] = pack(FILES)
    yield served
    served.server.shutdown()
    served.server.server_close()


@pytest.fixture
def source(site):
    return Source("the walks", "1 kB", "CC BY-NC-SA", "Truong", "GaitData.zip",
                  (site.url("GaitData.zip"),))  # fmt: skip


def get(source, folder):
    with pytest.warns(DatasetLicenceWarning, match="CC BY-NC-SA"):
        fetch(source, folder)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_loader_downloads_once_and_names_the_licence(site, source, tmp_path, monkeypatch):
    monkeypatch.delenv(downloads.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(downloads, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(downloads, "shared_folder", lambda: None)
    monkeypatch.setattr(gait, "SOURCE", source)
    with pytest.warns(DatasetLicenceWarning, match="CC BY-NC-SA"):
        data = load_gait()
    assert data.cohort["1-1"].values.tolist() == [[0.5], [1.5]]
    assert names(tmp_path / "cache" / "gait") == ["GaitData", "GaitData.zip.sha256"]
    assert load_gait().cohort == data.cohort
    assert site.asked == 1


def test_a_folder_named_is_where_a_download_goes(source, tmp_path, monkeypatch):
    monkeypatch.setattr(gait, "SOURCE", source)
    with pytest.warns(DatasetLicenceWarning):
        load_gait(tmp_path)
    assert (tmp_path / "gait" / "GaitData" / "1-1.csv").is_file()


def test_where_recordings_are_looked_for(tmp_path, monkeypatch):
    for home, value in (("named", 1), ("environment", 2), ("cache", 3), ("shared", 4)):
        folder = tmp_path / home / "gait" / "GaitData"
        folder.mkdir(parents=True)
        (folder / "1-1.csv").write_text(f"RRY\n{value}\n")
        (folder / "1-1.json").write_text(json.dumps(ABOUT))
    monkeypatch.setattr(downloads, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(downloads, "shared_folder", lambda: None)
    first = lambda *home: load_gait(*home, download=False).cohort["1-1"].values[0, 0]  # noqa: E731
    monkeypatch.setenv(downloads.ENVIRONMENT_VARIABLE, str(tmp_path / "environment"))
    assert (first(tmp_path / "named"), first()) == (1, 2)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv(downloads.ENVIRONMENT_VARIABLE, str(tmp_path / "empty"))
    assert first() == 3
    monkeypatch.setattr(downloads, "shared_folder", lambda: tmp_path / "shared")
    assert first() == 4
    with pytest.raises(DatasetError, match=r"No gait recordings in .*empty"):
        first(tmp_path / "empty")
    for absent in ("data_home", downloads.ENVIRONMENT_VARIABLE):
        monkeypatch.setenv(downloads.ENVIRONMENT_VARIABLE, str(tmp_path / "typo"))
        with pytest.raises(DatasetError, match=rf"{absent}=.*typo' is not a folder"):
            load_gait(*([tmp_path / "typo"] if absent == "data_home" else []))


def test_a_broken_transfer_is_tried_again(site, source, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "N_RETRIES", 1)
    site.hang_up_after = [5000]
    get(source, tmp_path)
    assert site.asked == 2
    assert (tmp_path / "GaitData" / "noise.txt").read_text() == SAMPLES


def test_a_transfer_that_fails_leaves_nothing(site, source, tmp_path):
    site.hang_up_after = [5000]
    with pytest.warns(DatasetLicenceWarning), pytest.raises(DatasetError, match="Try again"):
        fetch(source, tmp_path)
    assert names(tmp_path) == []


def test_a_later_download_must_equal_the_first(site, source, tmp_path):
    get(source, tmp_path / "a")
    noted = (tmp_path / "a" / "GaitData.zip.sha256").read_text()
    assert noted == hashlib.sha256(site.files["GaitData.zip"]).hexdigest()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "GaitData.zip.sha256").write_text(noted)
    site.files["GaitData.zip"] = pack({**FILES, "GaitData/1-1.csv": "RRY\n666\n"})
    with pytest.warns(DatasetLicenceWarning), pytest.raises(DatasetError, match="SHA-256 sum"):
        fetch(source, tmp_path / "b")
    assert names(tmp_path / "b") == ["GaitData.zip.sha256"]


def manifest(files):
    rows = (f"{hashlib.sha256(text.encode()).hexdigest()} {name.removeprefix('GaitData/')}"
            for name, text in files.items())  # fmt: skip
    return "\n".join(rows).encode()


def with_manifest(source, site, files):
    site.files["SHA256SUMS.txt"] = manifest(files)
    return Source(**{**vars(source), "manifest_url": site.url("SHA256SUMS.txt")})


def test_files_are_compared_with_the_manifest(site, source, tmp_path):
    get(with_manifest(source, site, FILES), tmp_path)
    assert names(tmp_path) == ["GaitData", "GaitData.zip.sha256"]


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ({**FILES, "GaitData/1-1.csv": "RRY\n0.5\n"}, r"1-1\.csv has another SHA-256 sum"),
        ({**FILES, "GaitData/2-1.csv": ""}, r"2-1\.csv is not in it"),
    ],
)
def test_a_file_unlike_the_manifest_stops_everything(site, source, tmp_path, listed, message):
    with pytest.warns(DatasetLicenceWarning), pytest.raises(DatasetError, match=message):
        fetch(with_manifest(source, site, listed), tmp_path)
    assert names(tmp_path) == []


def test_addresses_are_tried_in_turn(site, source, tmp_path):
    site.files["page.html"] = b"<html>moved</html>"
    urls = (site.url("gone.zip"), site.url("page.html"), *source.urls)
    get(Source(**{**vars(source), "urls": urls}), tmp_path)
    assert (tmp_path / "GaitData" / "1-1.csv").is_file()
    with pytest.warns(DatasetLicenceWarning), pytest.raises(DatasetError) as caught:
        fetch(Source(**{**vars(source), "urls": urls[:2]}), tmp_path / "other")
    assert "404" in str(caught.value)
    assert "not a ZIP file" in str(caught.value)


def test_a_damaged_archive_is_not_kept(site, source, tmp_path):
    damaged = bytearray(site.files["GaitData.zip"])
    damaged[5000] ^= 1
    site.files["GaitData.zip"] = bytes(damaged)
    with pytest.warns(DatasetLicenceWarning), pytest.raises(DatasetError, match="damaged"):
        fetch(source, tmp_path)
    assert names(tmp_path) == []


def test_without_pooch_the_extra_is_named(source, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingPackageError, match=r"needs the package `pooch`.*percdl\[data\]"):
        fetch(source, tmp_path)


def test_a_download_with_other_files_inside_is_refused(source, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "fetch", lambda source, target: target.mkdir())
    with pytest.raises(DatasetError, match=r"downloaded to .*gait, but .*Empty that folder"):
        downloads.find_dataset("gait", lambda folder: None, tmp_path, source)
    assert not list((tmp_path / "gait").iterdir())
