"""Renders Kafka's generated messages (KIP-482) as JSON, with the result of `kseg.formats.schema`, from a program.

The second decoder of such messages: `dump --offsets-decoder` takes a 25th of the time that the first one takes.

Only plain messages are rendered. Others are UNREADABLE, and the caller uses `kseg.formats.schema`: malformed messages,
text that is not UTF-8, tags that the schema does not know.

`kseg.formats.program` makes programs from the tables of fields. A program is ``code`` (int64) and ``names``, the bytes
of its texts, followed by PADDING bytes. ``code`` has, at any index, a struct in one version:

    COUNT    number of fields                  MIXED    whether a tagged field comes before one without a tag
    KNOWN    a bit for each known tag
    then FIELD_WIDTH columns for each field, in the order of the output:
    KIND     one of the constants              FLAGS    IS_ARRAY, IS_NULLABLE, IS_DEFAULT_NULL (of a tagged field)
    NAME     index of ``,"name":`` in names    NAME_SIZE
    TAG      number of the tag, -1: no tag     DEFAULT  of a tagged number
    STRUCT   index of a NESTED struct or of    WEIGHT   items that an element of an array counts as, for MAX_ITEMS
             the names of an I8

The default of a tagged struct is its JSON text: WEIGHT bytes at DEFAULT.

Names of numbers are their count, then position and size in ``names`` for 0, 1, ...; texts print them in quotes.

SWITCH is a str that decides how the PROTOCOL fields after it are rendered: they are decoded if it is equal to the text
at STRUCT, of DEFAULT bytes. PROTOCOL fields are bytes written by clients: an int16 version, then a message that is not
flexible. At their STRUCT, ``code`` has the number of versions, followed by the index of the struct of each.
"""

import cython
from cython import Py_ssize_t, bint, longlong, pointer
from cython.cimports.kseg.kernel.native import escape
from cython.cimports.kseg.kernel.native.escape import put, put_base64, put_int, put_json, put_number

if not cython.compiled:  # kseg._build declares these constants for C
    COUNT, MIXED, KNOWN, STRUCT_HEAD = range(4)
    KIND, FLAGS, NAME, NAME_SIZE, TAG, DEFAULT, STRUCT, WEIGHT, FIELD_WIDTH = range(9)
    I8, I16, U16, I32, I64, BOOL, UUID, STR, BYTES, NESTED, SWITCH, PROTOCOL = range(1, 13)
    IS_ARRAY = 1
    IS_NULLABLE = 2
    IS_DEFAULT_NULL = 4
    TAGS = 16
    PADDING = 32

    # Indexes of the head of a program's code: the framing, the numbers of record types and versions, then tables with
    # the index of the description of each message, or 0: of a key for each type, of a value for each type and version.
    FRAMING, TYPES, VERSIONS, TABLES = range(4)

    # Values of FRAMING.
    COORDINATOR = 1
    FRAMED = 2

    # Columns of the description of a message: the text before its fields, its struct, whether it is flexible.
    MESSAGE_LEAD, MESSAGE_LEAD_SIZE, MESSAGE_STRUCT, MESSAGE_FLEXIBLE = range(4)

    # Types of control records that end a transaction.
    ABORT = 0
    COMMIT = 1

    Job = cython.struct()

escape.shuffle_setup()


MAX_ITEMS = cython.declare(longlong, 1 << 16)
LARGEST_SHORT = cython.declare(longlong, 0x7FFF)


def put_name(job: pointer[Job], o: Py_ssize_t, position: longlong, size: longlong) -> Py_ssize_t:
    """Writes a text of the program."""
    if size <= PADDING:
        put_bytes(job.out, o, job.names, position, PADDING)  # one size for nearly all: no call, no loop
        return o + size
    return put_bytes(job.out, o, job.names, position, size)


def uvarint(job: pointer[Job]) -> longlong:
    """Reads an unsigned varint; returns -1 if it is malformed or larger than the largest int."""
    value: longlong = 0
    shift: cython.int = 0
    byte: longlong
    while job.at < job.end and shift < 35:
        byte = job.p[job.at]
        job.at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value if value <= INT32_MAX else -1
        shift += 7
    return -1


