"""A table to read: its files, how it is declared to us, and how each reference is asked for it."""

from dataclasses import dataclass, field


@dataclass
class Case:
    """`name` is unique and holds the seed. `readers` are functions from the folder to an Arrow table, by their names."""

    name: str
    kind: str  # CSV, NDJSON or PARQUET
    files: dict[str, bytes]
    readers: dict
    columns: str = ""  # as in CREATE EXTERNAL TABLE; inferred if empty
    options: str = ""
    about: str = ""  # how it was written, for who reads of a fault
    filters: bool = False  # whether rows are filtered by each column; then there is a column `id`
    ordered: bool = False  # whether rows are compared in the order of a column `id`
    loose: set = field(default_factory=set)  # readers that take empty text for NULL
    positional: bool = False  # whether readers may name columns otherwise

    def location(self, base: str) -> str:
        """Its only file, or the folder of them."""
        if len(self.files) == 1:
            return f"{base}/{self.name}/{next(iter(self.files))}"
        return f"{base}/{self.name}/"

    def declaration(self, table: str, base: str) -> str:
        columns = f" ({self.columns})" if self.columns else ""
        options = f" OPTIONS ({self.options})" if self.options else ""
        kind = "NDJSON" if self.kind == "NDJSON" else self.kind
        return f"CREATE EXTERNAL TABLE {table}{columns} STORED AS {kind} LOCATION '{self.location(base)}'{options}"
