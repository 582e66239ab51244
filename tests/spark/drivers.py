"""Drivers of Spark in processes of their own, to be killed with their JVMs; packages from Maven for their sessions."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPES = (ROOT / "man/kseg-spark-recipes.7").read_text("utf-8")
SETTINGS = re.findall(r"^\.Bd -literal -offset indent\n(.*?)^\.Ed$", RECIPES, re.MULTILINE | re.DOTALL)


def session(master: str, settings: dict[str, str]) -> str:
    """The code that starts ``spark``, a session that finds kseg."""
    given = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        **settings,
    }
    return (
        "import json\nimport sys\nfrom pyspark.sql import SparkSession\nimport kseg.spark\n"
        f"spark = SparkSession.builder.master({master!r}).config(map={given!r}).getOrCreate()\n"
        "kseg.spark.register(spark)\n"
    )


def environment(folder: Path) -> dict[str, str]:
    """The environment of a driver: nothing of the user's, and kseg from this tree if it is not installed."""
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    if find_spec("pyspark_kseg") is None:
        given["PYTHONPATH"] = f"{ROOT}:{ROOT / 'kseg/spark/by_name'}"
    return given | {"PYSPARK_PYTHON": sys.executable}


def run(folder: Path, command: list[str], given: dict[str, str]) -> "subprocess.Popen[str]":
    """Starts a command as a process group; its errors are added to a file of the folder."""
    with (folder / "errors").open("a") as errors:
        return subprocess.Popen(
            command, cwd=folder, env=given, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip


def started(folder: Path, program: str, *arguments: object, **more: str) -> "subprocess.Popen[str]":
    """Starts a driver, with its JVM."""
    (folder / "program.py").write_text(program, "utf-8")
    command = [sys.executable, "-P", str(folder / "program.py"), *map(str, arguments)]
    return run(folder, command, environment(folder) | more)


def killed(process: "subprocess.Popen[str]") -> bool:
    """Kills a driver with its JVM and its workers; whether it was still running."""
    running = process.poll() is None
    if running:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return running


def require_success(process: "subprocess.Popen[str]", folder: Path, output: str = "") -> None:
    """Fails with the errors of a driver, or skips the test where Maven does not have a package of its session."""
    errors = (folder / "errors").read_text("utf-8") + output
    if process.returncode and "unresolved dependency" in errors:
        pytest.skip("Maven cannot be reached, or does not have the package")
    assert process.returncode == 0, errors[-3000:]


def output_of(process: "subprocess.Popen[str]", folder: Path) -> Any:
    """Returns the last line of a driver that ends well, which is JSON."""
    try:
        output, _ = process.communicate(timeout=580)
    except BaseException:
        killed(process)
        raise
    require_success(process, folder, output)
    return json.loads(output.splitlines()[-1])


def settings_of(package: str, archive: Path) -> dict[str, str]:
    """The settings that kseg-spark-recipes(7) shows with this package."""
    (found,) = (block for block in SETTINGS if package in block)
    shown = dict(line.split("=", 1) for line in found.splitlines())
    return {name: value.replace("/archive", str(archive)) for name, value in shown.items()}


def skip_unless_pyspark(release: str) -> None:
    if not pyspark.__version__.startswith(f"{release}."):
        pytest.skip(f"needs PySpark {release}, the newest that the package supports; this is {pyspark.__version__}")


def spark_home(folder: Path) -> Path:
    """A copy of the package's SPARK_HOME. Workers of a cluster write to it, whatever SPARK_WORKER_DIR is."""
    folder.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        if path.name != "work":
            (folder / path.name).symlink_to(path)
    return folder
