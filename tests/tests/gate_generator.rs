//! The generator reaches what it is for: a green gate over operations that never meet the hard
//! shapes would mean nothing. The model alone is run, without any engine.

use forkline_gate::gate::{Bucket, Engines, Options, run};

#[test]
fn every_bucket_of_the_coverage_table_is_reached_as_often_as_it_says() {
    let nobody = Engines(Vec::new());
    let options = Options { seed: 3, cases: 1000, ..Options::default() };
    let tally = run(&options, &nobody, &|| ()).unwrap().tally;
    let short: Vec<(&str, u64, Option<u64>)> = tally
        .missed()
        .into_iter()
        .map(|bucket| (bucket.name(), tally.reached(bucket), tally.floor(bucket)))
        .collect();
    assert!(short.is_empty(), "seed {}: reached, of at least: {short:?}", options.seed);
    // Every bucket has a floor in a run of this size: none can be lost in silence.
    assert!(Bucket::ALL.iter().all(|bucket| tally.floor(*bucket).is_some_and(|floor| floor > 0)));
    assert!(tally.operation_count() >= 20 * tally.cases);
}

#[test]
fn a_run_too_small_to_tell_has_no_floors_for_rare_shapes() {
    let options = Options { seed: 3, cases: 5, ..Options::default() };
    let tally = run(&options, &Engines(Vec::new()), &|| ()).unwrap().tally;
    assert_eq!(tally.floor(Bucket::DeletedMeanwhile), None);
    assert_eq!(tally.missed(), Vec::new());
}
