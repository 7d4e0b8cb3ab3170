# Aliases for people who type make. The scripts need no make.
.PHONY: demo test bench format lint

demo:
	@./demo

test:
	@./check

bench: build/release/build.ninja
	@bench/run

build/release/build.ninja:
	@cmake --preset release

format:
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

lint: build/dev/build.ninja
	@git ls-files 'src/*.cc' | xargs -P $$(nproc) -n 1 clang-tidy -p build/dev --quiet

build/dev/build.ninja:
	@cmake --preset dev
