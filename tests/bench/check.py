"""Compares the instructions of two builds: `make bench-check BASE=<commit>`.

Builds the base in a worktree and the working tree, both below target/bench-check, and counts with callgrind what each row of
`cargo bench --bench translate` and what one run through the gateway costs. Instructions hardly vary between two runs on a machine,
unlike times. Prints a table, and exits with 1 if a row costs more than the limit on top.
"""

import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "bench-check"
# Both builds: only what differs between them is built twice.
BUILT = WORK / "build"
# Per cent.
LIMIT = 2.0
# A row of a few instructions can change by more than the limit without being dearer.
SMALLEST_CHANGE = 2.0


def run(*command, cwd=ROOT, **options):
    """Runs a command, and ends with its error output if it fails."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, text=True, stdout=subprocess.PIPE, **options)
    if done.returncode != 0:
        sys.exit(f"bench-check: failed: {' '.join(map(str, command))}")
    return done.stdout


def prepare_base(commit):
    """Checks out the base, with the benchmark of the working tree: both builds count the same rows."""
    folder = WORK / "base"
    commit = run("git", "rev-parse", "--verify", f"{commit}^{{commit}}").strip()
    if folder.exists():
        run("git", "checkout", "--quiet", "--force", "--detach", commit, cwd=folder)
    else:
        run("git", "worktree", "prune")
        run("git", "worktree", "add", "--quiet", "--force", "--detach", folder, commit)
    shutil.copy(ROOT / "tests/bench/translate.rs", folder / "tests/bench/translate.rs")
    return folder, commit


def build(folder, name):
    """Builds the benchmark and the gateway, and returns copies of both: the next build replaces them."""
    print(f"building {name}", file=sys.stderr, flush=True)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(BUILT)}
    built = {"cwd": folder, "env": environment}
    # Cargo would take what it built for the other folder: the package has the same name, and its files may be older than the build.
    run("cargo", "clean", "--quiet", "--locked", "--release", "--package", "diglot", **built)
    found = run(
        *("cargo", "bench", "--locked", "--bench", "translate", "--no-run", "--message-format", "json"), **built,
    )
    executables = re.findall(r'"executable":"([^"]*/translate-[^"]*)"', found)
    if not executables:
        sys.exit("bench-check: cargo names no benchmark")
    run("cargo", "build", "--locked", "--release", "--bin", "diglot", **built)
    copies = WORK / f"translate-{name}", WORK / f"diglot-{name}"
    for source, copy in zip((executables[-1], BUILT / "release/diglot"), copies):
        shutil.copy(source, copy)
    return copies


def count_events(program):
    """Returns the instructions per event of each row of the benchmark."""
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        rows = run(
            *("valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={folder}/out"),
            *("--dump-before=*mark_rounds*", program, "--count"),
            stderr=subprocess.DEVNULL,
        ).splitlines()
        # A file ends where the next mark is reached, so every second file has the rounds of one row.
        files = [Path(folder, f"out.{2 * number}") for number in range(1, len(rows) + 1)]
        if not rows or not all(file.exists() for file in files) or Path(folder, f"out.{2 * len(rows) + 1}").exists():
            sys.exit("bench-check: callgrind's files do not match the rows of the benchmark")
        totals = [int(re.search(r"^totals: (\d+)", file.read_text(), re.M).group(1)) for file in files]
    rows = [row.split("\t") for row in rows]
    return {name: total / int(events) for (events, name), total in zip(rows, totals)}


def count_all(programs):
    """Counts each build twice, two at a time, and keeps the smaller figures: seeds of hash maps differ by up to 1 %."""
    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(count_events, [core for core, _ in programs] * 2))
    return [{name: min(a[name], b[name]) for name in a} for a, b in zip(counts[:2], counts[2:])]


def count_run(bench, gateway):
    """Returns the instructions of one run through the gateway."""
    environment = {**os.environ, "DIGLOT_BIN": str(gateway), "OUT": str(WORK)}
    return float(run(bench, "instructions", env=environment))


def main():
    base, commit = prepare_base(sys.argv[1])
    programs = build(base, "base"), build(ROOT, "new")
    # Client and agent are those of the working tree for both.
    environment = {**os.environ, "CARGO_TARGET_DIR": str(BUILT)}
    run("cargo", "build", "--locked", "--release", "--package", "diglot-bench", env=environment)
    bench = BUILT / "release/diglot-bench"
    if filecmp.cmp(*(gateway for _, gateway in programs), shallow=False):
        print("Both commits give the same program, byte for byte: nothing that is compiled differs.\n")
    before, after = count_all(programs)
    for counts, (_, gateway) in zip((before, after), programs):
        counts["a run of 42 events"] = count_run(bench, gateway)
    print(f"Instructions, {commit[:10]} and the working tree; per event, or per run:\n")
    print(f"| row | {commit[:10]} | working tree | change |\n|---|---|---|---|")
    dearer = []
    for name, count in after.items():
        change = 100 * (count - before[name]) / before[name]
        is_dearer = change > LIMIT and count - before[name] > SMALLEST_CHANGE
        dearer += [name] * is_dearer
        print(f"| {name} | {before[name]:,.0f} | {count:,.0f} | {change:+.1f} %{' **dearer**' * is_dearer} |")
    if dearer:
        sys.exit(f"\nbench-check: more than {LIMIT:g} % dearer: {'; '.join(dearer)}")
    print(f"\nNothing costs over {LIMIT:g} % more.")


if __name__ == "__main__":
    main()
