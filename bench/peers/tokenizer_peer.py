#!/usr/bin/env python3
"""`ingot data build` against tiktoken: same text, same vocabulary, same run, one core, ids counted alike.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tiktoken==0.14.0
    /tmp/venv/bin/python bench/peers/tokenizer_peer.py build/release/bin/ingot VOCABULARIES TEXT... [--check] [--json FILE]

VOCABULARIES is a folder with r50k_base.tiktoken (and cl100k_base, o200k_base; those that are there are measured).
Rounds alternate between the two programs. Each round of ours is a whole `ingot data build --threads 1` in a new
process, so nothing of the text is in a cache: what is compared is the time from the first byte read to the last id in
a shard, vocabularies loaded on both sides, final syncs of the disk left out ("encoding_seconds" of --json). tiktoken is given
text that is already a string, in pieces of about 1 MB, which is its best case, and its ids are dropped. The wall time
of our whole command (process, vocabulary, tokenizer.json, syncs) is printed beside. The ratio is that of medians; with
--check it is the exit status for GPT-2's vocabulary and the first text, with the bar of 10. --json adds each figure to
FILE as base/bench_report.h does.
"""
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tiktoken_ext import openai_public

ROUNDS = 7
BAR = 10
BARRED = 'r50k_base'
END_OF_TEXT = 1  # our data set has one after the document


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


def ours(binary, vocabulary, path, out):
    command = [binary, 'data', 'build', '--threads', '1', '--tokenizer', vocabulary, '--out', out, '--replace',
               '--json', path]
    start = time.perf_counter()
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    wall = time.perf_counter() - start
    report = json.loads(output)
    count = sum(report[split]['tokens'] for split in ('train', 'validation'))
    return report['encoding_seconds'], wall, count - END_OF_TEXT


def cpu_model():
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        for line in file:
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    return platform.machine()


def shown(seconds, megabytes):
    """The median, with the slowest and the fastest round."""
    rates = sorted(megabytes / value for value in seconds)
    return f'{statistics.median(rates):6.1f} MB/s ({rates[0]:.1f} to {rates[-1]:.1f})'


def measure(binary, folder, name, path, out):
    vocabulary = f'{folder}/{name}.tiktoken'
    with open(path, encoding='utf-8', newline='') as file:
        parts = list(pieces(file.read()))
    megabytes = os.path.getsize(path) / 1e6
    codec = encoding(folder, name)
    peer, own, whole = [], [], []
    for _ in range(ROUNDS):
        seconds, count = theirs(codec, parts)
        encoding_seconds, wall, own_count = ours(binary, vocabulary, path, out)
        if own_count != count:
            sys.exit(f'{path}, {name}: {own_count} ids against {count} of tiktoken')
        peer.append(seconds)
        own.append(encoding_seconds)
        whole.append(wall)
    ratio = statistics.median(peer) / statistics.median(own)
    print(f'{os.path.basename(path)}, {name}: ratio {ratio:.1f}\n  tiktoken     {shown(peer, megabytes)}\n'
          f'  ingot        {shown(own, megabytes)} cold\n  whole build  {shown(whole, megabytes)}, '
          f'{statistics.median(whole):.2f} s, ratio {statistics.median(peer) / statistics.median(whole):.1f}', flush=True)
    return ratio


def record(path, name, ratio, bar):
    line = {'name': name, 'figure': ratio, 'unit': 'of tiktoken', 'bar': bar, 'better': 'higher', 'machine': cpu_model()}
    with open(path, 'a', encoding='utf-8') as file:
        file.write(json.dumps(line) + '\n')


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != '--check']
    figures = None
    if '--json' in arguments:
        at = arguments.index('--json')
        figures = arguments[at + 1]
        del arguments[at:at + 2]
    if len(arguments) < 3:
        sys.exit(__doc__)
    binary, folder, texts = os.path.abspath(arguments[0]), arguments[1], arguments[2:]
    version = subprocess.run([binary, '--version'], capture_output=True, text=True, check=False).stdout.strip()
    print(f'tiktoken {tiktoken.__version__}, Python {platform.python_version()}, {version}, {cpu_model()}; one core, '
          f'{ROUNDS} alternating rounds, medians, slowest and fastest')
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, and inherited by our processes
    failed = False
    with tempfile.TemporaryDirectory() as work:
        for path in texts:
            for name in ('r50k_base', 'cl100k_base', 'o200k_base'):
                if os.path.exists(f'{folder}/{name}.tiktoken'):
                    ratio = measure(binary, folder, name, path, os.path.join(work, 'out'))
                    bar = BAR if name == BARRED and path == texts[0] else None
                    failed |= bar is not None and ratio < bar
                    if figures:
                        record(figures, f'data build {name} {os.path.basename(path)}', ratio, bar)
    if failed:
        print(f'below the bar of {BAR} with {BARRED}')
    sys.exit(1 if failed and '--check' in sys.argv else 0)


main()
