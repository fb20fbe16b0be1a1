"""Bloom filters as `BLOOM_CONTAINS` takes them, built as docs/s3-select.md describes."""

import base64

MASK = (1 << 64) - 1


def fnv(data: bytes) -> int:
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def mix(x: int) -> int:
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def key_bytes(key) -> bytes:
    """Whole numbers as 8 bytes, little endian; text as UTF-8."""
    return key.to_bytes(8, "little", signed=True) if isinstance(key, int) else key.encode()


def bloom(keys, size=64, hashes=4) -> str:
    """A filter of `size` bytes that holds these keys, in base64."""
    bits = bytearray(size)
    for key in keys:
        a = mix(fnv(key_bytes(key)))
        b = mix((a + 0x9E3779B97F4A7C15) & MASK) | 1
        for i in range(hashes):
            bit = ((a + i * b) & MASK) % (size * 8)
            bits[bit // 8] |= 1 << bit % 8
    return base64.b64encode(b"PDBF" + bytes([1, hashes, 0, 0]) + bytes(bits)).decode()
