#!/usr/bin/env python3
"""Plants one fault after another in src/ and requires that the named test turns red.

    make planted-faults                        all of them; a quarter of an hour on two cores
    python3 tests/planted_faults.py NAME...    only these

Each fault is one replaced line, such as a gate that is left out. It is taken back at the end, also after Ctrl-C. A test that stays
green does not test what its name says. A line that is not found is an error: change the row with the code.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# name, file, line that is replaced, replacement, cargo's target, test that must fail
FAULTS = [
    ("authorization-left-out", "src/policy/mod.rs",
     "        .layer_fn(|inner| GateService::new(AuthorizationGate, inner))\n", "",
     "it", "access::"),
    ("waiting-run-found-by-anyone", "src/proxy/run_keys.rs",
     "digest::sha256_parts(&[Some(kind), Some(route), source, tenant, subject, Some(id)])",
     "{ let _ = (source, tenant, subject); digest::sha256_parts(&[Some(kind), Some(route), Some(id)]) }",
     "it", "two_steps::ownership::hides_a_waiting_run_from_other_callers"),
    ("refusals-not-counted", "src/telemetry/internal_event/run.rs",
     "        metrics.rejections.get(rejection.kind).inc();\n", "        let _ = metrics.rejections.get(rejection.kind);\n",
     "it", "limits::bodies::refuses_bodies_beyond_the_total_and_recovers"),
    ("bodies-without-bound", "src/proxy/body_budget.rs",
     "        if usage.total + more > all {", "        if usage.total + more > all && all == 0 {",
     "it", "limits::bodies::refuses_bodies_beyond_the_total_and_recovers"),
    ("hai-event-with-another-name", "src/dialect/hai/mod.rs",
     '    row("MESSAGE_SNAPSHOT", EventType', '    row("MESSAGE_SNAPSHOTS", EventType',
     "it", "golden::"),
    ("run-guard-admits-everything", "src/event/run.rs",
     "    pub(crate) fn admit(&mut self, event: &Event<'_>) -> Result<(), RunViolation> {\n",
     "    pub(crate) fn admit(&mut self, event: &Event<'_>) -> Result<(), RunViolation> {\n        if event.kind != EventType::RunStarted { return Ok(()); }\n",
     "it", "run_guard::"),
    ("carriage-return-ends-no-line", "src/codec/sse/line.rs",
     "memchr::memchr2(b'\\n', b'\\r', bytes)", "memchr::memchr2(b'\\n', b'\\n', bytes)",
     "lib", "codec::sse"),
    ("cursor-one-event-late", "src/replay/log/reader.rs",
     "state.offset_after(cursor.number)", "state.offset_after(cursor.number + 1)",
     "lib", "replay::log"),
    ("any-api-key-accepted", "src/policy/auth/api_key.rs",
     "verify_slices_are_equal(&known.digest.0, &digest).is_ok()", "verify_slices_are_equal(&digest, &digest).is_ok() && !known.digest.0.is_empty()",
     "lib", "policy::auth::api_key"),
    ("forwarding-headers-trusted-from-anyone", "src/policy/client_addr.rs",
     "            _ if !self.trusts_addr(origin) => Vec::new(),\n", "",
     "it", "forwarded::"),
]


def find_failures(target, test):
    """Returns the names of the failed tests, or None if the code with the fault does not compile."""
    where = ["--lib"] if target == "lib" else ["--test", target]
    result = subprocess.run(["cargo", "test", "--locked", *where, "--", test], cwd=ROOT, capture_output=True, text=True)
    if "test result:" not in result.stdout:
        sys.stderr.write(result.stderr[-2000:])
        return None
    return re.findall(r"^test (\S+) \.\.\. FAILED$", result.stdout, re.M)


def plant(fault):
    name, file, line, replacement, target, test = fault
    path = ROOT / file
    text = path.read_text()
    if text.count(line) != 1:
        return f"{file} has the line {text.count(line)} times: {line.strip()}"
    try:
        path.write_text(text.replace(line, replacement))
        failures = find_failures(target, test)
    finally:
        path.write_text(text)
    if failures is None:
        return "does not compile"
    if not failures:
        return f"no test of {test} fails"
    print(f"{name}: {failures[0]} fails" + (f", and {len(failures) - 1} more" if len(failures) > 1 else ""), flush=True)
    return None


def main(names):
    unknown = set(names) - {fault[0] for fault in FAULTS}
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; the faults are: {', '.join(fault[0] for fault in FAULTS)}")
    if subprocess.run(["git", "status", "--porcelain", "--", "src"], cwd=ROOT, capture_output=True, text=True).stdout:
        sys.exit("src/ has changes that are not committed; commit them first, because faults are planted in these files")
    problems = 0
    for fault in FAULTS:
        if names and fault[0] not in names:
            continue
        problem = plant(fault)
        if problem:
            problems += 1
            print(f"{fault[0]}: FAILED: {problem}", flush=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
