//! A short run of the gate over every engine: the same run for the same seed, and no difference.
//!
//! `FORKLINE_SEED` and `FORKLINE_CASES` choose another one.

use forkline_gate::gate::{Engines, Options, run};
use forkline_gate::lineup::EngineKind;

#[test]
fn no_engine_differs_from_the_model() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
    };
    let engines =
        std::env::var("FORKLINE_ENGINES").unwrap_or("memory,jsonl,sqlite,sqlite-shared".into());
    let engines: Vec<EngineKind> = engines.split(',').map(|n| n.parse().unwrap()).collect();
    let (seed, cases) = (number("FORKLINE_SEED", 1), number("FORKLINE_CASES", 40));
    eprintln!("seed {seed}, {cases} cases");
    let options = Options { seed, cases, ..Options::default() };
    let outcome = run(&options, &Engines(engines), &|| ()).unwrap();
    eprintln!("{:#?} {:?}", outcome.tally, outcome.elapsed);
    if let Some(failure) = outcome.failure {
        panic!(
            "case {} of {} ops\n{}\n{}",
            failure.case,
            failure.found_ops,
            failure.violation,
            forkline_gate::gate::to_text(&failure.trace)
        );
    }
}
