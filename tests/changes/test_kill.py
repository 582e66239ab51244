"""A change is killed at any system call, or the power fails there, after which any subset of the unsynced writes is on
the disk: then `complete_interrupted` leaves the old or the new state, and loses nothing.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changes.failing import QUICK, Killed, KillingDisk, killed_at
from changes.power import CUT, KILLED, ended_at, needs_proc
from changes.trees import Tree, contents, is_within, kept_bytes, make, quarantine, random_files, random_plan, tree
from examples import fewer
from kseg.changes.apply import Keeping, apply
from kseg.changes.content import old_content
from kseg.changes.disk import Disk
from kseg.changes.plan import Piece, Plan, Range
from kseg.changes.quarantine import changes
from kseg.changes.undo import complete_interrupted, last_change, undo

KEEPING = ("beside", "elsewhere", "nowhere")
SEEDS = st.integers(0, 1 << 32)


def keeping_of(kind: str, folder: Path) -> Keeping:
    return Keeping(kind != "nowhere", str(folder / "kept") if kind == "elsewhere" else None)


def planned(seed: int, directory: Path) -> tuple[Callable[[Disk, Keeping], object], dict[str, bytes]]:
    rng = random.Random(seed)
    plan, wanted = random_plan(rng, directory, rng.choice((1, 3, 6)))
    return lambda disk, keeping: apply(plan, "test", keeping, disk), wanted


either = pytest.mark.parametrize("ending, step", [(KILLED, 1), pytest.param(CUT, 5, marks=needs_proc)])


@either
@fewer(6)
@given(seed=SEEDS, kind=st.sampled_from(KEEPING))
def test_a_kill(ending: str, step: int, seed: int, kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("change")
    files = random_files(random.Random(seed))
    after: dict[Path, dict[str, bytes]] = {}

    def run(root: Path, disk: Disk) -> None:
        act, after[root] = planned(seed, root / "orders-0")
        act(disk, keeping_of(kind, root))

    outcomes = set()
    for root in ended_at(ending, step, folder, lambda root: make(root / "orders-0", files), run, seed):
        directory = root / "orders-0"
        assert not any("given up" in line for line in complete_interrupted(str(directory), QUICK))
        found = contents(directory)
        outcomes.add(found == files)
        assert found in (files, after[root])
        if kind != "nowhere":
            places = [*found.values(), *kept_bytes(quarantine(directory), root / "kept")]
            assert all(is_kept(name, content, places, directory) for name, content in files.items())
        assert complete_interrupted(str(directory), QUICK) == []
        assert all(change.state == "done" for change in changes(str(directory)))
        if found == files != after[root]:
            assert not quarantine(directory).exists()
            assert ending == CUT or tree(directory) == old_tree(files, folder)
        elif kind != "nowhere" and changes(str(directory)):
            undo(last_change(str(directory)), QUICK)
            assert contents(directory) == files
    assert found == after[root]
    assert ending == CUT or True in outcomes


SECRET = b"of a person"


@either
def test_an_erasure_is_all_or_nothing(ending: str, step: int, tmp_path: Path) -> None:
    """What an earlier change keeps goes with it: once the new files are there, no old byte is anywhere."""
    before, after = {"0.log": SECRET + b" and of others"}, {"0.log": b"of others"}

    def prepare(root: Path) -> None:
        make(root / "orders-0", before | {"7.log": SECRET})
        earlier = Plan(str(root / "orders-0"))
        earlier.delete("7.log", "test")
        apply(earlier, "retain", disk=QUICK)

    def run(root: Path, disk: Disk) -> None:
        plan = Plan(str(root / "orders-0"), purges=[1])
        plan.write("0.log.swap", [after["0.log"]], "test")
        plan.delete("0.log", "test")
        plan.rename("0.log.swap", "0.log", "test")
        apply(plan, "erase", Keeping(keeps=False), disk)

    outcomes = set()
    for root in ended_at(ending, step, tmp_path, prepare, run):
        directory = root / "orders-0"
        assert not any("given up" in line for line in complete_interrupted(str(directory), QUICK))
        outcomes.add(is_done := contents(directory) == after)
        left = [data for data in kept_bytes(directory) if SECRET in data]
        if is_done:
            assert not left
            assert not changes(str(directory))
        else:
            assert contents(directory) == before
            undo(last_change(str(directory)), QUICK)
            assert contents(directory) == before | {"7.log": SECRET}
    assert outcomes == {True, False}


def old_tree(files: dict[str, bytes], folder: Path) -> Tree:
    directory = folder / "old"
    if not directory.exists():
        make(directory, files)
    return tree(directory)


def cut_apart(content: bytes, places: list[bytes]) -> bool:
    """Whether the content consists of a head that was left in place and tails that were kept one by one."""
    if not content:
        return True
    heads = (content[: -len(place)] for place in places if place and content.endswith(place))
    return any(is_within(head, places) or cut_apart(head, places) for head in heads)


def is_kept(name: str, content: bytes, places: list[bytes], directory: Path) -> bool:
    """Whether content still exists: as a file, as tails, or as the removed ranges of a file rewritten from a delta."""
    if is_within(content, places) or cut_apart(content, places):
        return True
    for change in changes(str(directory)):
        for k, remade in change.by_delta.items():
            if change.steps[k].origin == name:
                now = next((step.target for step in change.steps if step.made_by == k), change.steps[k].file)
                old = b"".join(bytes_at(directory, piece) for piece in old_content(change, k, now))
                return old == content and remade.size <= len(content) // 2
    return False


def bytes_at(directory: Path, piece: Piece) -> bytes:
    assert isinstance(piece, Range)
    with (directory / piece.file).open("rb") as file:
        file.seek(piece.position)
        return file.read(piece.length)


@pytest.mark.sampled(2)
@either
@fewer(6)
@given(seed=SEEDS, kind=st.sampled_from(KEEPING[:2]))
def test_a_killed_undo(ending: str, step: int, seed: int, kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("undo")
    files = random_files(random.Random(seed))
    after: dict[str, bytes] = {}

    def prepare(root: Path) -> None:
        make(root / "orders-0", files)
        act, wanted = planned(seed, root / "orders-0")
        act(QUICK, keeping_of(kind, root))
        after.update(wanted)
        assert contents(root / "orders-0") == wanted

    def run(root: Path, disk: Disk) -> None:
        for change in changes(str(root / "orders-0")):
            undo(change, disk)

    for root in ended_at(ending, step, folder, prepare, run, seed):
        directory = root / "orders-0"
        complete_interrupted(str(directory), QUICK)
        if changes(str(directory)):
            assert contents(directory) in (after, files)
            undo(last_change(str(directory)), QUICK)
        assert tree(directory) == old_tree(files, folder)
        assert not quarantine(directory).exists()
        assert ending == CUT or kept_bytes(root / "kept") == []


@fewer(6)
@given(seed=SEEDS, kind=st.sampled_from(KEEPING), at=st.integers(0, 60))
def test_completion_may_be_killed_too(seed: int, kind: str, at: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("settle")
    files = random_files(random.Random(seed))
    after: dict[Path, dict[str, bytes]] = {}

    def prepare(directory: Path) -> None:
        make(directory, files)
        act, after[directory] = planned(seed, directory)
        try:
            act(KillingDisk(at), keeping_of(kind, directory.parent))
        except Killed:
            return

    for directory in killed_at(1, folder, prepare, lambda path, disk: complete_interrupted(str(path), disk)):
        complete_interrupted(str(directory), QUICK)
        assert contents(directory) in (files, after[directory])
        assert all(change.state == "done" for change in changes(str(directory)))


@fewer(6)
@given(seed=SEEDS, kind=st.sampled_from(KEEPING[:2]))
def test_an_interrupted_change_is_undone(seed: int, kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """If rolling forward fails permanently, the change can be undone."""
    folder = tmp_path_factory.mktemp("back")
    files = random_files(random.Random(seed))

    def run(directory: Path, disk: Disk) -> None:
        planned(seed, directory)[0](disk, keeping_of(kind, directory.parent))

    for directory in killed_at(1, folder, lambda path: make(path, files), run):
        for change in changes(str(directory)):
            undo(change, QUICK)
        complete_interrupted(str(directory), QUICK)
        assert tree(directory) == old_tree(files, folder)
        assert not quarantine(directory).exists()
