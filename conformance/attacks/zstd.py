"""Zstandard frames written by hand: runs of one byte at 4 bytes of frame for 128 KiB, and windows of any size."""

BLOCK = 128 << 10
MAGIC = b"\x28\xb5\x2f\xfd"


def frame(pieces, window_log=17):
    """A frame of `pieces`: bytes as they are, or (byte, count) for a run."""
    # No checksum, no content size, a window of 2^window_log.
    head = MAGIC + b"\x00" + bytes([(window_log - 10) << 3])
    blocks = []
    for piece in pieces:
        if isinstance(piece, tuple):
            byte, count = piece
            while count > 0:
                size = min(count, BLOCK)
                blocks.append((1, size, byte))
                count -= size
        else:
            blocks.extend((0, len(part), part) for part in (piece[at : at + BLOCK] for at in range(0, len(piece), BLOCK)))
    blocks.append((0, 0, b""))
    out = [head]
    for n, (kind, size, content) in enumerate(blocks):
        last = n + 1 == len(blocks)
        out.append((size << 3 | kind << 1 | last).to_bytes(3, "little") + content)
    return b"".join(out)
