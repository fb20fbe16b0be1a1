# Tasks of the project. `just` lists them; each is one command that also works without just.

# what CI runs before the tests: formatting, lints, documentation
check:
    cargo fmt --all --check
    cargo clippy --release --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps

# the documents: links, the glossary's types, widths
docs:
    scripts/check_docs.py

# import cycles between modules
cycles:
    scripts/cycles

# all tests
test:
    cargo test --release --workspace

# the main job: data, a node, queries with and without pushdown
demo:
    cargo run --release -- demo

# the program as it is shipped, in target/dist: optimised across crates, without symbols (101 MB; aim: below 90 MB); takes long
dist:
    scripts/dist

# the package of Debian, of that program, in target/deb
deb: dist
    scripts/deb "${CARGO_TARGET_DIR:-target}/dist/pushdowndb" "${CARGO_TARGET_DIR:-target}/deb"

# the wheel of the Python package as it is shipped, in target/wheels; needs maturin, takes long. It runs where glibc is
# as new as here; manylinux2014 needs its image (quay.io/pypa/manylinux2014_x86_64), or maturin's --zig
wheel compatibility="linux":
    cd python && maturin build --profile dist --compatibility {{compatibility}} --out "${CARGO_TARGET_DIR:-../target}/wheels"

# licenses, sources and known faults of the dependencies
deny:
    .ci/deny

# every attack on a node, each bounded in seconds, or those whose name contains a text
attacks match="":
    cargo build --release && conformance/attacks/run.py --match "{{match}}" -v --binary "${CARGO_TARGET_DIR:-target}/release/pushdowndb"

# random statements beside DuckDB and PostgreSQL, then the queries of TPC-DS beside DuckDB
answers statements="1000" scale="0.1":
    cargo build --release && conformance/answers/run.py --statements {{statements}} --binary "${CARGO_TARGET_DIR:-target}/release/pushdowndb"
    conformance/answers/tpcds.py --scale {{scale}} --binary "${CARGO_TARGET_DIR:-target}/release/pushdowndb"

# queries that spill are killed at any time; random statements with little memory beside the same ones with enough
spill kills="200" statements="2000":
    cargo build --release && conformance/spill/kills.py --kills {{kills}} --binary "${CARGO_TARGET_DIR:-target}/release/pushdowndb"
    conformance/spill/queries.py --statements {{statements}} --binary "${CARGO_TARGET_DIR:-target}/release/pushdowndb"

# generated files of some seeds, read by us and by pyarrow, pandas and DuckDB
files seeds="20":
    cargo build --release && conformance/files/run.py --seed 1 --seeds {{seeds}} --binary "${CARGO_TARGET_DIR:-target}/release/pushdowndb"

# TPC-H at a scale on CSV and Parquet, our node and MinIO, at every level, against the known answers
tpch scale="1":
    cargo build --release && scripts/tpch.py --scale {{scale}} --binary "${CARGO_TARGET_DIR:-target}/release/pushdowndb"

# the selective filter through a 40 MB/s link, at level none and select (needs root and Linux)
link mb="40":
    cargo build --release && scripts/link.py --mb {{mb}} --binary "${CARGO_TARGET_DIR:-target}/release/pushdowndb"

# the paper's figures, regrets, other engines and trouble, and the page about them (needs root and Linux, hours)
evaluation minutes="600":
    cargo build --release && "${CARGO_TARGET_DIR:-target}/release/pushdowndb-bench" all --record experiments/results --budget {{minutes}}
    "${CARGO_TARGET_DIR:-target}/release/pushdowndb-bench" report

# every target of the fuzzer for some seconds (needs a C++ compiler)
fuzz seconds="10":
    fuzz/run {{seconds}}

# single bits of a store changed, one after the other, in data files, index and marks: never a wrong byte with a success
rot flips="10000":
    PUSHDOWNDB_FLIPS={{flips}} cargo test --release -p pushdowndb-node --lib simulation::rot -- --nocapture

# many clients at once against one node: throughput, latencies, memory
load clients="8,64":
    cargo build --release && scripts/load.py --clients {{clients}} --binary "${CARGO_TARGET_DIR:-target}/release/pushdowndb"

# clients of all manners against a node for some minutes: nothing leaks, nothing is wrong
soak minutes="10":
    cargo build --release && scripts/soak.py --minutes {{minutes}} --binary "${CARGO_TARGET_DIR:-target}/release/pushdowndb"
