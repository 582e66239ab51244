"""Kafka's Uuid as text: 16 bytes in base64url without padding, 22 characters."""

import binascii
from base64 import urlsafe_b64decode

TEXT_LENGTH = 22
ZERO = "A" * TEXT_LENGTH


def is_uuid(text: str) -> bool:
    """Whether Uuid.fromString accepts the text."""
    if not text.isascii() or not 22 <= len(text) <= 24 or set("+/") & set(text):
        return False
    try:
        return len(urlsafe_b64decode(text.rstrip("=").ljust(24, "="))) == 16
    except binascii.Error:
        return False