def read_length(job: pointer[Job], is_text: bint) -> longlong:
    """Reads the length of a str, or else of bytes or an array. -1: null; UNREADABLE: malformed or too long."""
    width: Py_ssize_t = 2 if is_text else 4
    if job.is_flexible:
        found = uvarint(job) - 1
        if found < -1 or (is_text and found > LARGEST_SHORT):
            return UNREADABLE
    else:
        if job.end - job.at < width:
            return UNREADABLE
        found = be16(job.p, job.at) if is_text else be32(job.p, job.at)
        job.at += width
    if found > job.end - job.at:
        return UNREADABLE
    return found if found >= 0 else -1


def read_number(job: pointer[Job], kind: longlong) -> longlong:
    """Reads a number of a kind before UUID; the caller has checked that its bytes remain."""
    at: Py_ssize_t = job.at
    job.at = at + width_of(kind)
    if kind == I64:
        return be64(job.p, at)
    if kind == I32:
        return be32(job.p, at)
    if kind == I16 or kind == U16:
        return be16(job.p, at) if kind == I16 else be16(job.p, at) & 0xFFFF
    if kind == BOOL:
        return job.p[at] != 0
    return job.p[at] - 256 if job.p[at] >= 128 else job.p[at]


def width_of(kind: longlong) -> Py_ssize_t:
    """Returns the size of a number or UUID in bytes."""
    if kind == I64:
        return 8
    if kind == I32:
        return 4
    if kind == UUID:
        return 16
    return 2 if kind == I16 or kind == U16 else 1


def put_string(job: pointer[Job], size: Py_ssize_t, o: Py_ssize_t) -> Py_ssize_t:
    """Writes the next ``size`` bytes as a JSON string; UNREADABLE if Java or Jackson write them differently."""
    at: Py_ssize_t = job.at
    after = put_json(job.out, o, job.limit, job.p, at, size)
    if after < 0:
        return OUTPUT_FULL if after == OUTPUT_FULL else UNREADABLE
    if job.as_jackson and after - o != size + 2:
        for k in range(at, at + size):
            if job.p[k] < 32 and not 8 <= job.p[k] <= 10 and job.p[k] != 12 and job.p[k] != 13:
                return UNREADABLE
    job.at = at + size
    return after


def put_binary(job: pointer[Job], size: Py_ssize_t, o: Py_ssize_t) -> Py_ssize_t:
    """Writes the next ``size`` bytes as a base64 string."""
    at: Py_ssize_t = job.at
    job.at = at + size
    o = put(job.out, o, b'"')
    o = put_base64(job.out, o, job.limit, job.p, at, size)
    if o < 0:
        return OUTPUT_FULL
    return put(job.out, o, b'"')


def put_uuid(job: pointer[Job], o: Py_ssize_t) -> Py_ssize_t:
    """Writes 16 bytes as org.apache.kafka.common.Uuid prints them: base64url, 22 characters."""
    o = put_binary(job, 16, o) - 3
    if o < 0:
        return OUTPUT_FULL
    for k in range(o - 22, o):
        if job.out[k] == 43:  # +
            job.out[k] = 45  # -
        elif job.out[k] == 47:  # /
            job.out[k] = 95  # _
    return put(job.out, o, b'"')


def put_protocol(job: pointer[Job], versions: Py_ssize_t, size: Py_ssize_t, o: Py_ssize_t) -> Py_ssize_t:
    """Writes the message in the next ``size`` bytes, at least 2; bytes may remain after it."""
    end: Py_ssize_t = job.end
    behind: Py_ssize_t = job.at + size
    is_flexible: bint = job.is_flexible
    version: longlong = be16(job.p, job.at)
    if version < 0 or version >= job.code[versions]:
        return UNREADABLE
    job.at += 2
    job.end = behind
    job.is_flexible = False
    o = put_struct(job, job.code[versions + 1 + version], o)
    job.at = behind
    job.end = end
    job.is_flexible = is_flexible
    return o


def put_sized(job: pointer[Job], field: Py_ssize_t, may_be_null: bint, o: Py_ssize_t) -> Py_ssize_t:
    """Writes a str or bytes, or the message in them."""
    kind: longlong = job.code[field + KIND]
    is_text: bint = kind == STR or kind == SWITCH
    size: longlong = read_length(job, is_text)
    place: longlong = job.code[field + STRUCT]
    if size < 0:
        return put(job.out, o, b"null") if size == -1 and may_be_null else UNREADABLE
    if kind == PROTOCOL and job.is_switched and size >= 2:
        return put_protocol(job, place, size, o)
    if not is_text:
        return put_binary(job, size, o)
    if kind == SWITCH:
        job.is_switched = size == job.code[field + DEFAULT]
        for k in range(size if job.is_switched else 0):
            if job.names[place + k] != job.p[job.at + k]:
                job.is_switched = False
    return put_string(job, size, o)


