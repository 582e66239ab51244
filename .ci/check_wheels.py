"""Checks that wheels hold the whole of kseg, compiled for the processor and the C library that their tags name.

usage: python .ci/check_wheels.py WHEEL...

Needs auditwheel, with the packages that it requires.
"""

import sys
import zipfile
from io import BytesIO
from pathlib import Path

from auditwheel.wheel_abi import analyze_wheel_abi
from auditwheel.wheeltools import get_wheel_architecture, get_wheel_libc
from elftools.elf.elffile import ELFFile
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).resolve().parent.parent
MACHINES = {"x86_64": "x64", "aarch64": "AArch64"}
EXTENSIONS = {f"kseg/kernel/{path.parent.name}/_compiled.abi3.so" for path in ROOT.glob("kseg/kernel/*/__init__.py")}
EXTENSIONS -= {f"kseg/kernel/{folder}/_compiled.abi3.so" for folder in ("layout", "native")}  # C reads these as headers
PAGES = {f"share/man/man{page.suffix[1:]}/{page.name}" for page in (ROOT / "man").glob("*.[1-9]")}


def faults(wheel: Path) -> list[str]:
    """What is wrong with a wheel, a sentence each."""
    _, _, _, tags = parse_wheel_filename(wheel.name)
    processors = {name for tag in tags for name in MACHINES if tag.platform.endswith(name)}
    found = [f"has the tag {tag}" for tag in tags if (tag.interpreter, tag.abi) != ("cp311", "abi3")]
    if len(processors) != 1:
        return [*found, "is for no processor or for several"]
    proved = analyze_wheel_abi(
        get_wheel_libc(wheel.name), get_wheel_architecture(wheel.name), wheel, frozenset(),
        disable_isa_ext_check=False, allow_graft=False,
    )  # fmt: skip
    if any(proved.overall_policy < proved.policies.get_policy_by_name(tag.platform) for tag in tags):
        found.append(f"is only {proved.overall_policy.name} by what it asks of libraries")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        libraries = {name for name in names if name.endswith(".so")}
        for name in sorted(libraries):
            library = ELFFile(BytesIO(archive.read(name)))
            if library.get_machine_arch() != MACHINES[min(processors)]:
                found.append(f"holds {name} for {library.get_machine_arch()}")
            dynamic = library.get_section_by_name(".dynamic")
            if {"DT_RPATH", "DT_RUNPATH"} & {tag.entry.d_tag for tag in dynamic.iter_tags()}:
                found.append(f"holds {name}, which looks for libraries in a folder of the machine that built it")
    missing = (EXTENSIONS | {"kseg/kernel/_shared.abi3.so"}) - libraries
    missing |= {page for page in PAGES if not any(name.endswith(f".data/data/{page}") for name in names)}
    found += [f"lacks {name}" for name in sorted(missing)]
    if not any(name.endswith("licenses/LICENSE") for name in names):
        found.append("lacks LICENSE")
    return found + [f"holds {name}" for name in sorted(names) if name.endswith((".c", ".pyc"))]


def main() -> int:
    wheels = [Path(name) for name in sys.argv[1:]]
    found = [f"{wheel.name} {fault}" for wheel in wheels for fault in faults(wheel)]
    print("\n".join(found) or f"{len(wheels)} wheels are whole")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
