//! A short run of the gate over every engine finds no difference, and the same seed gives the
//! same run: else a failure could not be replayed, nor a long run be sharded.
//!
//! `FORKLINE_SEED` and `FORKLINE_CASES` choose another one.

use forkline_gate::gate::{Engines, Options, operations, run};
use forkline_gate::lineup::EngineKind;

fn number(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |text| text.parse().expect("it is a number"))
}

#[test]
fn no_engine_differs_from_the_model() {
    let (seed, cases) = (number("FORKLINE_SEED", 1), number("FORKLINE_CASES", 24));
    eprintln!("FORKLINE_SEED={seed} FORKLINE_CASES={cases}");
    let options = Options { seed, cases, ..Options::default() };
    let outcome = run(&options, &Engines(EngineKind::ALL.to_vec()), &|| ()).unwrap();
    if let Some(failure) = outcome.failure {
        let trace = forkline_gate::gate::to_text(&failure.trace);
        panic!("case {}: {}\n{trace}", failure.case, failure.violation);
    }
    assert_eq!(outcome.tally.cases, cases);
}

#[test]
fn the_same_seed_gives_the_same_run_however_it_is_cut() {
    let engines = Engines(vec![EngineKind::Memory, EngineKind::Jsonl]);
    let options = Options { seed: 5, cases: 12, jobs: 1, ..Options::default() };
    let whole = run(&options, &engines, &|| ()).unwrap();
    assert_eq!(whole.failure, None);
    let mut parts = forkline_gate::gate::Tally::default();
    for shard in 1..=3 {
        let options = Options { shard: (shard, 3), jobs: 2, ..options.clone() };
        parts.add(&run(&options, &engines, &|| ()).unwrap().tally);
    }
    assert_eq!(whole.tally, parts);

    let other = Options { seed: 6, ..options.clone() };
    for case in 0..12 {
        assert_eq!(operations(&options, case), operations(&options, case));
        assert_ne!(operations(&options, case), operations(&other, case));
        let count = operations(&options, case).1.len();
        assert!(options.ops.contains(&count), "{count} operations");
    }
}