def put_value(job: pointer[Job], field: Py_ssize_t, may_be_null: bint, o: Py_ssize_t) -> Py_ssize_t:
    """Writes a value, or an element of an array."""
    kind: longlong = job.code[field + KIND]
    presence: longlong = 1
    if kind == STR or kind == BYTES or kind > NESTED:
        return put_sized(job, field, may_be_null, o)
    if kind == NESTED:
        if may_be_null:
            if job.code[field + TAG] >= 0:
                presence = uvarint(job)
                if presence < 0:
                    return UNREADABLE
            elif job.at >= job.end:
                return UNREADABLE
            else:
                presence = read_number(job, I8) >= 0
        return put_struct(job, job.code[field + STRUCT], o) if presence else put(job.out, o, b"null")
    if job.end - job.at < width_of(kind):
        return UNREADABLE
    if kind == UUID:
        return put_uuid(job, o)
    if kind == BOOL:
        return put(job.out, o, b"true") if read_number(job, kind) else put(job.out, o, b"false")
    number = read_number(job, kind)
    names = job.code[field + STRUCT]
    if kind != I8 or not job.as_jackson or names == 0:
        return put_int(job.out, o, number)
    # The name of the number in quotes, or the number if it has no name.
    o = put(job.out, o, b'"')
    if 0 <= number < job.code[names]:
        o = put_name(job, o, job.code[names + 1 + 2 * number], job.code[names + 2 + 2 * number])
    else:
        o = put_int(job.out, o, number)
    return put(job.out, o, b'"')


def put_field(job: pointer[Job], field: Py_ssize_t, o: Py_ssize_t) -> Py_ssize_t:
    """Writes a field with its name, after a comma if it is not the first of its struct."""
    flags: longlong = job.code[field + FLAGS]
    is_first: longlong = job.out[o - 1] == 123  # {
    if o > job.limit:
        return OUTPUT_FULL
    o = put_name(job, o, job.code[field + NAME] + is_first, job.code[field + NAME_SIZE] - is_first)
    if not flags & IS_ARRAY:
        return put_value(job, field, flags & IS_NULLABLE, o)
    count = read_length(job, False)
    if count < 0:
        return put(job.out, o, b"null") if count == -1 and flags & IS_NULLABLE else UNREADABLE
    job.items += count * job.code[field + WEIGHT]
    if job.items > MAX_ITEMS:
        return UNREADABLE
    o = put(job.out, o, b"[")
    for k in range(count):
        if o > job.limit:
            return OUTPUT_FULL
        if k:
            o = put(job.out, o, b",")
        o = put_value(job, field, False, o)
        if o < 0:
            return o
    return put(job.out, o, b"]")


def is_default(job: pointer[Job], field: Py_ssize_t) -> bint:
    """Whether the next tagged field has its default value; such fields are not written. Skips it then."""
    kind: longlong = job.code[field + KIND]
    flags: longlong = job.code[field + FLAGS]
    at: Py_ssize_t = job.at
    is_equal: bint
    if flags & IS_ARRAY or kind == STR or kind == BYTES:
        is_equal = uvarint(job) == (0 if flags & IS_DEFAULT_NULL else 1)
    elif kind > UUID:
        is_equal = False  # see put_tagged
    elif job.end - at < width_of(kind):
        is_equal = False
    elif kind == UUID:
        job.at = at + 16
        is_equal = True
        for k in range(at, at + 16):
            is_equal = is_equal and job.p[k] == 0
    else:
        is_equal = read_number(job, kind) == job.code[field + DEFAULT]
    if not is_equal:
        job.at = at
    return is_equal


def is_default_struct(job: pointer[Job], field: Py_ssize_t, start: Py_ssize_t, end: Py_ssize_t) -> bint:
    """Whether a tagged field, written to ``out`` from start to end, is a struct with its default value."""
    default: longlong = job.code[field + DEFAULT]
    if job.code[field + KIND] != NESTED or job.code[field + FLAGS] & IS_ARRAY:
        return False
    if end - start != job.code[field + WEIGHT]:
        return False
    for k in range(end - start):
        if job.out[start + k] != job.names[default + k]:
            return False
    return True


