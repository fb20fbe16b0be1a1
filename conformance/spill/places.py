"""Where queries spill to, and what lies there."""

import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from conformance.harness.server import Server

# Folders of processes, and keys of their queries: crates/spill/src/files/folder.rs and manifest.rs document them.
NODE = re.compile(r"\.?([0-9a-f]{32})")
KEY = re.compile(r"([0-9a-f]{32})_[0-9a-f]{32}(\.meta|/\d+)")
BUCKET, PREFIX = "scratch", "spill/here"
NAME = "0123456789abcdef0123456789abcdef"
# Objects that must not be deleted: below the prefix but of another form, or of this form below another prefix.
FOREIGN_KEYS = [
    f"{PREFIX}/other.txt", f"{PREFIX}/folder/0", f"{PREFIX}/{NAME}_{NAME}.meta.bak", f"{PREFIX}/{NAME}_{NAME}/note.txt",
    f"{PREFIX}/{NAME}/0", f"{PREFIX}/{NAME}_{NAME[1:]}/0", f"spill/{NAME}_{NAME}/0", f"{PREFIX}er/{NAME}_{NAME}.meta", f"{PREFIX}er/{NAME}_{NAME}/0",
]
FOREIGN_FILES = ["other.txt", "pushdowndb-spill/other.txt", f"pushdowndb-spill/{NAME[1:]}/lock", f"pushdowndb-spill/x{NAME}/0"]
BODY = b"not of a query"


@dataclass
class Left:
    """Bytes of files and objects by path and key; `unnamed` are folders without a name yet."""

    files: dict = field(default_factory=dict)
    folders: set = field(default_factory=set)
    unnamed: set = field(default_factory=set)
    objects: dict = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.files or self.folders or self.objects)

    def text(self) -> str:
        names = [*sorted(self.folders), *self.files, *self.objects]
        return f"{len(self.folders)} folders, {len(self.files)} files and {len(self.objects)} objects: {' '.join(map(str, names[:5]))}"

    def parts(self) -> tuple[int, int]:
        """The number and the bytes of the parts, which VACUUM reports."""
        files = [size for path, size in self.files.items() if path.name != "lock" and not path.name.endswith(".meta")]
        objects = [size for key, size in self.objects.items() if not key.endswith(".meta")]
        return len(files) + len(objects), sum(files) + sum(objects)


class Place:
    """A local folder and, beside `disk`, a bucket. `kind` is `disk`, `node` or `split`: of the last, the disk takes a
    little and the bucket the rest."""

    def __init__(self, kind: str, folder: Path, server: Server | None):
        self.kind, self.folder, self.server = kind, folder, server
        self.root = folder / "pushdowndb-spill"

    @property
    def has_bucket(self) -> bool:
        return self.kind != "disk"

    def settings(self) -> list[str]:
        settings = [f"pushdown.spill_disk={self.folder}"]
        if self.has_bucket:
            settings += [f"pushdown.spill_location=s3://{BUCKET}/{PREFIX}", f"pushdown.spill_disk_bytes={'0' if self.kind == 'node' else '1MB'}"]
        return settings

    def left(self, living=frozenset()) -> Left:
        """What lies there but foreign things and those of the processes named `living`."""
        left = Left()
        for folder in self.root.iterdir() if self.root.exists() else []:
            named = NODE.fullmatch(folder.name)
            if not named or named[1] in living:
                continue
            if folder.name.startswith("."):
                left.unnamed.add(folder)
                continue
            left.folders.add(folder)
            left.files |= sizes(folder)
        left.objects = {key: size for key, size in self.objects().items() if self.node_of(key) not in living and key not in FOREIGN_KEYS}
        return left

    def of(self, nodes: set) -> set:
        """Files and keys of the processes `nodes`."""
        files = [path for node in nodes for path in sizes(self.root / node)]
        return {*files, *(key for key in self.objects() if self.node_of(key) in nodes)}

    def node_of(self, key: str) -> str:
        """The process that wrote an object, or nothing."""
        found = KEY.fullmatch(key.removeprefix(f"{PREFIX}/"))
        return found[1] if found else ""

    def objects(self) -> dict[str, int]:
        """Bytes of everything below the prefix, and of its neighbors."""
        if not self.has_bucket:
            return {}
        pages = self.server.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="spill")
        return {entry["Key"]: entry["Size"] for page in pages for entry in page.get("Contents", [])}

    def rest(self) -> None:
        """Waits until the objects are the same at two times: uploads of a client that was killed are done."""
        before = None
        while before != (now := self.objects()):
            before = now
            time.sleep(0.03)

    def put_foreign(self) -> None:
        for name in FOREIGN_FILES:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_bytes(BODY)
        if self.has_bucket:
            for key in FOREIGN_KEYS:
                self.server.s3.put_object(Bucket=BUCKET, Key=key, Body=BODY)

    def lost_foreign(self) -> list[str]:
        """What was put there by others and is missing or changed."""
        lost = [name for name in FOREIGN_FILES if not (self.folder / name).exists() or (self.folder / name).read_bytes() != BODY]
        if self.has_bucket:
            objects = self.objects()
            lost += [key for key in FOREIGN_KEYS if objects.get(key) != len(BODY)]
        return lost

    def remove(self, left: Left) -> None:
        """Removes what should not be there, so that one fault is not told again and again."""
        for folder in left.folders:
            shutil.rmtree(folder, ignore_errors=True)
        for key in left.objects:
            self.server.s3.delete_object(Bucket=BUCKET, Key=key)


def sizes(folder: Path) -> dict[Path, int]:
    """Bytes of the files in a folder, which may vanish meanwhile."""
    found = {}
    try:
        for path in folder.iterdir():
            found[path] = path.stat().st_size
    except FileNotFoundError:
        pass
    return found
