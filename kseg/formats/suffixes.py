"""Suffixes of the files of a partition, as brokers write them.

Source: Kafka's LogFileUtils, UnifiedLog and Snapshots; 0.7: Log.scala.
"""

LOG = ".log"
LOG_07 = ".kafka"
"""A segment of a 0.7 broker."""
CHECKPOINT = ".checkpoint"
"""A snapshot of a KRaft log: batches, as in a segment."""
LOGS = (LOG, LOG_07)
"""Segments of any release."""
LOG_SUFFIXES = (*LOGS, CHECKPOINT)

INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
INDEX_SUFFIXES = (INDEX, TIME_INDEX, TRANSACTION_INDEX)
SEGMENT_SUFFIXES = (LOG, *INDEX_SUFFIXES)
"""The files of one segment, which are made, renamed and deleted together."""
SNAPSHOT = ".snapshot"
"""The state of a partition's producers."""
SIDE_SUFFIXES = (*INDEX_SUFFIXES, SNAPSHOT)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
LEFTOVER_SUFFIXES = (DELETED, CLEANED, SWAP)
"""After another suffix: a file that a broker was about to delete, to write or to put in place."""
