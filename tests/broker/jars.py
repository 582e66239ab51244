"""The jars of releases, fetched by Maven once; their places are kept in a folder of the user's cache."""

import os
import subprocess
from pathlib import Path

import pytest

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>kseg</groupId><artifactId>judge</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>\n"


def class_path(artifact: str, version: str, *more: tuple[str, str, str], group: str = "org.apache.kafka") -> str:
    """The jars of an artifact, and of ``more`` (group, artifact, version), as java's -cp takes them.

    Skips the test, with the reason, where Maven cannot bring them.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kseg-tests" / f"{artifact}-{version}"
    listed = cache / "class-path.txt"
    wanted = ((group, artifact, version), *more)
    pom = POM.format("".join(DEPENDENCY.format(*one) for one in wanted))
    if not is_fetched(listed, pom):
        cache.mkdir(parents=True, exist_ok=True)
        listed.unlink(missing_ok=True)
        (cache / "pom.xml").write_text(pom)
        command = ["mvn", "-q", "-B", "-f", str(cache / "pom.xml"), "dependency:build-classpath"]
        done = subprocess.run([*command, f"-Dmdep.outputFile={listed}"], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"Maven cannot fetch {artifact} {version}: {done.stdout.strip()[:200]}")
    return listed.read_text()


def is_fetched(listed: Path, pom: str) -> bool:
    """Whether the list is that of this project file, and all its jars are still there."""
    project = listed.with_name("pom.xml")
    if not listed.exists() or not project.exists() or project.read_text() != pom:
        return False
    return all(map(os.path.exists, listed.read_text().split(os.pathsep)))
