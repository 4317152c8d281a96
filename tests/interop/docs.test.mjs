// The blocks of the documentation, run as a reader would run them: commands in a shell, configurations by `diglot check` and
// `diglot serve`, programs with the real packages. What a page prints has to be what there is (support/docs/match.mjs).
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { describe, test } from "node:test";
import { difference } from "./support/docs/match.mjs";
import { blocksOf } from "./support/docs/page.mjs";
import { run } from "./support/docs/run.mjs";
import { Session } from "./support/docs/session.mjs";

// The first run on a machine installs Python packages.
const LIMIT = { timeout: 600_000 };

/** The pages, and which of their blocks are run: all that are not marked, or those of some languages. */
const PAGES = {
  "README.md": undefined,
  "deploy/README.md": ["yaml", "sh"],
  "deploy/access.md": ["yaml", "sh"],
  "deploy/clients.md": undefined,
  "deploy/dialects.md": undefined,
  "deploy/legacy-agents.md": undefined,
  "deploy/lifecycle.md": undefined,
  "deploy/listeners.md": undefined,
  "deploy/migrate.md": undefined,
  "deploy/recordings.md": undefined,
  "deploy/resume.md": undefined,
  "deploy/two-steps.md": undefined,
  "deploy/upstreams.md": ["yaml"],
};

/** Pages whose blocks are not run here, and the tests that cover them. */
const ELSEWHERE = {
  "deploy/container.md": "tests/it/packaging.rs: what can be tried without Docker",
  "deploy/errors.md": "tests/it/pages/errors.rs: made from src/error.rs",
  "deploy/inspect.md": "tests/it/inspect.rs, inspect_cli.rs and tests/page: the page and the commands",
  "deploy/inspect.zh.md": "the same page in Chinese, without what only one of them needs",
  "deploy/kubernetes.md": "tests/it/kubernetes.rs: manifests and chart, there is no cluster",
  "deploy/limits.md": "tests/it/pages/limits.rs: made from the constants of the source",
  "deploy/threat-model.md": "tests/it/pages/threat_model.rs: the tests that it names exist",
  "deploy/logs-and-traces.md": "tests/it: the fields of the log, and a collector of traces",
  "deploy/metrics.md": "tests/it/pages: made from the table of the metrics",
  "deploy/monitoring.md": "tests/it/monitoring.rs: rules and dashboard, by a real Prometheus",
  "deploy/performance.md": "its table is what `make bench` printed on one machine",
  "deploy/record.md": "tests/it/recordings.rs: the same commands with a real gateway",
  "deploy/runbook.md": "tests/it/monitoring.rs: its expressions",
  "deploy/systemd.md": "tests/it/packaging.rs: the unit, as far as it can be tried",
};

/** Maximum number of blocks that are not run, each with its reason. */
const NOT_RUN = 4;

describe("the documentation prints what the commands print", () => {
  for (const [page, languages] of Object.entries(PAGES)) {
    test(page, LIMIT, async (context) => {
      const blocks = blocksOf(page).filter((block) => !block.notRun && (!languages || languages.includes(block.language)));
      const session = await Session.start();
      try {
        for (const block of blocks) await context.test(`line ${block.line}, ${block.language}`, () => run(session, block));
      } finally {
        await session.end();
      }
    });
  }

  test("covers every page here or in another test", () => {
    const pages = readdirSync(new URL("../../deploy", import.meta.url)).filter((name) => name.endsWith(".md"));
    const unknown = pages.filter((name) => !(`deploy/${name}` in PAGES || `deploy/${name}` in ELSEWHERE));
    assert.deepEqual(unknown, []);
  });

  test("detects differences in the output", () => {
    const same = (page, output) => difference(page, output) === undefined;
    assert.ok(same("a\n…\nd", "a\nb\n\nc\nd\n") && same('{"a":1,…,"b":"…"}', '{"a":1,"x":[],"b":"y"}') && same("…", ""));
    assert.ok(!same("a", "a\nb") && !same("a\nb", "a") && !same("a.c", "abc") && !same("a\n…\nd", "a\nd\ne"));
  });

  test("skips few blocks, each with a reason", (context) => {
    const blocks = Object.keys(PAGES).flatMap(blocksOf).filter((block) => block.notRun);
    for (const { page, line, notRun } of blocks) context.diagnostic(`${page}:${line} is not run: ${notRun}`);
    assert.ok(blocks.length <= NOT_RUN, `${blocks.length} blocks are not run`);
  });
});
