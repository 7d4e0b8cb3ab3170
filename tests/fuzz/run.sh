#!/bin/sh
# Builds the fuzz targets with clang and runs some of them for a while.
#   tests/fuzz/run.sh build BUILD_DIR                    exit 77, with a sentence, where clang is missing
#   tests/fuzz/run.sh run BUILD_DIR NAME [SECONDS]       what it finds stays in BUILD_DIR/corpus/NAME
# A failing input is kept as BUILD_DIR/failures/NAME-*; BUILD_DIR/NAME_fuzz FILE runs it again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
skip=77

[ $# -ge 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
verb=$1
build=$2

if ! command -v clang++ >/dev/null; then
  echo "skipped: clang++ is not installed, and libFuzzer is part of clang (apt-get install clang libclang-rt-14-dev)"
  exit $skip
fi

case $verb in
  build)
    probe=$(mktemp -d)
    trap 'rm -rf "$probe"' EXIT
    echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >"$probe/probe.cc"
    if ! clang++ -fsanitize=fuzzer,address "$probe/probe.cc" -o "$probe/probe" 2>"$probe/log"; then
      echo "skipped: clang++ cannot link libFuzzer (apt-get install libclang-rt-14-dev): $(tail -n 1 "$probe/log")"
      exit $skip
    fi
    cmake -S "$here" -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ >"$probe/log" ||
      { cat "$probe/log"; exit 1; }
    cmake --build "$build"
    ;;
  run)
    name=$3
    seconds=${4:-10}
    if [ ! -x "$build/${name}_fuzz" ]; then
      echo "skipped: $build/${name}_fuzz is not built (tests/fuzz/run.sh build $build)"
      exit $skip
    fi
    mkdir -p "$build/corpus/$name" "$build/failures"
    set -- "$build/corpus/$name"
    if [ -d "$here/corpus/$name" ]; then set -- "$@" "$here/corpus/$name"; fi
    exec "$build/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -seed=1 \
      -print_final_stats=1 -artifact_prefix="$build/failures/$name-" "$@"
    ;;
  *)
    echo "unknown verb $verb; known: build, run" >&2
    exit 2
    ;;
esac
