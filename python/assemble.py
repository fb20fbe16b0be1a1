#!/usr/bin/env python3
"""Makes a wheel of a library that is compiled already, as maturin does after it has compiled one.

    python/assemble.py --library target/release/deps/lib_pushdowndb.so --into dist

For tests, and where DataFusion should not be compiled once more. Everything that a wheel says about
itself is read from pyproject.toml.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import pathlib
import platform
import re
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def value(text: str, name: str) -> str:
    """The value of a line ``name = "value"``."""
    found = re.search(rf'^{name} = "(.*)"$', text, re.MULTILINE)
    if not found:
        raise SystemExit(f"no {name}")
    return found[1]


def section(text: str, name: str) -> str:
    """The lines below ``[name]``."""
    return text.split(f"[{name}]\n", 1)[1].split("\n[", 1)[0]


def metadata(project: str, version: str) -> str:
    """The METADATA of the wheel."""
    about = section(project, "project")
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {value(about, 'name')}",
        f"Version: {version}",
        f"Summary: {value(about, 'description')}",
        f"License-Expression: {value(about, 'license')}",
        "License-File: LICENSE",
        f"Requires-Python: {value(about, 'requires-python')}",
    ]
    for extra, needed in re.findall(r"^(\w+) = \[(.*)\]$", section(project, "project.optional-dependencies"), re.M):
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {one} ; extra == '{extra}'" for one in re.findall(r'"(.*?)"', needed)]
    return "\n".join(lines) + "\n\n" + (HERE / "README.md").read_text()


def entry_points(project: str) -> str:
    """The entry_points.txt of the wheel."""
    groups = {
        "console_scripts": section(project, "project.scripts"),
        "sqlalchemy.dialects": section(project, 'project.entry-points."sqlalchemy.dialects"'),
    }
    made = []
    for group, lines in groups.items():
        made.append(f"[{group}]")
        made += [f"{name} = {target}" for name, target in re.findall(r'^(\w+) = "(.*)"$', lines, re.MULTILINE)]
    return "\n".join(made) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--into", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    project = (HERE / "pyproject.toml").read_text()
    version = value(section((HERE.parent / "Cargo.toml").read_text(), "workspace.package"), "version")
    tag = f"cp310-abi3-linux_{platform.machine()}"
    info = f"pushdowndb-{version}.dist-info"
    files: dict[str, bytes] = {"pushdowndb/_pushdowndb.abi3.so": arguments.library.read_bytes()}
    for path in sorted((HERE / "pushdowndb").iterdir()):
        if path.suffix in (".py", ".pyi") or path.name == "py.typed":
            files[f"pushdowndb/{path.name}"] = path.read_bytes()
    files[f"{info}/licenses/LICENSE"] = (HERE / "LICENSE").read_bytes()
    files[f"{info}/METADATA"] = metadata(project, version).encode()
    files[f"{info}/entry_points.txt"] = entry_points(project).encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: assemble.py\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    arguments.into.mkdir(parents=True, exist_ok=True)
    wheel = arguments.into / f"pushdowndb-{version}-{tag}.whl"
    # Stored: compressing a library of this size takes longer than a test should.
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    print(wheel)


if __name__ == "__main__":
    main()
