"""Compiles the kernel where there is a C compiler; else the same files run interpreted.

``KSEG_KERNEL`` forces a mode at build time: ``compiled`` makes a failed compilation an error, ``python`` compiles
nothing. The commands here are named in pyproject.toml, so there is no setup.py and no MANIFEST.in.

The kernel keeps to the limited API of Python 3.11, so that one wheel a platform serves this and every later version.
Free-threaded builds of Python have no such API yet: there it is compiled for the one version.
"""

import ast
import hashlib
import os
import runpy
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

from setuptools import Extension
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import PlatformError

# Cython's utility code, which would otherwise be compiled into each module: three quarters of the compiler's work.
_SHARED = "kseg.kernel._shared"
# The rooms of the kernel whose loops run slower with -O1, by up to 16%.
_HOT = ("compact", "records", "render", "scan", "state")

_IS_LIMITED = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
_OLDEST_PYTHON = "cp311"
_OLDEST_HEX = "0x030B0000"

_DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "infer_types": True,
    "initializedcheck": False,
    "embedsignature": True,
}


# Types of C by their names in annotations of the kernel. Others are declared in a .pxd under the same name.
_C_TYPES = {
    "bint": "bint", "cython.int": "int", "cython.uint": "unsigned int", "longlong": "long long",
    "Py_ssize_t": "Py_ssize_t", "ulonglong": "unsigned long long", "void": "void",
}  # fmt: skip
# Modules that are never compiled, and the header of C that has their functions, as kseg_NAME.
_TWINS = {
    "kseg/kernel/layout/headers.py": "constants.h", "kseg/kernel/layout/rows.py": "native.h",
    "kseg/kernel/native/escape.py": "escape.h", "kseg/kernel/native/search.py": "search.h",
}  # fmt: skip


def _declare(folder: Path, paths: "list[str]") -> None:
    """Writes what C must know of the modules: a .pxi for each, which its .pxd includes, and constants.h.

    A module has its constants under ``if not cython.compiled``; those of layout/ are all constants of C, too. Functions
    that return a type of C become functions of C, which need no GIL and raise nothing.
    """
    shared: dict[str, int] = {}
    for path in [*_TWINS, *paths]:
        tree = ast.parse(Path(path).read_text("utf-8"))
        if "/layout/" in path:
            named = {name: value for name, value in runpy.run_path(path).items() if name.isupper()}
            constants = {name: value for name, value in named.items() if type(value) is int and value >> 31 in (0, -1)}
            shared |= constants
        else:
            constants = _constants(tree)
        lines = [f"    {name} = {value}" for name, value in constants.items()]
        if lines:
            lines.insert(0, "cdef enum:" if path in _TWINS else "cpdef enum:")
        if path in _TWINS:
            lines.append(f'cdef extern from "{_TWINS[path]}" nogil:\n    pass')
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        lines += [_declaration(node, path in _TWINS) for node in functions if _type_name(node.returns) in _C_TYPES]
        made = folder / Path(path).with_suffix(".pxi")
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text("\n".join([*lines, ""]))
    lines = [f"    KSEG_{name} = {value}," for name, value in shared.items()]
    guard = "KSEG_CONSTANTS_H"
    (folder / "constants.h").write_text(
        "\n".join([f"#ifndef {guard}", f"#define {guard}", "enum {", *lines, "};", "#endif", ""])
    )


def _constants(tree: ast.Module) -> "dict[str, int]":
    """Returns the numbers that a module names under ``if not cython.compiled``: literals, their tuples, and ranges.

    Raises ValueError if another expression has a name of capitals.
    """
    found: dict[str, int] = {}
    for block in tree.body:
        if not isinstance(block, ast.If) or ast.unparse(block.test) != "not cython.compiled":
            continue
        for node in block.body:
            match node:
                case ast.Assign(
                    [ast.Name(name)], ast.Constant(int()) | ast.UnaryOp(ast.USub(), ast.Constant(int())) as value
                ):
                    found[name] = ast.literal_eval(value)
                case ast.Assign([ast.Tuple(names)], ast.Call(ast.Name("range"), limits)):
                    values = range(*map(ast.literal_eval, limits))
                    found |= zip(map(ast.unparse, names), values, strict=True)
                case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
                    found |= zip(map(ast.unparse, names), map(ast.literal_eval, values), strict=True)
                case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)) if name.isupper():
                    raise ValueError(f"line {node.lineno}: {name} is no literal number")
    return found


def _type_name(annotation: "ast.expr | None") -> str:
    return "" if annotation is None else ast.unparse(annotation)


def _c_type(annotation: "ast.expr | None") -> str:
    """Returns the type of C that an annotation names."""
    name = _type_name(annotation)
    if name.startswith("pointer["):
        name = name[len("pointer[") : -1]
        return _C_TYPES.get(name, name) + "*"
    return _C_TYPES.get(name, name)


def _declaration(node: ast.FunctionDef, is_twin: bool) -> str:
    arguments = ", ".join(f"{_c_type(each.annotation)} {each.arg}" for each in node.args.args)
    if is_twin:
        return f'    {_c_type(node.returns)} {node.name} "kseg_{node.name}"({arguments})'
    return f"cdef {_c_type(node.returns)} {node.name}({arguments}) noexcept nogil"


def _digest(settings: str) -> str:
    """Returns a digest of the kernel's files, of this one, which makes declarations of them, and of the settings with
    which Cython translates them."""
    found = hashlib.sha256(settings.encode())
    kernel = sorted(path for kind in ("*.py", "*.pxd") for path in Path("kseg/kernel").rglob(kind))
    for path in [Path("kseg/_build.py"), *kernel]:
        found.update(b"%s %s " % (str(path).encode(), hashlib.sha256(path.read_bytes()).digest()))
    return found.hexdigest()


