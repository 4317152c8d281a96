//! The sides of a translation, and the first line of an input, which names them: `hai.string ag-ui strict`.

use diglot::codec::sse::SseLimits;
use diglot::dialect::{self, PeerDialect};
use diglot::fuzzing::config::CompiledDialect;
use diglot::translate::{GuardMode, RunIds, Stream};
use std::path::Path;
use std::sync::LazyLock;

/// Every dialect, with the options that change what it reads or writes. A name is written as in the folders of `tests/golden`.
pub const SIDES: &[&str] = &[
    "ag-ui",
    "hai",
    "hai.string",
    "hai.snake",
    "hai.string.snake",
    "ag-ui-snake",
    "ag-ui-snake.timestamp=s",
    "cloudbase",
    "social-app",
    "ag-ui-0",
    "ag-ui-0.pin=0-1",
    "ag-ui-0.pin=0-0-35",
    "ag-ui-0.pin=0-0-39",
    "ag-ui-0.pin=0-0-42",
    "ag-ui-0.pin=0-0-45",
    "ag-ui-0.pin=0-0-53",
    "ag-ui-0.pin=0-0-57",
    "ag-ui-0.pin=0-0-59",
];

/// The dialects of `config/dialects`, which only agents have.
pub const FILE_DIALECTS: &[&str] = &["openai-chat", "dify-chat", "coze-chat"];

/// The words that may follow the two sides.
pub const FLAGS: &[&str] = &["strict", "small"];

/// The time of every translation, in ms since the epoch.
pub const NOW: i64 = 1_620_000_000_500;

/// Limits that an input of the fuzzer can reach.
const SMALL: SseLimits = SseLimits { line: 2 << 10, frame: 2 << 10 };

/// The first line of an input, read.
#[derive(Clone, Copy, Debug)]
pub struct Sides {
    pub from: PeerDialect,
    pub to: PeerDialect,
    pub is_strict: bool,
    pub is_small: bool,
}

impl Sides {
    /// Splits an input into its sides and the rest. Returns `None` if the first line does not name two sides.
    pub fn read(input: &[u8]) -> Option<(Sides, &[u8])> {
        let end = input.iter().position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&input[..end]).ok()?;
        let mut words = line.split(' ');
        let (from, to) = (words.next()?, side(words.next()?)?);
        let from = side(from).or_else(|| file_side(from))?;
        let flags: Vec<&str> = words.collect();
        let sides = Sides { from, to, is_strict: flags.contains(&"strict"), is_small: flags.contains(&"small") };
        Some((sides, &input[end + 1..]))
    }

    /// Creates the stream of a run `r1` in the thread `t1`.
    pub fn stream(&self) -> Stream {
        let limits = if self.is_small { SMALL } else { SseLimits::default() };
        let mode = if self.is_strict { GuardMode::Strict } else { GuardMode::Repair };
        Stream::new(self.from, self.to, Some(ids()), limits).with_guard_mode(mode)
    }

    /// Translates a body that arrives in these pieces, and ends the run as the data plane does.
    pub fn translate<'p>(&self, pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<u8> {
        Sides::end(self.stream(), pieces)
    }

    /// Translates every frame in full.
    pub fn translate_in_full(&self, body: &[u8]) -> Vec<u8> {
        Sides::end(self.stream().without_shortcut(), [body])
    }

    fn end<'p>(mut stream: Stream, pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in pieces {
            if let Err(error) = stream.push(piece, NOW, &mut out) {
                stream.fail("stopped", &error.to_string(), NOW, &mut out);
                return out;
            }
        }
        if let Err(error) = stream.finish(NOW, &mut out) {
            stream.fail("stopped", &error.to_string(), NOW, &mut out);
        }
        out
    }
}

pub fn ids() -> RunIds {
    RunIds::new("t1", "r1")
}

/// Returns the side with this name: `hai`, `hai.string.snake`, `ag-ui-0.pin=0-0-45`.
pub fn side(name: &str) -> Option<PeerDialect> {
    let mut words = name.split('.');
    let mut side = PeerDialect::new(dialect::find_by_name(words.next()?)?);
    for word in words {
        // A version has dots of its own.
        let (option, word) = match word.split_once('=') {
            Some((option, word)) => (Some(option), word.replace('-', ".")),
            None => (None, word.to_owned()),
        };
        let chosen = dialect::OPTION_CHOICES
            .iter()
            .find(|(owner, own, _)| *own == word && option.is_none_or(|option| *owner == option));
        chosen?.2(&mut side);
    }
    Some(side)
}

/// Returns a file of `config/dialects`, compiled.
pub fn load_file_dialect(name: &str) -> CompiledDialect {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../config/dialects/{name}.yaml"));
    let text = std::fs::read(path).expect("the file is in the repository");
    CompiledDialect::compile(&text).expect("the file is valid")
}

/// Returns the agent of a file of `config/dialects`.
fn file_side(name: &str) -> Option<PeerDialect> {
    static AGENTS: LazyLock<Vec<PeerDialect>> =
        LazyLock::new(|| FILE_DIALECTS.iter().map(|name| load_file_dialect(name).agent()).collect());
    let at = FILE_DIALECTS.iter().position(|own| *own == name)?;
    Some(AGENTS[at])
}

/// Returns ways to cut a body: each byte by itself, each place of a short one, and some pieces.
pub fn cuts(body: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut ways: Vec<Vec<&[u8]>> = Vec::new();
    if body.len() <= 128 {
        ways.extend((1..body.len()).map(|at| vec![&body[..at], &body[at..]]));
    }
    ways.extend((0..3).map(|way| cut(body, way)));
    ways
}

/// Returns one way to cut a body, which the body itself and `way` determine.
pub fn cut(body: &[u8], way: usize) -> Vec<&[u8]> {
    let sum: usize = body.iter().map(|byte| usize::from(*byte)).sum();
    let size = [1, 7, 61, 3, 509][(sum + way) % 5];
    let (first, rest) = body.split_at((sum / 5 % size).min(body.len()));
    std::iter::once(first).chain(rest.chunks(size)).collect()
}
