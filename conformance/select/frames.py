"""The event stream as bytes: messages, checksums, headers, taken apart by hand."""

import struct
import zlib
from dataclasses import dataclass


@dataclass
class Message:
    """One message of the stream."""

    headers: dict
    payload: bytes

    @property
    def kind(self) -> str:
        """The event's name, or `error`."""
        if self.headers.get(":message-type") == "error":
            return "error"
        return self.headers.get(":event-type", "?")


def messages(stream: bytes) -> list[Message]:
    """Every message; fails on whatever is not as AWS describes it."""
    found = []
    at = 0
    while at < len(stream):
        assert len(stream) - at >= 16, f"{len(stream) - at} bytes left over at {at}"
        total, headers_size, prelude_crc = struct.unpack_from(">III", stream, at)
        assert zlib.crc32(stream[at : at + 8]) == prelude_crc, f"wrong checksum of the prelude at {at}"
        assert 16 + headers_size <= total <= len(stream) - at, f"message of {total} bytes at {at} of {len(stream)}"
        (crc,) = struct.unpack_from(">I", stream, at + total - 4)
        assert zlib.crc32(stream[at : at + total - 4]) == crc, f"wrong checksum of the message at {at}"
        headers = header_fields(stream[at + 12 : at + 12 + headers_size])
        found.append(Message(headers, stream[at + 12 + headers_size : at + total - 4]))
        at += total
    return found


def header_fields(block: bytes) -> dict:
    """Names and values; S3 Select's values are texts, type 7."""
    fields = {}
    at = 0
    while at < len(block):
        size = block[at]
        name = block[at + 1 : at + 1 + size].decode()
        at += 1 + size
        kind, length = struct.unpack_from(">BH", block, at)
        assert kind == 7, f"header {name} is of type {kind}"
        fields[name] = block[at + 3 : at + 3 + length].decode()
        at += 3 + length
    return fields
