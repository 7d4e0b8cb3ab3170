#!/usr/bin/env python3
"""Writes the Unicode tables of src/data/tokenizer from a named version of the Unicode data.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install unicodedata2==16.0.0
    /tmp/venv/bin/python tools/golden/unicode_tables.py src/data/tokenizer

16.0.0 is the version whose general categories tiktoken 0.14 and tokenizers 0.23 use (compared code point by
code point when the tables were made). Files are rewritten whole; never edit them by hand.
"""
import sys

import unicodedata2 as data

LETTER, NUMBER, SPACE, UPPER, LOWER, NEWLINE, MARK, SYMBOL = (1 << bit for bit in range(8))
# White_Space of PropList.txt; unchanged since Unicode 6.3.
WHITE_SPACE = [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
               0x3000]
HANGUL = range(0xAC00, 0xD7A4)


def class_of(code):
    category = data.category(chr(code))
    bits = 0
    if category[0] == 'L':
        bits |= LETTER
    if category[0] == 'N':
        bits |= NUMBER
    if category[0] == 'M':
        bits |= MARK
    if category[0] in 'PS':
        bits |= SYMBOL
    if category in ('Lu', 'Lt', 'Lm', 'Lo') or category[0] == 'M':
        bits |= UPPER
    if category in ('Ll', 'Lm', 'Lo') or category[0] == 'M':
        bits |= LOWER
    if code in WHITE_SPACE:
        bits |= SPACE
    if code in (10, 13):
        bits |= NEWLINE
    return bits


def ranges(value_of):
    result, last = [], None
    for code in range(0x110000):
        value = 0 if 0xD800 <= code < 0xE000 else value_of(code)
        if value != last:
            result.append(code << 8 | value)
            last = value
    return result


def rows(values, form, per_line):
    text = [form(value) for value in values]
    return ',\n'.join('    ' + ', '.join(text[i:i + per_line]) for i in range(0, len(text), per_line))


def decompositions():
    """(code, first, second or 0, composes) of every canonical decomposition but those of Hangul."""
    result = []
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000 or code in HANGUL:
            continue
        text = data.decomposition(chr(code))
        if not text or text.startswith('<'):
            continue
        parts = [int(part, 16) for part in text.split()]
        composes = len(parts) == 2 and data.normalize('NFC', chr(code)) == chr(code)
        result.append((code, parts[0], parts[1] if len(parts) == 2 else 0, composes))
    return result


HEAD = '''// Made by tools/golden/unicode_tables.py from Unicode {version}; not edited by hand.
#include "data/tokenizer/{header}"

namespace ingot::data {{
// clang-format off
'''
TAIL = '''// clang-format on
}  // namespace ingot::data
'''


def main():
    folder = sys.argv[1]
    with open(f'{folder}/unicode_class_table.cc', 'w') as out:
        out.write(HEAD.format(version=data.unidata_version, header='unicode_classes.h'))
        out.write(f'const char* const kUnicodeVersion = "{data.unidata_version}";\n')
        values = ranges(class_of)
        out.write('const uint32_t kClassRanges[] = {\n' + rows(values, lambda v: f'0x{v:x}', 9) + '};\n')
        out.write(f'const size_t kClassRangeCount = {len(values)};\n' + TAIL)
    with open(f'{folder}/nfc_table.cc', 'w') as out:
        out.write(HEAD.format(version=data.unidata_version, header='nfc_table.h'))
        values = ranges(lambda code: data.combining(chr(code)))
        out.write('const uint32_t kCombiningRanges[] = {\n' + rows(values, lambda v: f'0x{v:x}', 9) + '};\n')
        out.write(f'const size_t kCombiningRangeCount = {len(values)};\n')
        values = decompositions()
        out.write('const Decomposition kDecompositions[] = {\n' +
                  rows(values, lambda v: f'{{0x{v[0]:x},0x{v[1]:x},0x{v[2]:x},{int(v[3])}}}', 3) + '};\n')
        out.write(f'const size_t kDecompositionCount = {len(values)};\n' + TAIL)


main()
