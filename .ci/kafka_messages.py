"""Lists the messages that the classes of a release of Kafka log as WARN, ERROR or FATAL, or throw.

    PYTHONPATH=.ci:tests python -m kafka_messages 4.4.0 ...

Prints ``level<TAB>class<TAB>message`` for the classes that have to do with stored data; ``{}`` stands for what is not
constant in a message. With several releases, a message of all is one line. Java is not needed, Maven is: it fetches the
jars. ``--write`` writes the list to testdata/symptoms, which tests/symptoms/test_messages.py compares with the table
of symptoms.

The methods of a class file (JVM specification, chapters 4 and 6) are followed on a stack that knows only texts: those
of the constant pool, what string builders, concatenation and formats make of them, and what lambdas return.
"""

import argparse
import lzma
import re
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from broker import jars

LIST = Path(__file__).resolve().parent.parent / "testdata/symptoms/messages.tsv.xz"
_KAFKA = "org/apache/kafka"
WANTED = re.compile(
    rf"kafka/(log|cluster|raft|snapshot|coordinator)/|kafka/server/(metadata|checkpoints|epoch)/"
    rf"|kafka/server/(\w*ReplicaManager|\w*Fetcher\w*|\w*LeaderEndPoint|LogDirFailureChannel|\w*Checkpoint\w*)\W"
    rf"|kafka/server/(Kafka(Raft)?Server|(Broker|Controller|Shared)Server|BrokerLifecycleManager|TierStateMachine)\W"
    rf"|{_KAFKA}/(storage|raft|snapshot|image|metadata|controller|coordinator)/"
    rf"|{_KAFKA}/server/(log|storage|fault|partition|replica|share)/"
    rf"|{_KAFKA}/server/common/(serialization/|\w*Checkpoint|MetadataVersion\W)"
    rf"|{_KAFKA}/server/(\w*ReplicaManager|\w*Fetcher\w*|AssignmentsManager|BrokerLifecycleManager)\W"
    rf"|{_KAFKA}/common/(record|compress)/|{_KAFKA}/common/protocol/Errors\W"
    rf"|{_KAFKA}/clients/consumer/(\w*Exception|internals/(\w*Fetch\w*|SubscriptionState))\W"
)
"""Class files: the log layer, coordinators, raft, metadata, tiered storage, and what reads records."""
NOT_WANTED = re.compile(r"/generated/|/admin/|Config(s|Def)?\.class|Test")

LEVELS = {"warn": "WARN", "error": "ERROR", "fatal": "FATAL"}
FAULTS = ("handleFault", "maybeAddOfflineLogDir", "maybeHandleIOException")
THROWN = "THROWN"


class Text(NamedTuple):
    """A value of the stack: the texts that it may be."""

    texts: tuple[str, ...]


class Lambda(NamedTuple):
    method: tuple[str, str, str]


class Builder:
    """A string builder that is being filled."""

    def __init__(self) -> None:
        self.text = ""


class Wide:
    """A long or a double."""


Value = Text | Lambda | Builder | type[Wide] | None

# Effects of the instructions that have no other: values popped, what is pushed ("v", a "w"ide one or nothing).

_EFFECTS: dict[int, tuple[int, str]] = {}


def _effect(first: int, last: int, pops: int, pushed: str) -> None:
    """The kinds of pushed values repeat over the instructions from first to last."""
    for code in range(first, last + 1):
        _EFFECTS[code] = (pops, pushed[(code - first) % len(pushed)].strip() if pushed else "")


_effect(0, 0, 0, "")
_effect(1, 8, 0, "v")
_effect(9, 15, 0, "wwvvvww")
_effect(16, 17, 0, "v")
_effect(20, 20, 0, "w")
_effect(21, 24, 0, "vwvw")
_effect(26, 41, 0, "vvvvwwww")
_effect(46, 53, 2, "vwvwvvvv")
_effect(54, 57, 1, "")
_effect(59, 74, 1, "")
_effect(79, 86, 3, "")
_effect(87, 87, 1, "")
_effect(96, 115, 2, "vwvw")
_effect(116, 119, 1, "vwvw")
_effect(120, 131, 2, "vw")
_effect(132, 132, 0, "")
_effect(133, 147, 1, "wvwvvwvwwvwvvvv")
_effect(148, 152, 2, "v")
_effect(188, 190, 1, "v")
_effect(193, 193, 1, "v")
_effect(194, 195, 1, "")

