"""Values of Arrow arrays in a form that does not depend on the reader, and whether columns of them are equal."""

import decimal
import math
import re
import struct
import uuid

import pyarrow as pa

decimal.getcontext().prec = 100  # Python rounds to 28 digits else.
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def column(array) -> list:
    """The values of a (chunked) array: numbers, texts, bytes, and tuples for all that has parts."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in column(chunk)]
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return column(array.storage)
    if pa.types.is_dictionary(kind):
        return column(array.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return tagged(array.cast(pa.int64()), "timestamp", NANOS[kind.unit])
    if pa.types.is_duration(kind):
        return tagged(array.cast(pa.int64()), "duration", NANOS[kind.unit])
    if pa.types.is_date32(kind):
        return tagged(array.cast(pa.int32()), "date", 1)
    if pa.types.is_date64(kind):
        return tagged(array.cast(pa.int64()), "date", 1, 86_400_000)
    if pa.types.is_time(kind):
        bits = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        return tagged(array.cast(bits), "time", NANOS[kind.unit])
    if pa.types.is_struct(kind):
        fields = [column(child) for child in array.flatten()]
        names = [field.name for field in kind]
        rows = zip(*fields) if fields else [()] * len(array)
        return [tuple(zip(names, row)) if valid else None for row, valid in zip(rows, array.is_valid().to_pylist())]
    if pa.types.is_map(kind):
        return parts(array, lambda one: tuple(zip(column(one.keys), column(one.items))))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return parts(array, lambda one: tuple(column(one.flatten())))
    if pa.types.is_interval(kind):
        return [None if value is None else tuple(value) for value in array.to_pylist()]
    return array.to_pylist()


def tagged(array, name: str, times: int, over=1) -> list:
    return [None if value is None else (name, value * times // over) for value in array.to_pylist()]


def parts(array, value_of) -> list:
    """One value for each element of an array of lists or maps."""
    return [value_of(array.slice(n, 1)) if valid else None for n, valid in enumerate(array.is_valid().to_pylist())]


def key(value):
    """Equal and hashable for values that are the same; NaN is one value, and -0.0 another than 0.0."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return "-0.0" if value == 0 and math.copysign(1, value) < 0 else value
    if isinstance(value, tuple):
        return tuple(map(key, value))
    if isinstance(value, str) and UUID.fullmatch(value):
        return uuid.UUID(value).bytes
    if isinstance(value, uuid.UUID):
        return value.bytes
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def same(one, other, loose=False) -> bool:
    """Whether two values are equal; `loose` if one of the readers has no empty text beside NULL."""
    if loose and one in (None, "") and other in (None, ""):
        return True
    left, right = key(one), key(other)
    return left == right


def single(value: float) -> float:
    """A number as REAL holds it."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def shown(value) -> str:
    text = repr(value)
    return text if len(text) < 90 else f"{text[:60]}… ({len(text)} characters)"
