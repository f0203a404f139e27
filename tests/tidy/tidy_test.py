#!/usr/bin/env python3
"""Holds the tree to the rules of rules.py, after showing on small made-up trees that each can fail.

usage: tidy_test.py        needs nothing but Python and git
"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import rules

PROJECT = Path(__file__).resolve().parents[2]


def project_tree():
    """What git tracks, and what it would track: a file counts before it is committed."""
    listing = subprocess.run(
        ["git", "-C", PROJECT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True).stdout
    files = sorted(f for f in set(listing.split("\0")) if f and (PROJECT / f).is_file())
    return rules.Tree(PROJECT, files)


class EveryRuleCanFail(unittest.TestCase):
    def findings(self, rule, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return list(rule(rules.Tree(Path(folder), sorted(files))))

    def check(self, rule, good, bad):
        """`bad` maps a made-up file to its text and to a word of the finding it must cause."""
        self.assertEqual(self.findings(rule, good), [])
        for name, (text, word) in bad.items():
            found = self.findings(rule, {**good, name: text})
            self.assertEqual(len(found), 1, f"{name}: {found}")
            self.assertIn(word, found[0])

    def test_includes_point_down(self):
        self.check(
            rules.includes_point_down,
            {"src/model/a.cc": '#include "model/b.h"\n#include "base/check.h"\n#include <vector>\n',
             "src/base/x_test.cc": '#include "engine/engine.h"\n'},
            {"src/base/b.cc": ('#include "io/file.h"\n', "base (level 0)"),
             "src/gguf/c.h": ('#  include "kernels/table.h"\n', "level 3"),
             "src/model/d.cc": ('#include "engine/engine.h"\n', "level 5")})

    def test_includes_name_their_module(self):
        self.check(
            rules.includes_name_their_module,
            {"src/io/file.h": "", "src/io/file.cc": '#include "io/file.h"\n'},
            {"src/io/other.cc": ('#include "file.h"\n', "no file of src/")})

    def test_modules_are_known(self):
        self.check(rules.modules_are_known, {"src/io/file.h": ""},
                   {"src/util/misc.h": ("", "src/util")})

    def test_root_holds_nothing_else(self):
        self.check(rules.root_holds_nothing_else, {"README.md": "", "src/io/a.h": ""},
                   {"REPORT.md": ("", "REPORT.md"), "scripts/a.sh": ("", "scripts")})

    def test_names_say_what(self):
        self.check(rules.names_say_what, {"src/io/folder.h": "", "docs/breakfast.md": ""},
                   {"src/io/file_fast.cc": ("", '"fast"'), "src/io/file_v2.h": ("", '"v2"'),
                    "src/simple/a.h": ("", '"simple"')})

    def test_sources_are_in_a_target(self):
        self.check(
            rules.sources_are_in_a_target,
            {"src/io/CMakeLists.txt": "thaw_module(io SOURCES file.cc deep/reader.cc)\n",
             "src/io/file.cc": "", "src/io/deep/reader.cc": ""},
            {"src/io/le.cc": ("", "in no target"), "src/io/my_file.cc": ("", "in no target"),
             "src/io/reader.cc": ("", "in no target")})

    def test_borders_are_kept(self):
        self.check(
            rules.borders_are_kept,
            {"src/kernels/x86/a.cc": "#include <immintrin.h>\n",
             "src/chat/a.cc": "#include <nlohmann/json.hpp>\n",
             "src/engine/a.cc": '#include "model/model.h"\n',
             "src/io/a.cc": "#include <fcntl.h>\n#include <vector>\n"},
            {"src/cli/b.cc": ('#include "model/model.h"\n', "through engine"),
             "src/kernels/b.cc": ("#include <immintrin.h>\n", "intrinsics"),
             "src/gguf/b.cc": ("#include <nlohmann/json.hpp>\n", "JSON"),
             "src/engine/b.cc": ("#include <httplib.h>\n", "HTTP"),
             "src/model/b.cc": ("#include <sys/mman.h>\n", "operating system")})

    def test_headers_begin_well(self):
        self.check(
            rules.headers_begin_well, {"src/io/a.h": "// What it is.\n#pragma once\n"},
            {"src/io/b.h": ("#pragma once\n", "0 lines"),
             "src/io/c.h": ("// What it is.\n\n#ifndef C_H\n", "#pragma once")})

    def test_files_are_short(self):
        self.check(rules.files_are_short, {"src/io/a.cc": "\n" * rules.MAX_LINES},
                   {"src/io/b.cc": ("\n" * (rules.MAX_LINES + 1), "1001 lines")})

    def test_environment_is_read_at_the_edge(self):
        self.check(rules.environment_is_read_at_the_edge,
                   {"src/cli/a.cc": 'getenv("HOME");', "src/io/a_test.cc": 'std::getenv("X");'},
                   {"src/io/b.cc": ('std::getenv("X");', "environment")})

    def test_libraries_do_not_print(self):
        self.check(rules.libraries_do_not_print,
                   {"src/cli/a.cc": "std::cout << 1;", "src/io/a.cc": "// never printf(x)\n",
                    "src/io/c.cc": 'Fail("exit (1)"); snprintf(b, 1, "");'},
                   {"src/io/b.cc": ("std::cerr << 1;", "prints"),
                    "src/io/d.cc": ('printf("x");', "prints"),
                    "src/io/e.cc": ("std::exit(1);", "prints")})

    def test_own_code_does_not_throw(self):
        self.check(rules.own_code_does_not_throw,
                   {"src/io/a.cc": "// does not throw\nconst char* s = \"throw\";"},
                   {"src/io/b.cc": ("throw 1;", "throws")})

    def test_flags_are_portable(self):
        self.check(rules.flags_are_portable, {"src/io/CMakeLists.txt": "-mavx2"},
                   {"src/gguf/CMakeLists.txt": ("-march=native", "-march=native"),
                    "cmake/a.cmake": ("-ffast-math", "-ffast-math")})

    def test_tests_use_the_framework(self):
        self.check(rules.tests_use_the_framework,
                   {"src/io/a_test.cc": "static_assert(true); // assert(x)\nEXPECT_TRUE(a);"},
                   {"src/io/b_test.cc": ("assert(a);", "bare assert")})

    def test_goldens_are_small(self):
        self.check(rules.goldens_are_small, {"tests/golden/a.bin": "x" * 100},
                   {"tests/golden/b.bin": ("x" * (8 << 20), "limit")})

    def test_every_rule_is_tested_here(self):
        tested = {name.removeprefix("test_") for name in dir(self) if name.startswith("test_")}
        self.assertEqual({rule.__name__ for rule in rules.ALL} - tested, set())


class TheTree(unittest.TestCase):
    def test_keeps_every_rule(self):
        tree = project_tree()
        self.assertTrue(tree.sources(".cc"), "git lists no sources")
        findings = [f"{rule.__name__}: {finding}" for rule in rules.ALL for finding in rule(tree)]
        if findings:
            self.fail("\n" + "\n".join(findings))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