_OPERANDS = {
    **dict.fromkeys((16, 18, *range(21, 26), *range(54, 59), 169, 188), 1),
    **dict.fromkeys((17, 19, 20, 132, *range(153, 169), *range(178, 185), 187, 189, 192, 193, 198, 199), 2),
    197: 3, 185: 4, 186: 4, 200: 4, 201: 4,
}  # fmt: skip


class ClassFile:
    """The constants and the code of the methods of a class file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        at = self._read_constants()
        (this,) = struct.unpack_from(">H", data, at + 2)
        self.name = self._text(self.constants[this][0])
        (interfaces,) = struct.unpack_from(">H", data, at + 6)
        at += 8 + 2 * interfaces
        self.methods: dict[tuple[str, str], bytes] = {}
        at = self._skip_members(at, has_code=False)
        at = self._skip_members(at, has_code=True)
        self.bootstraps = list(self._bootstraps(at))

    def _read_constants(self) -> int:
        (count,) = struct.unpack_from(">H", self.data, 8)
        self.constants: list[Any] = [None] * count
        at, number = 10, 1
        while number < count:
            tag = self.data[at]
            if tag == 1:
                (size,) = struct.unpack_from(">H", self.data, at + 1)
                self.constants[number] = self.data[at + 3 : at + 3 + size].decode("utf-8", "replace")
                at += 3 + size
            elif tag == 15:
                self.constants[number] = struct.unpack_from(">BH", self.data, at + 1)
                at += 4
            elif tag in (7, 8, 16, 19, 20):
                self.constants[number] = (*struct.unpack_from(">H", self.data, at + 1), tag)
                at += 3
            else:
                self.constants[number] = struct.unpack_from(">HH", self.data, at + 1)
                at += 9 if tag in (5, 6) else 5
            number += 2 if tag in (5, 6) else 1
        return at

    def _text(self, number: int) -> str:
        return str(self.constants[number])

    def member(self, number: int) -> tuple[str, str, str]:
        """Returns the class, name and descriptor of a field or method."""
        owner, described = self.constants[number]
        name, descriptor = self.constants[described]
        return self._text(self.constants[owner][0]), self._text(name), self._text(descriptor)

    def _skip_members(self, at: int, has_code: bool) -> int:
        (count,) = struct.unpack_from(">H", self.data, at)
        at += 2
        for _ in range(count):
            _, name, descriptor, attributes = struct.unpack_from(">4H", self.data, at)
            at += 8
            for _ in range(attributes):
                kind, size = struct.unpack_from(">HI", self.data, at)
                if has_code and self.constants[kind] == "Code":
                    (length,) = struct.unpack_from(">I", self.data, at + 10)
                    code = self.data[at + 14 : at + 14 + length]
                    self.methods[self._text(name), self._text(descriptor)] = code
                at += 6 + size
        return at

    def _bootstraps(self, at: int) -> Iterator[tuple[int, ...]]:
        (attributes,) = struct.unpack_from(">H", self.data, at)
        at += 2
        for _ in range(attributes):
            kind, size = struct.unpack_from(">HI", self.data, at)
            if self.constants[kind] == "BootstrapMethods":
                (count,) = struct.unpack_from(">H", self.data, at + 6)
                entry = at + 8
                for _ in range(count):
                    (arguments,) = struct.unpack_from(">H", self.data, entry + 2)
                    yield struct.unpack_from(f">{arguments}H", self.data, entry + 4)
                    entry += 4 + 2 * arguments
            at += 6 + size


def _arguments(descriptor: str) -> list[str]:
    return re.findall(r"\[*(?:L[^;]*;|[A-Z])", descriptor[1 : descriptor.index(")")])


def _with_gaps(text: str) -> str:
    """Returns a text with one {} for each run of what is not constant."""
    return re.sub(r"\{\}(?:\{\})+", "{}", text)


def _unformatted(text: str) -> str:
    return re.sub(r"%(?:\d+\$)?[-#+ 0,(]*\d*(?:\.\d+)?[a-zA-Z]", "{}", text).replace("%%", "%").replace("%n", " ")


class Release:
    """The messages of the classes of some jars."""

    def __init__(self, class_path: str) -> None:
        self.classes: dict[str, ClassFile] = {}
        self.messages: set[tuple[str, str, str]] = set()
        self._returned: dict[tuple[str, str, str], Value] = {}
        for path in class_path.split(":"):
            if "/org/apache/kafka/" not in path:
                continue
            with zipfile.ZipFile(path) as jar:
                for name in jar.namelist():
                    if name.endswith(".class") and WANTED.match(name) and not NOT_WANTED.search(name):
                        each = ClassFile(jar.read(name))
                        self.classes[each.name] = each
        for each in self.classes.values():
            for method in each.methods:
                Run(self, each, method).run()

    def returned(self, method: tuple[str, str, str]) -> Value:
        """Returns what a method of these classes returns, if that is a text."""
        if method not in self._returned:
            self._returned[method] = None
            owner = self.classes.get(method[0])
            if owner is not None and method[1:] in owner.methods:
                self._returned[method] = Run(self, owner, method[1:], is_quiet=True).run()
        return self._returned[method]

    def add(self, level: str, name: str, value: Value) -> None:
        value = self.returned(value.method) if isinstance(value, Lambda) else value
        for text in value.texts if isinstance(value, Text) else ():
            text = _with_gaps(" ".join(text.split()))
            if len(re.sub(r"\W", "", text)) > 3:
                self.messages.add((level, name.partition("$")[0].rpartition("/")[2], text))


class Run:
    """One pass over the code of a method."""

    def __init__(self, release: Release, file: ClassFile, method: tuple[str, str], is_quiet: bool = False) -> None:
        self.release, self.file, self.code, self.is_quiet = release, file, file.methods[method], is_quiet
        self.stack: list[Value] = []
        self.locals: dict[int, Value] = {}
        self.at_target: dict[int, list[Value]] = {}
        self.texts: list[str] = []

    def run(self) -> Value:
        """Adds the messages of the method, unless it is quiet; returns the texts that it returns."""
        at, is_live = 0, True
        while at < len(self.code):
            if at in self.at_target:
                self.stack = self._joined(at) if is_live else list(self.at_target[at])
            elif not is_live:
                self.stack = []
            code = self.code[at]
            is_live = code not in (167, 170, 171, 191, 200) and not 172 <= code <= 177
            size = self._size(at)
            self._step(code, at)
            at += size
        return Text(tuple(dict.fromkeys(self.texts))) if self.texts else None

    def _joined(self, at: int) -> list[Value]:
        """The stack where two branches meet: each text may be that of either."""
        other = self.at_target[at]
        if len(other) != len(self.stack):
            return list(other)
        return [
            Text(tuple(dict.fromkeys((*one.texts, *two.texts))))
            if isinstance(one, Text) and isinstance(two, Text)
            else one
            for one, two in zip(self.stack, other, strict=True)
        ]

    def _size(self, at: int) -> int:
        code = self.code[at]
        start = at + 4 - at % 4
        if code == 170:
            low, high = struct.unpack_from(">ii", self.code, start + 4)
            return start + 12 + 4 * (high - low + 1) - at
        if code == 171:
            return start + 8 + 8 * struct.unpack_from(">i", self.code, start + 4)[0] - at
        if code == 196:
            return 6 if self.code[at + 1] == 132 else 4
        return 1 + _OPERANDS.get(code, 0)

    def _short(self, at: int) -> int:
        return int(struct.unpack_from(">H", self.code, at + 1)[0])

    def _pop(self) -> Value:
        return self.stack.pop() if self.stack else None

    def _pop_many(self, count: int) -> list[Value]:
        return [self._pop() for _ in range(count)][::-1]

    def _step(self, code: int, at: int) -> None:
        if code in _EFFECTS:
            pops, pushed = _EFFECTS[code]
            self._pop_many(pops)
            self.stack += [Wide if pushed == "w" else None] * bool(pushed)
        elif code == 25 or 42 <= code <= 45:
            self.stack.append(self.locals.get(self.code[at + 1] if code == 25 else code - 42))
        elif code == 58 or 75 <= code <= 78:
            self.locals[self.code[at + 1] if code == 58 else code - 75] = self._pop()
        elif code in (18, 19):
            constant = self.file.constants[self.code[at + 1] if code == 18 else self._short(at)]
            is_text = isinstance(constant, tuple) and constant[-1] == 8 and len(constant) == 2
            self.stack.append(Text((str(self.file.constants[constant[0]]),)) if is_text else None)
        elif 88 <= code <= 95:
            self._duplicate(code)
        elif 153 <= code <= 171 or code in (198, 199, 200):
            self._branch(code, at)
        elif 172 <= code <= 177 or code == 191:
            self._return(code)
        elif 178 <= code <= 181:
            descriptor = self.file.member(self._short(at))[2]
            self._pop_many({178: 0, 179: 1, 180: 1, 181: 2}[code])
            self.stack += [Wide if descriptor in "JD" else None] * (code in (178, 180))
        elif 182 <= code <= 186:
            self._call(code, at)
        elif code == 187:
            name = str(self.file.constants[self.file.constants[self._short(at)][0]])
            self.stack.append(Builder() if name.endswith("/StringBuilder") else None)
        elif code == 197:
            self._pop_many(self.code[at + 3])
            self.stack.append(None)
        elif code == 196:
            self._wide(self.code[at + 1])

    def _wide(self, code: int) -> None:
        if 21 <= code <= 25:
            self.stack.append(Wide if code in (22, 24) else None)
        elif 54 <= code <= 58:
            self._pop()

    def _duplicate(self, code: int) -> None:
        top = self._pop()
        if code == 88:
            if top is not Wide:
                self._pop()
        elif code == 95:
            self.stack[-1:] = [top, *self.stack[-1:]]
        else:
            size = 1 if code < 92 or top is Wide else 2
            taken = [top] if size == 1 else [self._pop(), top]
            below = (code - 89) % 3
            under: list[Value] = []
            while below > 0 and self.stack:
                under.insert(0, self._pop())
                below -= 2 if under[0] is Wide else 1
            self.stack += [*taken, *under, *taken]

    def _branch(self, code: int, at: int) -> None:
        self._pop_many(2 if 159 <= code <= 166 else 0 if code in (167, 168, 169, 200) else 1)
        if code in (170, 171):
            start = at + 4 - at % 4
            step, first = (4, start + 12) if code == 170 else (8, start + 12)
            jumps = [struct.unpack_from(">i", self.code, start)[0]]
            jumps += [struct.unpack_from(">i", self.code, i)[0] for i in range(first, at + self._size(at), step)]
        elif code == 200:
            jumps = [struct.unpack_from(">i", self.code, at + 1)[0]]
        else:
            jumps = [struct.unpack_from(">h", self.code, at + 1)[0]] if code < 169 or code > 171 else []
        for jump in jumps:
            if jump > 0:
                self.at_target.setdefault(at + jump, list(self.stack))
                if jump + at in self.at_target and len(self.at_target[at + jump]) == len(self.stack):
                    self.at_target[at + jump] = self._joined(at + jump)

    def _return(self, code: int) -> None:
        value = self._pop() if code != 177 else None
        if code == 176:
            value = self.release.returned(value.method) if isinstance(value, Lambda) else value
            value = Text((value.text,)) if isinstance(value, Builder) else value
            self.texts += value.texts if isinstance(value, Text) else ()

    def _call(self, code: int, at: int) -> None:
        number = self._short(at)
        if code == 186:
            bootstrap, described = self.file.constants[number]
            name, descriptor = (str(self.file.constants[each]) for each in self.file.constants[described])
            owner = ""
        else:
            bootstrap, (owner, name, descriptor) = 0, self.file.member(number)
        values = self._pop_many(len(_arguments(descriptor)))
        this = self._pop() if code not in (184, 186) else None
        result: Value
        if code == 186:
            result = self._concatenated(bootstrap, values) if name.startswith("makeConcat") else self._lambda(bootstrap)
        else:
            result = self._result(owner, name, descriptor, values, this)
            if not self.is_quiet:
                self._emit(owner, name, [value for value in values if isinstance(value, Text | Lambda)])
        returns = descriptor[descriptor.index(")") + 1 :]
        if returns != "V":
            self.stack.append(Wide if returns in "JD" else result)

    def _concatenated(self, bootstrap: int, values: list[Value]) -> Text:
        recipe, *constants = self.file.bootstraps[bootstrap]
        rest, given = iter(constants), iter(values)
        texts = [""]
        for letter in str(self.file.constants[self.file.constants[recipe][0]]):
            if letter == "\1":
                value = next(given, None)
                parts = value.texts if isinstance(value, Text) else ("{}",)
            elif letter == "\2":
                parts = (str(self.file.constants[self.file.constants[next(rest)][0]]),)
            else:
                parts = (letter,)
            texts = [text + part for text in texts for part in parts][:8]
        return Text(tuple(texts))

    def _lambda(self, bootstrap: int) -> Value:
        for argument in self.file.bootstraps[bootstrap]:
            constant = self.file.constants[argument]
            if isinstance(constant, tuple) and len(constant) == 2 and constant[0] in range(5, 10) and constant[1] > 20:
                return Lambda(self.file.member(constant[1]))
        return None

    def _result(self, owner: str, name: str, descriptor: str, values: list[Value], this: Value) -> Value:
        first = values[0] if values else None
        if isinstance(this, Builder):
            if name in ("append", "<init>") and values:
                this.text += first.texts[0] if isinstance(first, Text) else "{}" if name == "append" else ""
            return Text((this.text,)) if name in ("toString", "result") else this
        if name in ("format", "formatted", "format$extension"):
            texts = next((each for each in (this, *values) if isinstance(each, Text)), None)
            return Text(tuple(map(_unformatted, texts.texts))) if texts else None
        if name in ("stripMargin", "stripMargin$extension", "augmentString", "trim", "toString", "wrapRefArray"):
            return next((each for each in (this, first) if isinstance(each, Text)), None)
        if name == "concat" and owner == "java/lang/String":
            parts = [each.texts[0] if isinstance(each, Text) else "{}" for each in (this, first)]
            return Text(("".join(parts),))
        if descriptor.endswith(")Ljava/lang/String;"):
            return self.release.returned((owner, name, descriptor))
        return None

    def _emit(self, owner: str, name: str, texts: list[Text | Lambda]) -> None:
        if not texts:
            return
        level = LEVELS.get(name) or ("ERROR" if name in FAULTS else None)
        if name == "<init>" and owner.endswith(("Exception", "Error", "/Errors")):
            level = THROWN
            texts = [each for each in texts if isinstance(each, Text)][-1:]
        elif name == "require":
            level = THROWN
        if level and texts:
            self.release.add(level, self.file.name, texts[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("release", nargs="+")
    parser.add_argument("--write", action="store_true", help=f"write the list to {LIST.name}")
    options = parser.parse_args()
    found = sorted(set().union(*(Release(jars.class_path("kafka_2.13", each)).messages for each in options.release)))
    text = "".join("\t".join(row) + "\n" for row in found)
    if options.write:
        LIST.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
