# Positions of fields in the headers of batches and messages. kseg.formats.record_batch and message_set show the tables.
cdef extern from "native.h" nogil:
    # Constants that C headers need too: native.h explains them.
    enum:
        MAGIC_V2 "KSEG_MAGIC_V2"
        ENTRY_SIZE "KSEG_ENTRY_SIZE"
        ENTRY_MAGIC "KSEG_ENTRY_MAGIC"
        ENTRY_OVERHEAD "KSEG_ENTRY_OVERHEAD"
        V2_HEADER_BYTES "KSEG_V2_HEADER_BYTES"
        V0_HEADER_BYTES "KSEG_V0_HEADER_BYTES"
        SIZES_BYTES "KSEG_SIZES_BYTES"
        V07_SIZE_BYTES "KSEG_V07_SIZE_BYTES"
        V07_MAGIC "KSEG_V07_MAGIC"
        V07_MIN_BYTES "KSEG_V07_MIN_BYTES"

cdef enum:
    # Of an entry since 0.8, and the size of a CRC. In messages, of 0.7 too, a CRC ends where the bytes begin that it
    # covers.
    ENTRY_OFFSET = 0
    CRC_BYTES = 4

    # Of a v2 batch. FLAGS is the low byte of the attributes; the high byte is unused.
    V2_BASE_OFFSET = 0
    V2_LEADER_EPOCH = 12
    V2_CRC = 17
    V2_ATTRIBUTES = 21, V2_FLAGS
    V2_LAST_OFFSET_DELTA = 23
    V2_BASE_TIMESTAMP = 27
    V2_MAX_TIMESTAMP = 35
    V2_PRODUCER_ID = 43
    V2_PRODUCER_EPOCH = 51
    V2_BASE_SEQUENCE = 53
    V2_COUNT = 57

    # Smallest size of a record: its length, attributes, deltas, sizes of key and value, header count.
    MIN_RECORD_BYTES = 7

    # Of a transaction marker. Key: int16 version, int16 type. Value: int16 version, int32 coordinator epoch.
    VERSION_BYTES = 2
    MARKER_KEY_BYTES = 4
    MARKER_VALUE_BYTES = 6

    # Of a v0 or v1 message; v1 also has a timestamp. The size of the key follows the header.
    V1_TIMESTAMP_BYTES = 8
    V1_HEADER_BYTES = 26
    LEGACY_CRC = 12
    LEGACY_FLAGS = 17
    V1_TIMESTAMP = 18

    # Bits of attributes: those of the codec, and others.
    CODEC = 7
    LOG_APPEND_TIME = 8
    TRANSACTIONAL = 16
    CONTROL = 32
    DELETE_HORIZON = 64

    # Number of the bit LOG_APPEND_TIME; codecs, of which higher ones are unknown to this version.
    LOG_APPEND_SHIFT = 3
    GZIP = 1, SNAPPY, LZ4, ZSTD
    HIGHEST_CODEC = 4

    # Timestamp types, in the order of kseg.segment.items.TIMESTAMP_TYPES.
    NO_TIME = 0, CREATE_TIME, APPEND_TIME

cdef enum:
    # Of a message of 0.7: position of the attributes, their bits for the codec.
    V07_ATTRIBUTES = 5
    V07_CODEC = 3

    # Of an index entry. Offset index: int32 relative offset, int32 position. Time index: int64 timestamp, int32
    # relative offset.
    OFFSET_ENTRY_BYTES = 8
    OFFSET_ENTRY_POSITION = 4
    TIME_ENTRY_BYTES = 12
    TIME_ENTRY_OFFSET = 8
