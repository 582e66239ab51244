"""Either kernel has the constants of the source; the interpreted one runs from a zip file."""

import ast
import os
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import kseg
import kseg.kernel


def constants() -> dict[str, dict[str, int]]:
    """The numbers that each compiled module names."""
    modules = sorted(Path(kseg.kernel.__file__).parent.glob("[!ln]*/[!_]*.py"))
    loaded = {
        f"{path.parent.name}.{path.stem}": vars(import_module(f"kseg.kernel.{path.parent.name}.{path.stem}"))
        for path in modules
    }
    return {
        name: {each: value for each, value in found.items() if each.isupper() and type(value) is int}
        for name, found in loaded.items()
    }


def test_the_kernel_has_all_constants_of_the_source():
    from kseg._build import _constants

    everything = constants()
    assert len(set().union(*everything.values())) > 250
    for name, found in everything.items():
        source = Path(kseg.kernel.__file__).parent / (name.replace(".", "/") + ".py")
        wanted = _constants(ast.parse(source.read_text("utf-8")))
        assert {each: found.get(each) for each in wanted} == wanted


def test_a_zip_file_has_the_interpreted_kernel(tmp_path):
    package, segments = Path(kseg.__file__).parent, Path(__file__).resolve().parents[2] / "testdata/kafka-4.3.1/clients"
    with zipfile.ZipFile(tmp_path / "kseg.zip", "w") as made:
        for path in package.rglob("*"):
            if path.suffix in (".py", ".so"):
                made.write(path, path.relative_to(package.parent))
    program = (
        "import kseg, kseg.kernel\n"
        "with kseg.open(%r) as log: print(kseg.kernel.COMPILED, kseg.__file__, sum(1 for _ in log.records()))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "KSEG_KERNEL"}
    others = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    done = subprocess.run(
        [sys.executable, "-P", "-c", program % str(segments / "librdkafka-gzip-0")],
        env=environment | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "kseg.zip"), *others])},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["False", str(tmp_path / "kseg.zip/kseg/__init__.py"), "240"]
