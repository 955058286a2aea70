"""The two style checks must be able to fail: each rule is broken once, and its complaint is expected.

Run with: python3 -m unittest discover -s tests/layers
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def load(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LAYERS = load("check-layers")


def package(name, *dependencies):
    return {"name": name, "dependencies": [{"name": used, "kind": kind} for used, kind in dependencies]}


class Layers(unittest.TestCase):
    def violations(self, *packages):
        return list(LAYERS.violations({"packages": packages}))

    def test_allowed_edges_pass(self):
        self.assertEqual(self.violations(package("forebay-wire", ("forebay-model", None), ("serde", None))), [])

    def test_an_edge_against_the_direction_is_named(self):
        found = self.violations(package("forebay-server", ("forebay-cli", None)))
        self.assertEqual(len(found), 1)
        self.assertIn("server -> cli: not allowed", found[0])

    def test_a_build_dependency_counts(self):
        self.assertEqual(len(self.violations(package("forebay-model", ("forebay-wire", "build")))), 1)

    def test_a_dev_dependency_does_not_count(self):
        self.assertEqual(self.violations(package("forebay-model", ("forebay-testkit", "dev"))), [])

    def test_a_pure_crate_reaches_nothing_of_the_system(self):
        found = self.violations(package("forebay-model", ("libc", None)))
        self.assertIn("model is pure", found[0])

    def test_a_new_crate_needs_a_place(self):
        self.assertIn("unknown crate", self.violations(package("forebay-novelty"))[0])

    def test_the_program_reports_by_its_exit_status(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"packages": [package("forebay-model", ("libc", None))]}, file)
            file.flush()
            command = [sys.executable, ROOT / "scripts/check-layers.py", "--metadata", file.name]
            self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 1)


class Tidy(unittest.TestCase):
    def run_on(self, files):
        """Runs tidy on a tree with one good module and these files; the exit status and the complaints."""
        with tempfile.TemporaryDirectory() as directory:
            for name, text in {"crates/a/src/good.rs": "//! Good.\n", **files}.items():
                path = Path(directory, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            command = [sys.executable, ROOT / "scripts/tidy.py", directory]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return done.returncode, done.stderr

    def assert_complains(self, files, expected):
        status, complaints = self.run_on(files)
        self.assertEqual(status, 1, complaints)
        self.assertIn(expected, complaints)

    def test_a_clean_tree_passes(self):
        self.assertEqual(self.run_on({"README.md": "# A\n\n```\ntable \n```\n"}), (0, ""))

    def test_a_module_without_opening(self):
        self.assert_complains({"crates/a/src/bare.rs": "fn f() {}\n"}, "bare.rs:1: a module opens with")

    def test_unit_tests_in_files_of_their_own_need_no_opening(self):
        self.assertEqual(self.run_on({"crates/a/src/good/tests.rs": "use super::*;\n"}), (0, ""))

    def test_a_file_that_is_too_long(self):
        self.assert_complains({"crates/a/src/long.rs": "//! L.\n" + "//\n" * 900}, "901 lines, at most 900")

    def test_a_name_that_says_nothing(self):
        self.assert_complains({"crates/a/src/utils.rs": "//! U.\n"}, "'utils' says nothing")
        self.assert_complains({"crates/a/src/helpers/x.rs": "//! U.\n"}, "'helpers' says nothing")

    def test_trailing_blanks(self):
        self.assert_complains({"a.py": "x = 1 \n"}, "a.py:1: trailing blanks")

    def test_a_reminder(self):
        self.assert_complains({"crates/a/src/b.rs": "//! B.\n// TO" "DO later\n"}, "b.rs:2: a reminder")

    def test_an_empty_tree_is_not_clean(self):
        with tempfile.TemporaryDirectory() as directory:
            command = [sys.executable, ROOT / "scripts/tidy.py", directory]
            self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 2)


if __name__ == "__main__":
    unittest.main()
