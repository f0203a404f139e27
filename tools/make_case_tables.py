#!/usr/bin/env python3
"""Writes src/chat/case_tables.inc: Unicode's case mappings as ranges, from Python's own tables."""
import pathlib
import sys
import unicodedata


def ranges(mapping):
    """Runs of one stride (1 or 2) and one difference, as (first, last, stride, delta)."""
    rows = []
    for code, mapped in sorted(mapping.items()):
        delta = mapped - code
        if rows:
            first, last, stride, row_delta = rows[-1]
            step = code - last
            if delta == row_delta and step in (1, 2) and (first == last or step == stride):
                rows[-1] = (first, code, step, delta)
                continue
        rows.append((code, code, 1, delta))
    return rows


def table(name, mapping):
    lines = [f"constexpr CaseRange {name}[] = {{"]
    lines += [f"    {{{f:#x}, {l:#x}, {s}, {d}}}," for f, l, s, d in ranges(mapping)]
    return lines + ["};"]


def main():
    upper, lower, special = {}, {}, {}
    for code in range(sys.maxunicode + 1):
        if 0xD800 <= code < 0xE000:
            continue
        character = chr(code)
        if len(character.upper()) > 1:
            special[code] = character.upper()
        elif character.upper() != character:
            upper[code] = ord(character.upper())
        if len(character.lower()) == 1 and character.lower() != character:
            lower[code] = ord(character.lower())
    lines = [f"// Made by tools/make_case_tables.py from Unicode {unicodedata.unidata_version}.", ""]
    lines += table("kToUpper", upper) + [""] + table("kToLower", lower) + [""]
    lines += ["constexpr SpecialCase kSpecialUpper[] = {"]
    for code, text in sorted(special.items()):
        escaped = "".join(f"\\U{ord(c):08x}" for c in text)
        lines.append(f'    {{{code:#x}, U"{escaped}"}},')
    lines += ["};"]
    out = pathlib.Path(__file__).parent.parent / "src" / "chat" / "case_tables.inc"
    out.write_text("\n".join(lines) + "\n")


main()
