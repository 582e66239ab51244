"""Servers on loopback that speak the protocols of Google Cloud Storage and Azure Blob Storage, for tests.

They are fake-gcs-server (``go install github.com/fsouza/fake-gcs-server@latest``) and Azurite (``npm install -g
azurite``), found on the PATH.
"""

import base64
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from http_server import Puts
from s3_server import free_port

_START_SECONDS = 60
AZURE_ACCOUNT = "logsaccount"
AZURE_KEY = base64.b64encode(b"a key that must not be shown: a-very-secret-key").decode()


class Bucket(Puts):
    """A bucket or container at ``url``, written by its library's own file system."""

    def __init__(self, url: str, variable: str, settings: str) -> None:
        import fsspec

        self.url, self.variable, self.settings = url, variable, settings
        self.system: Any = fsspec.filesystem(url.partition(":")[0], skip_instance_cache=True)
        self._root = url.partition("//")[2]
        self.system.mkdir(self._root)

    def put(self, name: str, data: bytes) -> None:
        self.system.pipe_file(f"{self._root}/{name}", data)

    def files(self, name: str) -> dict[str, bytes]:
        self.system.invalidate_cache()
        place = f"{self._root}/{name}/"
        return {path.removeprefix(place): self.system.cat_file(path) for path in self.system.find(place)}


def executable(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on the PATH")
    return found


@contextmanager
def started(command: list[str], url: str, folder: Path) -> Iterator[None]:
    """Runs a server for the length of a block, which begins when the URL is answered."""
    with (folder / "server.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            for _ in range(10 * _START_SECONDS):
                if server.poll() is not None or _answers(url):
                    break
                time.sleep(0.1)
            assert server.poll() is None, (folder / "server.log").read_text()
            yield
        finally:
            server.terminate()


def _answers(url: str) -> bool:
    try:
        urlopen(url, timeout=5).close()
    except HTTPError:
        return True  # no permission without a signature
    except (URLError, OSError):
        return False
    return True


@contextmanager
def google(folder: Path) -> Iterator[Bucket]:
    """A bucket of fake-gcs-server, to which the environment leads clients inside the block."""
    program, port = executable("fake-gcs-server"), free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # which asks the real servers, and is imported
        pytest.importorskip("gcsfs", reason="gcsfs is not installed")
        with started([*command, "-external-url", endpoint], f"{endpoint}/storage/v1/b", folder):
            patch.setenv("STORAGE_EMULATOR_HOST", endpoint)
            patch.setenv("FSSPEC_GS_TOKEN", "anon")
            _read_environment(patch)
            yield Bucket("gs://bucket", "FSSPEC_GS_TOKEN", "anon")


@contextmanager
def azure(folder: Path) -> Iterator[Bucket]:
    """A container of Azurite, to which the environment leads clients inside the block."""
    pytest.importorskip("adlfs", reason="adlfs is not installed")
    program, port = executable("azurite-blob"), free_port()
    endpoint = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
    settings = (
        f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};BlobEndpoint={endpoint};"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZURITE_ACCOUNTS", f"{AZURE_ACCOUNT}:{AZURE_KEY}")
        patch.setenv("AZURE_STORAGE_CONNECTION_STRING", settings)
        command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)]
        with started([*command, "--skipApiVersionCheck"], f"{endpoint}?comp=list", folder):
            yield Bucket("abfs://bucket", "AZURE_STORAGE_CONNECTION_STRING", settings)


def _read_environment(patch: pytest.MonkeyPatch) -> None:
    """fsspec reads FSSPEC_* when it is imported."""
    from fsspec.config import conf, set_conf_env

    found: dict[str, Any] = {}
    set_conf_env(found)
    for protocol, given in found.items():
        patch.setitem(conf, protocol, {**conf.get(protocol, {}), **given})
