# Where fields lie in the headers of batches and messages. kseg.formats.record_batch and message_set show the tables.
cdef enum:
    # Of every entry since 0.8.
    ENTRY_OFFSET = 0
    ENTRY_SIZE = 8
    ENTRY_MAGIC = 16
    # Bytes that the size does not count: the offset's and its own.
    ENTRY_OVERHEAD = 12

    # Of a v2 batch. FLAGS is the low byte of the attributes: all bits that have a meaning.
    V2_BASE_OFFSET = 0
    V2_LEADER_EPOCH = 12
    V2_CRC = 17
    V2_ATTRIBUTES = 21
    V2_FLAGS = 22
    V2_LAST_OFFSET_DELTA = 23
    V2_BASE_TIMESTAMP = 27
    V2_MAX_TIMESTAMP = 35
    V2_PRODUCER_ID = 43
    V2_PRODUCER_EPOCH = 51
    V2_BASE_SEQUENCE = 53
    V2_COUNT = 57
    V2_HEADER_BYTES = 61

    # Of a v0 or v1 message; the key's size is the first field behind its header.
    LEGACY_CRC = 12
    LEGACY_FLAGS = 17
    V1_TIMESTAMP = 18
    V0_HEADER_BYTES = 18
    V1_HEADER_BYTES = 26

    # Attributes.
    CODEC = 7
    LOG_APPEND_TIME = 8
    TRANSACTIONAL = 16
    CONTROL = 32
    DELETE_HORIZON = 64

    # Bit of LOG_APPEND_TIME, and codecs.
    LOG_APPEND_SHIFT = 3
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    # Timestamp types, as kseg.segment.items.TIMESTAMP_TYPES orders them.
    NO_TIME = 0
    CREATE_TIME = 1
    APPEND_TIME = 2

cdef enum:
    # Of a message of 0.7, which begins with its size; one of magic 1 has attributes before its CRC.
    V07_MAGIC = 4
    V07_ATTRIBUTES = 5
    V07_LEAST_BYTES = 9
    V07_CODEC = 3
    CRC_BYTES = 4

    # Of an entry of an offset index: a relative offset and a position; of a time index: a timestamp and that offset.
    OFFSET_ENTRY_BYTES = 8
    OFFSET_ENTRY_POSITION = 4
    TIME_ENTRY_BYTES = 12
    TIME_ENTRY_OFFSET = 8
