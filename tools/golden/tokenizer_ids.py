#!/usr/bin/env python3
"""Makes src/data/tokenizer/testdata/golden.json with the reference implementations of tokenizers.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tiktoken==0.14.0 tokenizers==0.23.3 unicodedata2==16.0.0
    /tmp/venv/bin/python tools/golden/tokenizer_ids.py VOCABULARIES TEXTS src/data/tokenizer/testdata/golden.json

VOCABULARIES is a folder with r50k_base.tiktoken, cl100k_base.tiktoken, o200k_base.tiktoken and
{qwen3,llama3_1,deepseek_v3}.tokenizer.json; TEXTS one with tinyshakespeare.txt, state-of-the-union.txt and
chinese-poetry.jsonl (all unpacked). .tiktoken files are encoded by tiktoken, tokenizer.json by tokenizers; special
tokens in text are plain text in both.

The file holds the versions, the cases (name and text), and for every vocabulary and case the number of ids and their
FNV-1a hash over the ids as little-endian u32, or the ids themselves when there are at most 12. Slices of corpora are
named by file, first byte and length, and read from the shared data by the test; runs are {"text", "repeat"}.
"""
import json
import random
import sys

import tiktoken
import tokenizers
import unicodedata2
from tiktoken.load import load_tiktoken_bpe
from tiktoken_ext import openai_public

TIKTOKEN = {'r50k_base': openai_public.r50k_base, 'cl100k_base': openai_public.cl100k_base,
            'o200k_base': openai_public.o200k_base}
HUGGING_FACE = ['qwen3', 'llama3_1', 'deepseek_v3']

HARD = {
    'empty': '',
    'space': ' ',
    'spaces': '   ',
    'newline': '\n',
    'trailing whitespace': 'a\n\n  ',
    'trailing spaces': 'word   ',
    'whitespace inside': 'a  b   c\t\td \t e',
    'newline runs': 'a\n\n\nb \n c\n \n\n  d',
    'crlf': 'one\r\ntwo\r\n\r\nthree\r\rfour\n\r',
    'contractions': "I'm you're it's IT'S we'LL they'd I've don't can'T 'tis '' 'x",
    'long s': "it'\u017f is'\u017fa \u017f",
    'kelvin': "a'\u212a \u212aelvin",
    'sharp s': "stra\u00dfe'\u00df \ufb05 '\ufb05",
    'numbers': '0 1 12 123 1234 12345 1234567 3.14159 1,000,000 \u00bd\u2167\u0664\u0665\u0666\u0667',
    'punctuation': '!!! ?? ...,, (a) [b] {c} <d> "e" \'f\' a/b//c /\n ///\n\n',
    'camel': 'HTTPServer camelCase PascalCase XMLHttpRequest ABCdef aBC iPhone',
    'code': 'int main() {\n    return x->y[3] + 0xFF; // done\n}\n\n\tif (a && !b) {}\n',
    'emoji': '\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f\U0001f44d\U0001f3fd',
    'cjk': '\u5929\u5730\u7384\u9ec4\uff0c\u5b87\u5b99\u6d2a\u8352\u3002\u3053\u3093\u306b\u3061\u306f\u4e16\u754c\uff01\uc548\ub155\ud558\uc138\uc694',
    'cjk mixed': '\u4e2d\u6587abc\u4e2d\u6587 123\u4e2d\u3042\u30a2\u30fc\u3000\u5168\u89d2\uff11\uff12\uff13',
    'arabic': '\u0627\u0644\u0633\u0644\u0627\u0645 \u0639\u0644\u064a\u0643\u0645\u060c \u0643\u064e\u062a\u064e\u0628\u064e',
    'hebrew': '\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd',
    'devanagari': '\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e',
    'thai': '\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01',
    'combining': 'e\u0301a\u0308o\u0302\u0323 \u0301x \u1e9b\u0323 q\u0307\u0323 A\u030a',
    'jamo': '\u1112\u1161\u11ab\u1100\u1173\u11af \uac00\u11a8 \u3131',
    'nfc singletons': '\u2126 \u212b \u1f71 \u0340 \u0958 \ufb1d \uf900 \U0002f800 \u0344',
    'titlecase': '\u01c5\u01c8 \u02b0\u02b1 \u1f88',
    'spaces of unicode': 'a\u00a0b\u2003c\u3000d\u200be\u180ef\u0085g\u2028h\u2029i\u1680j\ufeffk',
    'bom': '\ufeffhello',
    'nul': 'a\u0000b\u0000\u0000c',
    'controls': '\u0001\u0002\u001b[31mred\u001b[0m\u007f',
    'special as text': '<|endoftext|> <|im_start|>user\n<|begin_of_text|><\uff5cend\u2581of\u2581sentence\uff5c>',
    'added not special': 'x<tool_call>{"a": 1}</tool_call><think>\nhm</think> <\uff5cUser\uff5c>hi<\uff5cAssistant\uff5c>',
    'private use': '\ue000\uf8ff \U000f0000 \U0010fffd',
    'new in unicode 15 and 16': '\U0001e4d0\U0001fae8 \U00031350 \u1c89\u1c8a \U00010d50',
    'mixed case marks': 'A\u0301B\u0301c\u0301D',
    'long word': 'Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft',
    'url': 'https://example.com/path?q=1&r=%20#frag user@host.org',
}
RUNS = {'letters': ('a', 5000), 'long spaces': (' ', 3000), 'long newlines': ('\n', 777), 'digits': ('7', 1001),
        'equals': ('=', 2000), 'ab': ('ab', 1500), 'tabs': ('\t', 999), 'zero width joiner': ('\u200d', 300),
        'cjk run': ('\u7684', 700), 'spaced': (' a', 700)}


