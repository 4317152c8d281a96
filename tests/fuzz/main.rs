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
mod dialect_file;
mod replay;
mod mutate;
mod seeds;
#[path = "../it/exact_json.rs"]
#[allow(dead_code, reason = "the laws use more of it")]
mod exact_json;

use mutate::InputForm;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

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
    FuzzTarget { name: "dialect-file", run: dialect_file::run, form: InputForm::Lines, seeds: seeds::dialect_files },
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

/// Does what the environment requests instead of fuzzing, or prepares for it.
fn prepare() {
    if let Some(folder) = std::env::var_os("DIGLOT_FUZZ_SEEDS") {
        write_seeds(Path::new(&folder));
        std::process::exit(0);
    }
    work::register_counters();
    keep_failing_input();
    if let Ok(runs) = std::env::var("DIGLOT_FUZZ_RUNS") {
        run_fixed_inputs(runs.parse().expect("DIGLOT_FUZZ_RUNS is a number"));
        std::process::exit(0);
    }
}

/// Writes the first inputs of all targets below a folder, and prints the targets.
fn write_seeds(folder: &Path) {
    for target in TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        for (number, input) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(folder.join(format!("{number:05}")), input).expect("the folder can be written");
        }
        println!("{}", target.name);
    }
}

/// Runs the regressions, the first inputs, and some mutations of these: the same ones each time, so that a change of the code is the
/// only reason for another result.
fn run_fixed_inputs(runs: usize) {
    let target = target();
    let regressions = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions").join(target.name);
    let mut inputs: Vec<_> =
        std::fs::read_dir(regressions).into_iter().flatten().flatten().map(|one| one.path()).collect();
    inputs.sort();
    for path in &inputs {
        run_one(target, std::fs::read(path).expect("a regression can be read"));
    }
    let seeds = (target.seeds)();
    let mut bytes = 0;
    for number in 0..runs {
        let seed = &seeds[number % seeds.len()];
        // The first round is that of the seeds as they are.
        let input = if number < seeds.len() {
            seed.clone()
        } else {
            mutate::mutate_by_number(target.form, seed, number as u64)
        };
        bytes += input.len();
        run_one(target, input);
    }
    println!("{}: {} regressions, {runs} inputs of {bytes} bytes", target.name, inputs.len());
}

/// The input that is being run.
static CURRENT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn run_one(target: &FuzzTarget, input: Vec<u8>) {
    CURRENT.lock().expect("one thread").clone_from(&input);
    (target.run)(&input);
}

/// Writes the input to the file in `DIGLOT_FUZZ_FAILED` if it breaks a law. libFuzzer keeps those that it runs itself.
fn keep_failing_input() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let input = CURRENT.lock().expect("one thread").clone();
        if let Some(path) = std::env::var_os("DIGLOT_FUZZ_FAILED").filter(|_| !input.is_empty()) {
            let _ = std::fs::write(&path, &input);
            eprintln!("the input is in {}", Path::new(&path).display());
        }
        report(info);
    }));
}

libfuzzer_sys::fuzz_target!(init: prepare(), |input: &[u8]| {
    (target().run)(input);
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(target().form, data, size, max_size, seed)
});
