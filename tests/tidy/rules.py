"""The rules of the house, each a function from a tree to the list of what breaks it.

A `Tree` is a root folder and the files in it that belong to the project. A finding is one sentence
that begins with the file. The rules read text, not C++: a rule that needs a parser is clang-tidy's.
"""
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

# Arrows point down: a module includes itself and modules of lower levels (ARCHITECTURE.md).
LEVELS = {
    "base": 0,
    "io": 1, "tensor": 1,
    "codec": 2, "tokenizer": 2, "chat": 2, "sampling": 2,
    "gguf": 3, "kernels": 3, "residency": 3,
    "model": 4,
    "engine": 5,
    "server": 6, "cli": 6,
}

# What the root folder may hold; build/, models/ and .venv/ are ignored by git.
ROOT = {
    "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "CMakeLists.txt",
    "CMakePresets.json", ".clang-format", ".clang-tidy", ".gitignore",
    ".ci", "src", "cmake", "web", "tools", "bench", "docs", "tests",
}

# A name says what a thing is, never how good or how recent.
BANNED_NAME_PARTS = {"optimized", "fast", "ultra", "hyper", "enhanced", "new", "old", "simple",
                     "advanced", "improved", "v2", "final"}

MAX_LINES = 1000

# Headers that stay behind a border: pattern of the include, folders that may have it, what to say.
BORDERS = [
    (r"<(immintrin|x86intrin|.mmintrin|amxintrin)\.h>", ("src/kernels/x86/", "src/codec/x86/"),
     "x86 intrinsics belong in kernels/x86/ and codec/x86/"),
    (r"<arm_(neon|sve)\.h>", ("src/kernels/arm/", "src/codec/arm/"),
     "ARM intrinsics belong in kernels/arm/ and codec/arm/"),
    (r"<cuda[^>]*>", ("src/kernels/cuda/", "src/codec/cuda/"), "CUDA belongs in */cuda/"),
    (r"<httplib\.h>", ("src/server/",), "HTTP belongs in server/"),
    (r"<nlohmann/[^>]*>", ("src/server/", "src/cli/", "src/chat/"),
     "JSON belongs in server/, cli/ and chat/"),
    (r"<CLI/[^>]*>", ("src/cli/",), "the command line parser belongs in cli/"),
    (r'"(model|residency)/[^"]*"', ("src/model/", "src/residency/", "src/engine/"),
     "programs reach models through engine/"),
    (r"<(sys/[^>]*|linux/[^>]*|unistd\.h|fcntl\.h|dirent\.h|sched\.h|pthread\.h|liburing\.h)>",
     ("src/base/", "src/io/"), "headers of the operating system belong in base/ and io/"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"][^>"]+[>"])', re.MULTILINE)


@dataclass
class Tree:
    root: Path
    files: list[str] = field(default_factory=list)  # relative, with forward slashes, sorted

    def text(self, file):
        return (self.root / file).read_text(encoding="utf-8")

    def sources(self, *suffixes):
        return [f for f in self.files if f.endswith(suffixes or (".h", ".cc"))]


def is_test(file):
    """Tests, fuzz targets and benchmarks may look at any module."""
    return file.startswith("tests/") or PurePosixPath(file).stem.endswith(
        ("_test", "_fuzz", "_bench")) or "/testing/" in file


def module_of(file):
    parts = file.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def includes_point_down(tree):
    for file in tree.sources():
        module = module_of(file)
        if module is None or is_test(file):
            continue
        for include in INCLUDE.findall(tree.text(file)):
            other = include.strip('"').split("/")[0]
            if not include.startswith('"') or other == module or other not in LEVELS:
                continue
            if LEVELS[other] >= LEVELS[module]:
                yield (f"{file}: {module} (level {LEVELS[module]}) includes {include}, "
                       f"which is level {LEVELS[other]}")


def includes_name_their_module(tree):
    for file in tree.sources():
        if module_of(file) is None:
            continue
        for include in INCLUDE.findall(tree.text(file)):
            if not include.startswith('"'):
                continue
            path = include.strip('"')
            if f"src/{path}" not in tree.files and f"tests/{path}" not in tree.files \
                    and not path.startswith("generated/"):
                yield f"{file}: includes {include}, which is no file of src/"


def modules_are_known(tree):
    for name in sorted({f.split("/")[1] for f in tree.files if f.startswith("src/")}):
        if name not in LEVELS:
            yield f"src/{name}: is no module; modules and their levels stand in tests/tidy/rules.py"


def root_holds_nothing_else(tree):
    for name in sorted({f.split("/")[0] for f in tree.files} - ROOT):
        yield f"{name}: has no place in the root; CONTRIBUTING.md has the layout"


def names_say_what(tree):
    for file in tree.files:
        for part in PurePosixPath(file).parts:
            for word in re.split(r"[^a-z0-9]+", part.lower()):
                if word in BANNED_NAME_PARTS:
                    yield f'{file}: "{word}" in a name says how good or how recent, not what'


def sources_are_in_a_target(tree):
    """Each .cc is named in the CMakeLists.txt of its folder or of one above it."""
    for file in tree.sources(".cc"):
        path = PurePosixPath(file)
        for folder in path.parents:
            lists = str(folder / "CMakeLists.txt")
            if lists in tree.files:
                name = re.escape(str(path.relative_to(folder)))
                if re.search(rf"(?<![\w/]){name}(?!\w)", tree.text(lists)):
                    break
        else:
            if not (tree.root / "cmake/ThawModule.cmake").exists() or \
                    file not in tree.text("cmake/ThawModule.cmake"):
                yield f"{file}: is in no target"


def borders_are_kept(tree):
    for file in tree.sources():
        for include in INCLUDE.findall(tree.text(file)):
            for pattern, folders, sentence in BORDERS:
                if re.fullmatch(pattern, include) and not file.startswith(folders) \
                        and not is_test(file):
                    yield f"{file}: includes {include}; {sentence}"


def headers_begin_well(tree):
    for file in tree.sources(".h"):
        lines = tree.text(file).splitlines()
        opening = 0
        while opening < len(lines) and lines[opening].startswith("//"):
            opening += 1
        if not 1 <= opening <= 25:
            yield f"{file}: opens with {opening} lines of comment; 1 to 25 say what it is"
        if opening >= len(lines) or lines[opening] != "#pragma once":
            yield f"{file}: #pragma once does not follow its opening comment"


def files_are_short(tree):
    for file in tree.sources(".h", ".cc", ".py", ".sh"):
        count = tree.text(file).count("\n")
        if count > MAX_LINES:
            yield f"{file}: has {count} lines; the limit is {MAX_LINES}"


def environment_is_read_at_the_edge(tree):
    for file in tree.sources():
        if file.startswith("src/") and not file.startswith("src/cli/") and not is_test(file) \
                and re.search(r"\b(secure_)?getenv\s*\(", tree.text(file)):
            yield f"{file}: reads the environment; only cli/ may"


def libraries_do_not_print(tree):
    """Libraries hand back errors or log through base/log.h; a failed check is the one exception."""
    prints = re.compile(r"std::(cout|cerr|clog)\b|\b(printf|puts|putchar)\s*\(|"
                        r"\bfprintf\s*\(\s*std(out|err)|\bfmt::print\s*\(|\bexit\s*\(")
    for file in tree.sources():
        if file.startswith("src/") and not file.startswith("src/cli/") and not is_test(file) \
                and file != "src/base/check.cc" and prints.search(strip_comments(tree.text(file))):
            yield f"{file}: prints or exits; only cli/ may"


def own_code_does_not_throw(tree):
    for file in tree.sources():
        if file.startswith("src/") and not is_test(file) \
                and re.search(r"\bthrow\b", strip_comments(tree.text(file))):
            yield f"{file}: throws; errors are values (base/result.h)"


def flags_are_portable(tree):
    for file in tree.files:
        if not file.endswith(("CMakeLists.txt", ".cmake", "CMakePresets.json", "Makefile")):
            continue
        for flag in ("-march=native", "-mtune=native", "-ffast-math", "-Ofast"):
            if flag in tree.text(file):
                yield f"{file}: uses {flag}; one binary runs everywhere, with IEEE arithmetic"


def tests_use_the_framework(tree):
    for file in tree.sources(".cc"):
        if is_test(file) and re.search(r"(?<!static_)\bassert\s*\(", strip_comments(tree.text(file))):
            yield f"{file}: has a bare assert; use EXPECT_ or ASSERT_"


def goldens_are_small(tree):
    limit = 8 << 20
    total = sum((tree.root / f).stat().st_size for f in tree.files if f.startswith("tests/golden/"))
    if total > limit:
        yield f"tests/golden: holds {total} bytes; the limit is {limit}"


def strip_comments(text):
    """C++ without comments and the contents of string literals (raw strings excepted)."""
    token = re.compile(r"//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])'|" r'"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return token.sub(lambda m: '""' if m.group().startswith('"') else " ", text)


ALL = [
    includes_point_down, includes_name_their_module, modules_are_known, root_holds_nothing_else,
    names_say_what, sources_are_in_a_target, borders_are_kept, headers_begin_well, files_are_short,
    environment_is_read_at_the_edge, libraries_do_not_print, own_code_does_not_throw,
    flags_are_portable, tests_use_the_framework, goldens_are_small,
]
