"""The side files of the test data, by kind."""

from pathlib import Path

from kseg.sidefiles.kinds import SideFile, side_file

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
TEXT = TESTDATA / "side-files" / "text"
DAMAGED = TESTDATA / "side-files" / "damaged"


def healthy(*kinds: str) -> list[SideFile]:
    """Side files left by brokers after a clean stop."""
    found = []
    for root in [*sorted(TESTDATA.glob("kafka-*")), TEXT]:
        for path in sorted(path for path in root.rglob("*") if path.is_file() and "truth" not in path.parts):
            file = side_file(str(path))
            if file and file.kind in kinds:
                found.append(file)
    assert found, f"no test data of {kinds}"
    return found


def name_of(file: SideFile) -> str:
    return str(Path(file.path).relative_to(TESTDATA))