def read_tags(job: pointer[Job], struct: Py_ssize_t, count: longlong, places: OutColumns) -> bint:
    """Sets start and end of the data of each tag, -1 if it is absent. False if tags are unknown or not ascending."""
    last: longlong = -1
    for k in range(2 * TAGS):
        places[k] = -1
    for _ in range(count):
        tag = uvarint(job)
        size = uvarint(job)
        if tag <= last or tag >= TAGS or not job.code[struct + KNOWN] >> tag & 1:
            return False
        if size < 0 or size > job.end - job.at:
            return False
        last = tag
        places[2 * tag] = job.at
        job.at += size
        places[2 * tag + 1] = job.at
    return True


def put_tagged(
    job: pointer[Job], struct: Py_ssize_t, count: longlong, start: Py_ssize_t, begun: Py_ssize_t, o: Py_ssize_t
) -> Py_ssize_t:
    """Adds ``count`` tagged fields to the struct that was read from ``start`` on and written from ``begun`` up to o.

    If tagged fields come before others in the output (MIXED), the whole struct is written again.
    """
    places = cython.declare(longlong[32])
    shown: Py_ssize_t
    field: Py_ssize_t = struct + STRUCT_HEAD
    is_mixed: bint = job.code[struct + MIXED]
    if not read_tags(job, struct, count, places):
        return UNREADABLE
    behind = job.at
    if is_mixed:
        o = begun
    for _ in range(job.code[struct + COUNT]):
        tag = job.code[field + TAG]
        if tag < 0 and is_mixed:
            job.at = start
            o = put_field(job, field, o)
            start = job.at
        elif tag >= 0 and places[2 * tag] >= 0:
            job.at = places[2 * tag]
            if not is_default(job, field):
                shown = o + job.code[field + NAME_SIZE] - (job.out[o - 1] == 123)
                after = put_field(job, field, o)
                o = o if after > o and is_default_struct(job, field, shown, after) else after
            if o >= 0 and job.at != places[2 * tag + 1]:
                return UNREADABLE
        if o < 0:
            return o
        field += FIELD_WIDTH
    job.at = behind
    return o


def put_struct(job: pointer[Job], struct: Py_ssize_t, o: Py_ssize_t) -> Py_ssize_t:
    """Writes the next struct as an object. After OUTPUT_FULL and UNREADABLE the output is undefined."""
    start: Py_ssize_t = job.at
    begun: Py_ssize_t = o + 1
    field: Py_ssize_t = struct + STRUCT_HEAD
    end: Py_ssize_t = field + FIELD_WIDTH * job.code[struct + COUNT]
    if o > job.limit:
        return OUTPUT_FULL
    o = put(job.out, o, b"{")
    while field < end:
        if job.code[field + TAG] < 0:
            o = put_field(job, field, o)
            if o < 0:
                return o
        field += FIELD_WIDTH
    if job.is_flexible:
        tags = uvarint(job)
        if tags < 0:
            return UNREADABLE
        if tags:
            o = put_tagged(job, struct, tags, start, begun, o)
            if o < 0:
                return o
    return put(job.out, o, b"}")


# Prints keys and values of records of internal topics, decoded by a program.
#
#     coordinators    key: int16 record type, the key's message; value: int16 version, the value's message, or none
#     framed          no key; value: uvarint frame version 1, uvarint record type, uvarint version, the message
#
# See `kseg.decoders` for the framings and `kseg.formats.program` for programs. Transaction markers are printed as by
# `kseg.formats.control`, with any program.


def put_message(job: pointer[Job], place: Py_ssize_t, o: Py_ssize_t) -> Py_ssize_t:
    """Prints the message described at a place of the code's tables, from the position of the job."""
    entry: Py_ssize_t = job.code[place]
    if entry == 0:
        return UNREADABLE
    job.items = 0
    job.is_switched = False
    job.is_flexible = job.code[entry + MESSAGE_FLEXIBLE] != 0
    o = put_name(job, o, job.code[entry + MESSAGE_LEAD], job.code[entry + MESSAGE_LEAD_SIZE])
    o = put_struct(job, job.code[entry + MESSAGE_STRUCT], o)
    return put(job.out, o, b"}") if o >= 0 else o


def put_version(job: pointer[Job], record_type: longlong, version: longlong, o: Py_ssize_t) -> Py_ssize_t:
    """Prints the message of a value of a record type in a version."""
    if not 0 <= record_type < job.code[TYPES] or not 0 <= version < job.code[VERSIONS]:
        return UNREADABLE
    return put_message(job, TABLES + job.code[TYPES] + record_type * job.code[VERSIONS] + version, o)


