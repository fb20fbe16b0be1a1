#!/usr/bin/env python3
"""Tests of scripts/cycles on small crates with and without planted cycles. Run: scripts/test_cycles.py"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CYCLES = pathlib.Path(__file__).resolve().parent / "cycles"


def run(files):
    """The exit code and the output of scripts/cycles for a crate of these files."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, "planted", "src", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        command = [sys.executable, CYCLES, "--root", root, "--crate", "planted", "--all"]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class Cycles(unittest.TestCase):
    def assert_cycle(self, files, *expected):
        code, output = run(files)
        self.assertEqual(code, 1, output)
        for line in expected:
            self.assertIn(line, output)

    def assert_none(self, files):
        code, output = run(files)
        self.assertEqual((code, output), (0, "planted: no cycle\n"))

    def test_two_files_that_import_each_other(self):
        self.assert_cycle(
            {"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::B;\npub struct A;", "b.rs": "\nuse crate::a::A;\npub struct B;"},
            "files: 2 {a.rs, b.rs}",
            "a.rs:1: crate::b::B -> b.rs",
            "b.rs:2: crate::a::A -> a.rs",
        )

    def test_an_arrow_of_one_direction(self):
        self.assert_none({"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::B;", "b.rs": "pub struct B;"})

    def test_re_exports_lead_to_the_definition(self):
        files = {
            "lib.rs": "mod a; mod b;\npub use a::{A, inner as renamed};\npub use b::*;",
            "a.rs": "use super::B;\npub struct A; pub fn inner() {}",
            "b.rs": "pub struct B;\nfn f() { crate::renamed(); }",
        }
        self.assert_cycle(files, "files: 2 {a.rs, b.rs}", "b.rs:2: crate::renamed -> a.rs")

    def test_a_module_file_may_declare_and_re_export_its_children(self):
        root = {"lib.rs": "mod m;", "m/a.rs": "use super::b::B;\npub struct A;", "m/b.rs": "pub struct B;"}
        self.assert_none(root | {"m/mod.rs": "mod a;\nmod b;\npub use a::A;\npub(crate) use b::B;"})

    def test_a_module_file_that_uses_a_child_which_uses_it(self):
        files = {"lib.rs": "mod m;", "m/a.rs": "use super::Shared;\npub fn f() {}"}
        self.assert_cycle(files | {"m/mod.rs": "mod a;\npub struct Shared;\nfn g() { a::f() }"}, "files: 2 {m/a.rs, m/mod.rs}")
        self.assert_cycle(files | {"m/mod.rs": "mod a;\nuse a::f;\npub struct Shared;"}, "files: 2 {m/a.rs, m/mod.rs}")
        self.assert_none(files | {"m/mod.rs": "mod a;\npub use a::f;\npub struct Shared;"})

    def test_folders(self):
        files = {
            "lib.rs": "mod x; mod y;",
            "x/mod.rs": "mod one; pub mod two;",
            "x/one.rs": "use crate::y::three::f;",
            "x/two.rs": "pub fn g() {}",
            "y/mod.rs": "pub mod three; mod four;",
            "y/three.rs": "pub fn f() {}",
            "y/four.rs": "use crate::x::two;\nfn h() { two::g() }",
        }
        self.assert_cycle(files, "in src: 2 {x, y}", "y/four.rs:2: two::g -> x/two.rs")
        self.assertNotIn("files", run(files)[1])

    def test_tests_comments_and_strings_are_left_out(self):
        uses = [
            "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}",
            "#[cfg(test)]\n#[allow(unused)]\nuse crate::b::B;",
            "#[cfg(test)]\nmod tests;",
            "// use crate::b::B;\n/* /* nested */ crate::b::B */",
            'const S: &str = "crate::b::B"; const R: &str = r#"\"crate::b::B"#; const C: char = \'"\';',
        ]
        for use in uses:
            with self.subTest(use):
                files = {"lib.rs": "mod a; mod b;", "b.rs": "use crate::a::A;\npub struct B;", "a/tests.rs": "use crate::b::B;"}
                self.assert_none(files | {"a.rs": f"pub struct A;\n{use}\n"})

    def test_names_of_other_crates_are_no_arrows(self):
        self.assert_none(
            {
                "lib.rs": "mod a; mod b;",
                "a.rs": "use b::{self, B};\nuse std::fmt;\npub struct A;\nfn f() { b::g(); fmt::h() }",
                "b.rs": "use crate::a::A;\npub struct B;",
            }
        )


if __name__ == "__main__":
    unittest.main()
