"""The output of `kseg --version`: one line, or with --verbose all facts that a bug report needs."""

import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterator

from kseg import __version__
from kseg.kernel import description

_OF_DEVELOPERS = {"dev", "test"}
"""Extras whose packages no command uses."""


def lines(is_verbose: bool) -> Iterator[str]:
    """Yields the lines to print. Codecs are loaded only with ``is_verbose``."""
    yield f"kseg {__version__} ({description()} kernel)"
    if is_verbose:
        yield from (f"{name}: {value}" for name, value in _facts())


def _facts() -> Iterator[tuple[str, str]]:
    from kseg.kernel.render.lines import use_loops
    from kseg.kernel.scan import checksums

    yield "checksums", checksums.implementation()
    yield "text", "avx2" if use_loops(1) else "plain"
    threads = ", free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    yield "Python", f"{platform.python_implementation()} {platform.python_version()}{threads}"
    libc = " ".join(part for part in platform.libc_ver() if part)
    yield "system", ", ".join(part for part in (platform.platform(), libc) if part)
    yield "file names", f"{sys.getfilesystemencoding()}, standard output {getattr(sys.stdout, 'encoding', None)}"
    if variables := [f"{name}={os.environ[name]}" for name in sorted(os.environ) if name.startswith("KSEG_")]:
        yield "environment", " ".join(variables)
    yield from _packages()
    try:
        import lz4
        import zstandard
    except ImportError as error:
        yield "codecs", str(error)
        return
    yield "libzstd of zstandard", ".".join(map(str, zstandard.ZSTD_VERSION))
    yield "liblz4 of lz4", str(lz4.library_version_string())


def _packages() -> Iterator[tuple[str, str]]:
    """Yields the versions of the packages that kseg requires, and of those of its extras."""
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        requirements = requires("kseg") or []
    except PackageNotFoundError:
        yield "packages", "unknown, since kseg runs from its source tree"
        return
    seen = set()
    for requirement in requirements:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        extra = re.search(r"""extra == ["'](.*)["']""", requirement)
        if name in seen or name == "kseg" or (extra and extra[1] in _OF_DEVELOPERS):
            continue
        seen.add(name)
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, f"not installed (for kseg[{extra[1]}])" if extra else "missing"
