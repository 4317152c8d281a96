// The fenced blocks of a page of the documentation, and the directives before them.
import { readFileSync } from "node:fs";

const ROOT = new URL("../../../../", import.meta.url);

/** The text of a file of the repository. */
export const read = (name) => readFileSync(new URL(name, ROOT), "utf8");

/**
 * Returns the blocks of the page `name`, in order: language, lines, first line, the file that the sentence before
 * names, and the HTML comment right before the block. There are three such comments: `not run: REASON`; `runs on`, for
 * a program that is a server; and `given: COMMAND`, for a server that the reader of the page has running.
 */
export function blocksOf(name) {
  const blocks = [];
  let [block, before] = [undefined, []];
  read(name).split("\n").forEach((line, index) => {
    const fence = /^( *)```(\S*)$/.exec(line);
    if (block && fence) {
      blocks.push(block);
      [block, before] = [undefined, []];
    } else if (block) {
      block.lines.push(line.startsWith(block.indent) ? line.slice(block.indent.length) : line);
    } else if (fence) {
      block = { page: name, line: index + 1, indent: fence[1], language: fence[2], lines: [], ...saidBefore(before, fence[2]) };
    } else {
      before = line.startsWith("#") ? [] : [...before, line];
    }
  });
  if (block) throw new Error(`${name}:${block.line}: the block has no end`);
  return blocks;
}

const SUFFIX = { yaml: "yaml", js: "mjs", python: "py" };

/** Returns the directives in the paragraph before a block. A comment counts only if the fence follows it. */
function saidBefore(lines, language) {
  const text = lines.join("\n").trimEnd();
  const comment = /<!-- (?:not run: (?<notRun>[^>]+)|given: (?<given>[^>]+)|(?<runsOn>runs on)) -->$/.exec(text);
  const paragraph = (comment ? text.slice(0, comment.index).trimEnd() : text).split("\n\n").at(-1);
  const files = [...paragraph.matchAll(/`([\w-]+\.(\w+))`/g)].filter(([, , suffix]) => suffix === SUFFIX[language]);
  const ends = /[:：]$/.test(paragraph);
  return { ...comment?.groups, file: ends ? files.at(-1)?.[1] : undefined };
}