def random_cases():
    rng = random.Random(1)
    alphabet = list(" \n\r\t'sStTmrRevEVlLdD019/.,!-_aZ\u017f\u00e9\u0301\u4e2d\u3042\u0639\u01c5\u02b0\u00bd\u2167"
                    "\u00a0\u3000\u0085\u180e\ufeff\u200d") + ['\U0001f600', "'s", "'LL", '  ', '\n\n', 'the', ' of']
    return {f'random {i}': ''.join(rng.choice(alphabet) for _ in range(rng.randrange(1, 60))) for i in range(150)}


def corpus_slices(folder):
    rng = random.Random(2)
    cases = {}
    for name in ('tinyshakespeare.txt', 'state-of-the-union.txt', 'chinese-poetry.jsonl'):
        data = open(f'{folder}/{name}', 'rb').read()
        for length in (100, 1000, 30000, 300000):
            begin = rng.randrange(len(data) - length)
            while data[begin] & 0xC0 == 0x80:
                begin += 1
            end = begin + length
            while data[end] & 0xC0 == 0x80:
                end += 1
            cases[f'{name} {length}'] = (data[begin:end].decode(), name, begin, end - begin)
    return cases


def fnv(ids):
    value = 0xCBF29CE484222325
    for number in ids:
        for byte in number.to_bytes(4, 'little'):
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f'{value:016x}'


def summary(ids):
    return list(ids) if len(ids) <= 12 else {'n': len(ids), 'fnv': fnv(ids)}


def tiktoken_encoder(folder, name):
    # OpenAI's constructor names its file by URL; the ranks come from the local file instead.
    openai_public.load_tiktoken_bpe = lambda url, expected_hash=None: load_tiktoken_bpe(f'{folder}/{name}.tiktoken')
    encoding = tiktoken.Encoding(**TIKTOKEN[name]())
    return encoding.encode_ordinary


def hugging_face_encoder(folder, name):
    tokenizer = tokenizers.Tokenizer.from_file(f'{folder}/{name}.tokenizer.json')
    tokenizer.encode_special_tokens = True
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def nfc_differences():
    """Code points whose form C differs between tokenizers' normalizer and the Unicode version of our tables."""
    normalizer = tokenizers.normalizers.NFC()
    return [code for code in range(0x110000) if not 0xD800 <= code < 0xE000 and
            normalizer.normalize_str(chr(code)) != unicodedata2.normalize('NFC', chr(code))]


def main():
    vocabularies, texts, path = sys.argv[1:]
    slices = corpus_slices(texts)
    cases = [{'name': name, 'text': text} for name, text in {**HARD, **random_cases()}.items()]
    cases += [{'name': name, 'text': text, 'repeat': count} for name, (text, count) in RUNS.items()]
    cases += [{'name': name, 'file': file, 'begin': begin, 'bytes': size}
              for name, (_, file, begin, size) in slices.items()]
    full = [slices[case['name']][0] if 'file' in case else case['text'] * case.get('repeat', 1) for case in cases]
    ids = {}
    for name in TIKTOKEN:
        encode = tiktoken_encoder(vocabularies, name)
        ids[name] = [summary(encode(text)) for text in full]
    for name in HUGGING_FACE:
        encode = hugging_face_encoder(vocabularies, name)
        ids[name] = [summary(encode(text)) for text in full]
    print('form C differs for', [hex(code) for code in nfc_differences()])
    with open(path, 'w') as out:
        out.write('{"versions": ' + json.dumps({'tiktoken': tiktoken.__version__, 'tokenizers': tokenizers.__version__,
                                                'unicode': unicodedata2.unidata_version}) + ',\n"cases": [\n')
        out.write(',\n'.join(json.dumps(case) for case in cases) + '],\n"ids": {\n')
        out.write(',\n'.join(f'"{name}": {json.dumps(values, separators=(",", ":"))}' for name, values in ids.items()))
        out.write('}}\n')


main()
