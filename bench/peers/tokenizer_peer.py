#!/usr/bin/env python3
"""Our encoder against tiktoken: same text, same vocabulary, same run, one core each, ids compared.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tiktoken==0.14.0
    /tmp/venv/bin/python bench/peers/tokenizer_peer.py build/release/bin/tokenizer_bench VOCABULARIES TEXT...

VOCABULARIES is a folder with r50k_base.tiktoken (and cl100k_base, o200k_base; those that are there are measured).
Rounds alternate between the two programs; each round of ours is a new process, so its caches are empty ("cold") and
then warm for a second pass. tiktoken is given the text in pieces of about 1 MB, which is its best case. The ratio is
of medians; the first line, GPT-2's pattern cold, has the bar of 10, and --check makes it the exit status.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tiktoken_ext import openai_public

ROUNDS = 5
BAR = 10


def encoding(folder, name):
    openai_public.load_tiktoken_bpe = lambda url, expected_hash=None: load_tiktoken_bpe(f'{folder}/{name}.tiktoken')
    return tiktoken.Encoding(**getattr(openai_public, name)())


def pieces(text, size=1_000_000):
    """Cuts only between a letter and a newline or space, where no pattern can tell."""
    begin = 0
    while begin < len(text):
        end = min(len(text), begin + size)
        while end < len(text) and not (text[end] in ' \n' and text[end - 1].isalpha()):
            end += 1
        yield text[begin:end]
        begin = end


def theirs(codec, parts):
    start = time.perf_counter()
    count = sum(len(codec.encode_ordinary(part)) for part in parts)
    return time.perf_counter() - start, count


def ours(binary, vocabulary, path):
    command = [binary, '--vocab', vocabulary, '--file', path, '--repeat', '2']
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != '--check']
    binary, folder, texts = arguments[0], arguments[1], arguments[2:]
    print(f'tiktoken {tiktoken.__version__}, {ROUNDS} alternating rounds, medians')
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, and inherited by our processes
    failed = False
    for path in texts:
        text = open(path, encoding='utf-8').read()
        size = os.path.getsize(path) / 1e6
        parts = list(pieces(text))
        for name in ('r50k_base', 'cl100k_base', 'o200k_base'):
            vocabulary = f'{folder}/{name}.tiktoken'
            if not os.path.exists(vocabulary):
                continue
            codec = encoding(folder, name)
            peer, cold, warm = [], [], []
            for _ in range(ROUNDS):
                seconds, count = theirs(codec, parts)
                result = ours(binary, vocabulary, path)
                if result['ids'] != count:
                    sys.exit(f'{path}, {name}: {result["ids"]} ids against {count} of tiktoken')
                peer.append(seconds)
                cold.append(result['seconds'][0])
                warm.append(result['seconds'][1])
            peer, cold, warm = map(statistics.median, (peer, cold, warm))
            ratio = peer / cold
            failed |= name == 'r50k_base' and ratio < BAR
            print(f'{os.path.basename(path):28} {name:12} tiktoken {size / peer:6.1f} MB/s, ours cold '
                  f'{size / cold:6.1f}, warm {size / warm:6.1f} MB/s, ratio {ratio:5.1f} cold, {peer / warm:5.1f} warm')
    sys.exit(1 if failed and '--check' in sys.argv else 0)


main()