def put_lead(job: pointer[Job], o: Py_ssize_t, is_value: bint, is_bare: bint) -> Py_ssize_t:
    """Prints the name of a key or value; ``is_bare``: it is the first text of its line."""
    if not job.as_jackson:
        return put(job.out, o, b',"value":') if is_value else put(job.out, o, b',"key":')
    if is_bare:
        o = put(job.out, o, b"|")
    return put(job.out, o, b" payload: ") if is_value else put(job.out, o, b" key: ")


def put_marker(job: pointer[Job], rows: Columns, row: Py_ssize_t, is_bare: bint, o: Py_ssize_t) -> Py_ssize_t:
    """Prints a transaction marker; UNREADABLE for other control records."""
    key: Py_ssize_t = rows[row + ROW_KEY]
    value: Py_ssize_t = rows[row + ROW_VALUE]
    if (
        rows[row + ROW_KEY_SIZE] < MARKER_KEY_BYTES
        or rows[row + ROW_VALUE_SIZE] < MARKER_VALUE_BYTES
        or be16(job.p, key) < 0
        or be16(job.p, value) < 0
    ):
        return UNREADABLE
    kind = be16(job.p, key + VERSION_BYTES)
    if kind != ABORT and kind != COMMIT:
        return UNREADABLE
    epoch = be32(job.p, value + VERSION_BYTES)
    if job.as_jackson:
        if is_bare:
            return o
        o = put(job.out, o, b" endTxnMarker: ")
        o = put(job.out, o, b"COMMIT") if kind == COMMIT else put(job.out, o, b"ABORT")
        return put_number(job.out, o, b" coordinatorEpoch: ", epoch)
    o = put(job.out, o, b',"control":{"type":')
    o = put(job.out, o, b'"COMMIT"') if kind == COMMIT else put(job.out, o, b'"ABORT"')
    o = put_number(job.out, o, b',"version":', be16(job.p, value))
    o = put_number(job.out, o, b',"coordinatorEpoch":', epoch)
    return put(job.out, o, b"}")


def put_decoded(job: pointer[Job], rows: Columns, row: Py_ssize_t, is_bare: bint, o: Py_ssize_t) -> Py_ssize_t:
    """Prints key and value of the record whose columns begin at ``row``, or the fields of a transaction marker.

    Returns the position behind it, OUTPUT_FULL or UNREADABLE as in `kseg.kernel.render.schema`.
    """
    if job.is_control:
        return put_marker(job, rows, row, is_bare, o)
    if job.code[FRAMING] != COORDINATOR:
        if rows[row + ROW_VALUE_SIZE] < 0:
            return UNREADABLE
        if not job.as_jackson:
            o = put(job.out, o, b',"key":null')
        job.at = rows[row + ROW_VALUE]
        job.end = job.at + rows[row + ROW_VALUE_SIZE]
        if uvarint(job) != 1:
            return UNREADABLE
        record_type = uvarint(job)
        version = uvarint(job)
        o = put_version(job, record_type, version, put_lead(job, o, True, is_bare))
        return UNREADABLE if o >= 0 and job.at != job.end else o  # no bytes may follow
    if rows[row + ROW_KEY_SIZE] < VERSION_BYTES:
        return UNREADABLE
    record_type = be16(job.p, rows[row + ROW_KEY])
    if record_type < 0 or record_type >= job.code[TYPES]:
        return UNREADABLE
    job.at = rows[row + ROW_KEY] + VERSION_BYTES
    job.end = rows[row + ROW_KEY] + rows[row + ROW_KEY_SIZE]
    o = put_message(job, TABLES + record_type, put_lead(job, o, False, is_bare))
    if o < 0:
        return o
    o = put_lead(job, o, True, False)
    if rows[row + ROW_VALUE_SIZE] < 0:
        return put(job.out, o, b"<DELETE>") if job.as_jackson else put(job.out, o, b"null")
    job.at = rows[row + ROW_VALUE]
    job.end = job.at + rows[row + ROW_VALUE_SIZE]
    if job.end - job.at < VERSION_BYTES:
        return UNREADABLE
    job.at += VERSION_BYTES
    return put_version(job, record_type, be16(job.p, job.at - VERSION_BYTES), o)
