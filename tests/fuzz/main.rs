//! Fuzz targets with libFuzzer. `tests/fuzz/run` (or `make fuzz`) builds and runs them; the target is the variable
//! `DIGLOT_FUZZ_TARGET`.
//!
//! | file | holds |
//! |---|---|
//! | `streams.rs` to `replay.rs` | the targets: an input and its laws |
//! | `judge.rs` | what all targets require |
//! | `work.rs` | counts executed edges, since time is no judge |
//! | `mutate.rs` | mutations that keep the structure of an input |
//! | `seeds.rs` | the first inputs, from the golden cases |
//! | `internals/` | opens private parts of `diglot`; compiled into it |
//! | `regressions/` | inputs that once broke a law, named after the cause |
#![no_main]

mod work;
mod sides;
mod judge;
mod streams;
mod growth;
mod sse;
mod requests;
mod protobuf;
mod tokens;
mod proxy_header;
mod cursor;
mod config;
mod replay;
mod mutate;
mod seeds;
#[path = "../it/exact_json.rs"]
#[allow(dead_code, reason = "the laws use more of it")]
mod exact_json;

use mutate::InputForm;
use std::path::Path;
use std::sync::OnceLock;

struct FuzzTarget {
    name: &'static str,
    run: fn(&[u8]),
    form: InputForm,
    seeds: fn() -> Vec<Vec<u8>>,
}

const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "sse", run: sse::run, form: InputForm::Bytes, seeds: seeds::sse },
    FuzzTarget { name: "streams", run: streams::run, form: InputForm::Frames, seeds: seeds::streams },
    FuzzTarget { name: "growth", run: growth::run, form: InputForm::Frames, seeds: seeds::growth },
    FuzzTarget { name: "requests", run: requests::run, form: InputForm::Json, seeds: seeds::requests },
    FuzzTarget { name: "protobuf", run: protobuf::run, form: InputForm::Bytes, seeds: seeds::protobuf },
    FuzzTarget { name: "tokens", run: tokens::run, form: InputForm::Bytes, seeds: seeds::tokens },
    FuzzTarget { name: "proxy-header", run: proxy_header::run, form: InputForm::Bytes, seeds: seeds::proxy_header },
    FuzzTarget { name: "cursor", run: cursor::run, form: InputForm::Bytes, seeds: seeds::cursor },
    FuzzTarget { name: "config", run: config::run, form: InputForm::Lines, seeds: seeds::config },
    FuzzTarget { name: "replay", run: replay::run, form: InputForm::Bytes, seeds: seeds::replay },
];

static TARGET: OnceLock<&FuzzTarget> = OnceLock::new();

fn target() -> &'static FuzzTarget {
    TARGET.get_or_init(|| {
        let name = std::env::var("DIGLOT_FUZZ_TARGET").unwrap_or_default();
        let names = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(" ");
        TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
            eprintln!("DIGLOT_FUZZ_TARGET is {name:?}; the targets are: {}", names());
            std::process::exit(2)
        })
    })
}

/// Writes the first inputs of all targets below the folder in `DIGLOT_FUZZ_SEEDS` and exits, if the variable is set.
fn prepare() {
    if let Some(folder) = std::env::var_os("DIGLOT_FUZZ_SEEDS") {
        for target in TARGETS {
            let folder = Path::new(&folder).join(target.name);
            std::fs::create_dir_all(&folder).expect("the folder can be made");
            for (number, input) in (target.seeds)().into_iter().enumerate() {
                std::fs::write(folder.join(format!("{number:05}")), input).expect("the folder can be written");
            }
            println!("{}", target.name);
        }
        std::process::exit(0);
    }
    work::register_counters();
    target();
}

libfuzzer_sys::fuzz_target!(init: prepare(), |input: &[u8]| {
    (target().run)(input);
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(target().form, data, size, max_size, seed)
});
