"""Parquet files written by hand, whose pages are small on disk and large in memory, and whose footers say what they like."""

from dataclasses import dataclass

from .zstd import frame

INT32, INT64, BYTE_ARRAY = 1, 2, 6
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
UNCOMPRESSED, ZSTD = 0, 6
I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def zigzag(number: int) -> bytes:
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def struct(*fields) -> bytes:
    """A struct of Thrift's compact protocol: (id, type, value) in order of their ids; a list's value is (type, items)."""
    out, last = b"", 0
    for number, kind, value in fields:
        if value is None:
            continue
        out += bytes([(number - last) << 4 | kind]) + encoded(kind, value)
        last = number
    return out + b"\x00"


def encoded(kind, value) -> bytes:
    if kind in (I32, I64):
        return zigzag(value)
    if kind == BINARY:
        value = value.encode() if isinstance(value, str) else value
        return varint(len(value)) + value
    if kind == LIST:
        item, items = value
        head = bytes([len(items) << 4 | item]) if len(items) < 15 else bytes([0xF0 | item]) + varint(len(items))
        return head + b"".join(encoded(item, one) for one in items)
    return value


@dataclass
class Column:
    """A column of one chunk: its pages as they lie in the file, and what is said of it."""

    name: str
    pages: bytes
    values: int
    uncompressed: int
    kind: int = BYTE_ARRAY
    codec: int = ZSTD
    # Where its dictionary page begins; it is the first.
    has_dictionary: bool = False
    encodings: tuple = (PLAIN, RLE)


def data_page(content, uncompressed, values, encoding=PLAIN):
    head = struct((1, I32, 0), (2, I32, uncompressed), (3, I32, len(content)), (5, STRUCT, struct((1, I32, values), (2, I32, encoding), (3, I32, RLE), (4, I32, RLE))))
    return head + content


def dictionary_page(content, uncompressed, values):
    head = struct((1, I32, 2), (2, I32, uncompressed), (3, I32, len(content)), (7, STRUCT, struct((1, I32, values), (2, I32, PLAIN))))
    return head + content


def runs(values, size, byte=b"a", number=False):
    """`values` strings of `size` equal bytes each, plain and compressed, and how long they are plain. `number`: told apart by their first bytes."""
    pieces = []
    for n in range(values):
        first = b"%08d" % n if number else b""
        pieces += [size.to_bytes(4, "little") + first, (byte, size - len(first))]
    return frame(pieces), values * (size + 4)


def plain_column(name, values, size, byte=b"a"):
    content, uncompressed = runs(values, size, byte)
    return Column(name, data_page(content, uncompressed, values), values, uncompressed)


def dictionary_column(name, rows, values, size):
    """`rows` rows, all of which are the first of `values` dictionary entries of `size` bytes."""
    content, uncompressed = runs(values, size, number=True)
    width = max(1, (values - 1).bit_length())
    # One run of the code 0 for all rows.
    codes = bytes([width]) + varint(rows << 1) + bytes((width + 7) // 8)
    packed = frame([codes])
    pages = dictionary_page(content, uncompressed, values) + data_page(packed, len(codes), rows, RLE_DICTIONARY)
    return Column(name, pages, rows, uncompressed + len(codes), has_dictionary=True, encodings=(PLAIN, RLE, RLE_DICTIONARY))


def file(columns, rows, claimed=None):
    """A file of one row group; `claimed` is what the footer says it has in bytes, if not the truth."""
    out, chunks = b"PAR1", []
    for column in columns:
        at = len(out)
        data_at = at
        if column.has_dictionary:
            data_at = at + column.pages.rindex(struct((1, I32, 0))[:-1])
        out += column.pages
        uncompressed = column.uncompressed if claimed is None else claimed
        meta = struct(
            (1, I32, column.kind), (2, LIST, (I32, column.encodings)), (3, LIST, (BINARY, [column.name])), (4, I32, column.codec), (5, I64, column.values),
            (6, I64, uncompressed), (7, I64, len(column.pages)), (9, I64, data_at), (11, I64, at if column.has_dictionary else None),
        )
        chunks.append(struct((2, I64, at), (3, STRUCT, meta)))
    total = sum(column.uncompressed for column in columns) if claimed is None else claimed
    group = struct((1, LIST, (STRUCT, chunks)), (2, I64, total), (3, I64, rows))
    root = struct((4, BINARY, "schema"), (5, I32, len(columns)))
    leaves = [struct((1, I32, column.kind), (3, I32, 0), (4, BINARY, column.name), (6, I32, 0 if column.kind == BYTE_ARRAY else None)) for column in columns]
    footer = struct((1, I32, 1), (2, LIST, (STRUCT, [root, *leaves])), (3, I64, rows), (4, LIST, (STRUCT, [group])), (6, BINARY, "attack"))
    return out + footer + len(footer).to_bytes(4, "little") + b"PAR1"