class BuildKernel(build_ext):
    """Compiles the kernel, one extension a sub-package. Without a compiler it says so and leaves the .py files."""

    extensions: "list[Extension]"

    def run(self) -> None:
        if sys.byteorder != "little":
            raise PlatformError("kseg needs a little-endian machine, and this one is big-endian")
        for extension in self.extensions:
            extension.py_limited_api = _IS_LIMITED
        mode = os.environ.get("KSEG_KERNEL", "")
        if mode == "python":
            self._remove_compiled()
            return
        try:
            self.extensions = self._translated()
            self._remove_compiled(is_other_only=True)
            self.parallel = getattr(self, "parallel", None) or os.cpu_count()
            super().run()
        except BaseException as error:
            if mode == "compiled" or isinstance(error, KeyboardInterrupt):
                raise
            print(f"kseg: the kernel was not compiled and will run interpreted ({error!r:.300})", file=sys.stderr)
            self._remove_compiled()

    def _translated(self) -> "list[Extension]":
        """The extensions of the sub-packages, each with the C files of its modules as sources."""
        from Cython.Build import cythonize

        # The same for all platforms, so builds for several of them may share it.
        c_folder = Path(self.get_finalized_command("build").build_base) / "cython"
        chosen = os.environ.get("CFLAGS", "").split()
        shared = Extension(_SHARED, ["kseg/kernel/_shared.c"])
        paths = [path for extension in self.extensions for path in extension.sources]
        # Debuggers and sanitizers then name lines of the .py files.
        emit_linenums = any(flag.startswith("-g") and flag != "-g0" for flag in chosen)
        # Cython compares modification times, also those of its own files. Each build by pip installs Cython anew: it
        # would translate all again.
        done, digest = c_folder / "digest", _digest(f"{version('Cython')} {_DIRECTIVES} {emit_linenums} {paths}")
        if not done.exists() or done.read_text() != digest:
            done.unlink(missing_ok=True)
            _declare(c_folder, paths)
            cythonize(
                [*(Extension(".".join(Path(path).with_suffix("").parts), [path]) for path in paths), shared],
                build_dir=str(c_folder),
                include_path=[str(c_folder)],
                compiler_directives=_DIRECTIVES,
                shared_utility_qualified_name=_SHARED,
                emit_linenums=emit_linenums,
                force=True,
                quiet=True,
                nthreads=os.cpu_count() if sys.platform == "linux" else 0,
            )
            done.write_text(digest)
        extensions = [shared, *self.extensions]
        for extension in extensions:
            # The optimization and debug level of CFLAGS take precedence.
            wanted = ("-O3" if extension.name.split(".")[2] in _HOT else "-O1", "-g0")
            levels = [flag for flag in wanted if not any(given.startswith(flag[:2]) for given in chosen)]
            extension.sources = [str(c_folder / Path(path).with_suffix(".c")) for path in extension.sources]
            extension.depends = [str(path) for kind in ("*.h", "*.pxd") for path in Path("kseg/kernel").rglob(kind)]
            extension.include_dirs = ["kseg/kernel/native", str(c_folder)]
            extension.extra_compile_args = ["/O2"] if os.name == "nt" else ["-fno-strict-aliasing", *levels]
            extension._needs_stub = False
            extension.py_limited_api = _IS_LIMITED
            extension.define_macros = [("Py_LIMITED_API", _OLDEST_HEX)] if _IS_LIMITED else []
            for name in (extension.name, extension.name.rpartition(".")[2]):  # setuptools asks for either
                self.ext_map[name] = extension
        # Each extension is compiled by one thread: the longest ones come first, so that the threads end together.
        return sorted(extensions, key=lambda extension: -sum(os.path.getsize(path) for path in extension.sources))

    def _remove_compiled(self, is_other_only: bool = False) -> None:
        """Removes what older builds have left; those of this build too, unless ``is_other_only``.

        A kernel is compiled whole or not at all, and a file compiled for one version of Python is found before that of
        the limited API: `kseg --version` would lie, or old code would run.
        """
        for name in {_SHARED, *(extension.name for extension in self.extensions)}:
            for path in {Path(self.get_ext_fullpath(name)), Path(self.build_lib, self.get_ext_filename(name))}:
                for found in path.parent.glob(name.rpartition(".")[2] + ".*"):
                    if found.suffix in (".so", ".pyd") and not (is_other_only and found == path):
                        found.unlink()
        if not is_other_only:
            self.extensions = []

    def get_outputs(self) -> list[str]:
        return [path for path in super().get_outputs() if Path(path).exists()]

    def get_output_mapping(self) -> dict[str, str]:
        return {built: source for built, source in super().get_output_mapping().items() if Path(built).exists()}


class BuildWheel(bdist_wheel):
    """Tags a wheel with all versions of Python that its kernel runs on."""

    def finalize_options(self) -> None:
        if _IS_LIMITED:
            self.py_limited_api = _OLDEST_PYTHON
        super().finalize_options()


class BuildSource(sdist):
    """Puts all that a build and the tests need into a source distribution, and no leftovers of either."""

    def make_distribution(self) -> None:
        for folder in (".ci/benchmarks", "kseg", "man", "testdata", "tests"):
            self.filelist.graft(folder)
        for name in ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"):
            self.filelist.include(name)
        for pattern in ("*.py[cod]", "*.so", "*.pyd"):
            self.filelist.global_exclude(pattern)
        for folder in ("__pycache__", ".hypothesis", ".pytest_cache"):
            self.filelist.exclude_pattern(rf"(^|.*[/\\]){folder}([/\\].*|$)", is_regex=1)
        self.filelist.sort()
        self.filelist.remove_duplicates()
        super().make_distribution()
