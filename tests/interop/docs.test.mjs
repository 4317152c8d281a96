// The blocks of the documentation, run as a reader would run them: commands in a shell, configurations by `diglot check` and
// `diglot serve`, programs with the real packages. What a page prints has to be what there is (support/docs/match.mjs).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { blocksOf } from "./support/docs/page.mjs";
import { run } from "./support/docs/run.mjs";
import { Session } from "./support/docs/session.mjs";

// The first run on a machine installs Python packages.
const LIMIT = { timeout: 600_000 };

/** The pages, and which of their blocks are run: all that are not marked, or those of some languages. */
const PAGES = {
  "README.md": undefined,
  "deploy/README.md": ["yaml"],
  "deploy/access.md": ["yaml", "sh"],
  "deploy/clients.md": undefined,
  "deploy/dialects.md": undefined,
  "deploy/lifecycle.md": ["yaml"],
  "deploy/listeners.md": ["yaml"],
  "deploy/migrate.md": undefined,
  "deploy/recordings.md": undefined,
  "deploy/resume.md": ["yaml"],
  "deploy/two-steps.md": undefined,
  "deploy/upstreams.md": ["yaml"],
};

/** As many blocks as may say that they are not run, each with its reason. */
const NOT_RUN = 12;

describe("what the pages print", () => {
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

  test("few blocks are not run, and they say why", (context) => {
    const blocks = Object.keys(PAGES).flatMap(blocksOf).filter((block) => block.notRun);
    for (const { page, line, notRun } of blocks) context.diagnostic(`${page}:${line} is not run: ${notRun}`);
    assert.ok(blocks.length <= NOT_RUN, `${blocks.length} blocks are not run`);
  });
});
