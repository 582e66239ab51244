"""Writes copies of logs without anybody's data: payloads and names are replaced, all else stays."""
