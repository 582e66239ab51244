# Positions of fields in the headers of batches and messages. kseg.formats.record_batch and message_set show the tables.
cdef extern from "native.h" nogil:
    # Constants that C headers need too: native.h explains them.
    enum:
        MAGIC_V2 "KSEG_MAGIC_V2"
        HIGHEST_CODEC "KSEG_HIGHEST_CODEC"
        CODEC "KSEG_CODEC"
        ENTRY_OFFSET "KSEG_ENTRY_OFFSET"
        ENTRY_SIZE "KSEG_ENTRY_SIZE"
        ENTRY_MAGIC "KSEG_ENTRY_MAGIC"
        ENTRY_OVERHEAD "KSEG_ENTRY_OVERHEAD"
        CRC_BYTES "KSEG_CRC_BYTES"
        V2_CRC "KSEG_V2_CRC"
        V2_ATTRIBUTES "KSEG_V2_ATTRIBUTES"
        V2_FLAGS "KSEG_V2_FLAGS"
        V2_LAST_OFFSET_DELTA "KSEG_V2_LAST_OFFSET_DELTA"
        V2_PRODUCER_ID "KSEG_V2_PRODUCER_ID"
        V2_BASE_SEQUENCE "KSEG_V2_BASE_SEQUENCE"
        V2_COUNT "KSEG_V2_COUNT"
        V2_HEADER_BYTES "KSEG_V2_HEADER_BYTES"
        V0_HEADER_BYTES "KSEG_V0_HEADER_BYTES"
        V1_TIMESTAMP_BYTES "KSEG_V1_TIMESTAMP_BYTES"
        V1_HEADER_BYTES "KSEG_V1_HEADER_BYTES"
        SIZES_BYTES "KSEG_SIZES_BYTES"
        V07_SIZE_BYTES "KSEG_V07_SIZE_BYTES"
        V07_MAGIC "KSEG_V07_MAGIC"
        V07_MIN_BYTES "KSEG_V07_MIN_BYTES"

cdef enum:
    # Of a v2 batch.
    V2_BASE_OFFSET = 0
    V2_LEADER_EPOCH = 12
    V2_BASE_TIMESTAMP = 27
    V2_MAX_TIMESTAMP = 35
    V2_PRODUCER_EPOCH = 51

    # Smallest size of a record: its length, attributes, deltas, sizes of key and value, header count.
    MIN_RECORD_BYTES = 7

    # Of a transaction marker. Key: int16 version, int16 type. Value: int16 version, int32 coordinator epoch.
    VERSION_BYTES = 2
    MARKER_KEY_BYTES = 4
    MARKER_VALUE_BYTES = 6

    # Of a v0 or v1 message. The size of the key follows the header.
    LEGACY_CRC = 12
    LEGACY_FLAGS = 17
    V1_TIMESTAMP = 18

    # Bits of attributes.
    LOG_APPEND_TIME = 8
    TRANSACTIONAL = 16
    CONTROL = 32
    DELETE_HORIZON = 64

    # Number of the bit LOG_APPEND_TIME; codecs.
    LOG_APPEND_SHIFT = 3
    GZIP = 1, SNAPPY, LZ4, ZSTD

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
