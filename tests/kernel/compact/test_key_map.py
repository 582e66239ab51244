"""The map of keys against a dict, and what its hash owes to the secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.cleaner.rounds import OffsetMap
from kseg.formats.rows import int64s
from kseg.kernel import COMPILED
from kseg.kernel.compact import key_map
from kseg.kernel.compact.key_map import Secret


def put_key(offset_map: OffsetMap, key: bytes, offset: int) -> bool:
    """Whether it fitted."""
    hashes, offsets = int64s(2), int64s(1)
    hashes[0], hashes[1] = key_map.hash_of(key, offset_map.keys.secret)
    offsets[0] = offset
    return offset_map.put(hashes, offsets, 1) == 1


def offset_of(offset_map: OffsetMap, key: bytes) -> int:
    """The last offset of a key, -1 where it is not in the map."""
    return int(offset_map.keys.find(*key_map.hash_of(key, offset_map.keys.secret)))


KEYS = st.lists(st.binary(max_size=20), max_size=300)


@given(KEYS)
def test_it_holds_the_last_offset_of_each_key(keys: list[bytes]) -> None:
    found, known = OffsetMap(1 << 16), {}
    for offset, key in enumerate(keys):
        assert put_key(found, key, offset)
        known[key] = offset
    assert len(found) == len(known)
    assert {key: offset_of(found, key) for key in keys} == known
    assert offset_of(found, b"a key that nobody has put there") == -1
    found.close()


@pytest.mark.parametrize("most", [1, 2, 9, 90])
def test_it_takes_no_more_keys_than_fit_its_memory(most: int) -> None:
    found = OffsetMap(24 * -(-10 * most // 9))
    assert [put_key(found, b"%d" % i, i) for i in range(2 * most)] == [i < most for i in range(2 * most)]
    assert [offset_of(found, b"%d" % i) for i in range(2 * most)] == [i if i < most else -1 for i in range(2 * most)]
    assert not put_key(found, b"0", 1)  # full is full, even for a key that is there


@given(KEYS, st.integers(1, 300))
def test_it_grows_with_its_keys(keys: list[bytes], most: int) -> None:
    """Up to what its memory holds, and keeps what it has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kseg.cleaner.rounds._FIRST_SLOTS", 4)
        found, known = OffsetMap(24 * -(-10 * most // 9)), {}
    for offset, key in enumerate(keys):
        is_full = len(known) == most
        assert put_key(found, key, offset) == (not is_full)
        if not is_full:
            known[key] = offset
    assert {key: offset_of(found, key) for key in known} == known
    assert len(found) == len(known)


def test_a_large_one_takes_no_more_memory_than_its_keys_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many keys at a time, moved in several pieces; a share of them goes into another that grows, too."""
    monkeypatch.setattr("kseg.cleaner.rounds._MOVED_SLOTS", 1 << 13)
    count = 60_000 if COMPILED else 5000
    found, other = (OffsetMap(1 << 30, secret=bytes(16)) for _ in range(2))
    hashes, offsets = int64s(2 * count), int64s(count)
    for i in range(count):
        hashes[2 * i], hashes[2 * i + 1], offsets[i] = (i * 0x9E3779B97F4A7C15) % (1 << 64) - (1 << 63), i, i
    assert found.put(hashes, offsets, count) == count == len(found)
    assert found.keys.slots <= max(count * 2 / 0.6, 1 << 16)
    assert other.merge(found.entries(1)[0], 100)
    assert len(other) == count - 100
    assert all(found.keys.find(hashes[2 * i], i) == i for i in range(count))
    assert all(other.keys.find(hashes[2 * i], i) == i for i in range(100, count))


def test_each_map_has_a_hash_of_its_own() -> None:
    one, other = OffsetMap(1 << 12), OffsetMap(1 << 12)
    assert key_map.hash_of(b"key", one.keys.secret) == key_map.hash_of(b"key", one.keys.secret)
    assert key_map.hash_of(b"key", one.keys.secret) != key_map.hash_of(b"key", other.keys.secret)


def siphash_128(data: bytes, rounds: int, last_rounds: int) -> str:
    """SipHash with a result of 128 bits and the key 00 01 .. 0f, as its authors describe it."""
    mask = (1 << 64) - 1
    k0, k1 = (int.from_bytes(bytes(range(at, at + 8)), "little") for at in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def mix(count: int) -> None:
        for _ in range(count):
            for a, b, left, turn in ((0, 1, 13, 32), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 32)):
                v[a] = (v[a] + v[b]) & mask
                v[b] = (v[b] << left | v[b] >> 64 - left) & mask ^ v[a]
                v[a] = (v[a] << turn | v[a] >> 64 - turn) & mask

    padded = data + bytes(-(len(data) + 1) % 8) + bytes((len(data) & 0xFF,))
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        mix(rounds)
        v[0] ^= word
    found = b""
    for k, bits in ((2, 0xEE), (1, 0xDD)):
        v[k] ^= bits
        mix(last_rounds)
        found += (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    return found.hex()


@pytest.mark.skipif(not COMPILED, reason="interpreted, BLAKE2b stands in")
def test_the_hash_is_siphash_1_3_128() -> None:
    """Vectors: of the authors for 2-4 rounds, of the crate siphasher for 1-3."""
    vectors = ["a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45"]
    assert [siphash_128(bytes(range(size)), 2, 4) for size in range(2)] == vectors
    assert siphash_128(b"", 1, 3) == "e77ebcb22788a5befd62db6add303001"
    for size in (*range(20), 255, 256, 1000):
        data = bytes(k % 251 for k in range(size))
        halves = key_map.hash_of(data, Secret(bytes(range(16))))
        assert b"".join(half.to_bytes(8, "little", signed=True) for half in halves).hex() == siphash_128(data, 1, 3)


def test_a_secret_has_its_size() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Secret(bytes(15))


ENTRIES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1000)), max_size=200)


@given(st.lists(ENTRIES, min_size=1, max_size=4), st.integers(1, 9), st.integers(0, 900))
def test_maps_in_shares_are_one_map(found: list[list[tuple[int, int]]], buckets: int, least: int) -> None:
    secret, wanted = bytes(range(16)), dict[bytes, int]()
    parts = []
    for rows in found:
        part = OffsetMap(1 << 20, secret)
        for key, offset in rows:
            put_key(part, b"%d" % key, offset)
        parts.append(part)
        for key, offset in dict(rows).items():
            if offset >= least:
                wanted[b"%d" % key] = max(wanted.get(b"%d" % key, -1), offset)
    shares = [part.entries(buckets) for part in parts]
    assert [sum(map(len, share)) for share in shares] == [3 * len(part) for part in parts]
    told: dict[bytes, int] = {}
    for bucket in range(buckets):
        whole = OffsetMap(1 << 20, secret)
        assert all(whole.merge(share[bucket], least) for share in shares)
        for share in shares:
            answer = OffsetMap(1 << 20, secret)
            answer.merge(whole.look_up(share[bucket]))
            told |= {
                key: offset_of(answer, key) for key in (b"%d" % i for i in range(41)) if offset_of(answer, key) >= 0
            }
    assert told == wanted


def test_shares_that_are_too_many_for_a_map_are_refused() -> None:
    part, small = OffsetMap(1 << 12, secret=bytes(16)), OffsetMap(24 * 10, secret=bytes(16))
    for i in range(20):
        put_key(part, b"%d" % i, i)
    [share] = part.entries(1)
    assert not small.merge(share)
    assert len(small) == 9
    assert OffsetMap(24 * 10, secret=bytes(16)).merge(share, 15)
    with pytest.raises(ValueError, match="offsets begin"):
        small.merge(share, -1)
