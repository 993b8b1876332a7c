//! Forks against a plain copy, as criterion benchmarks.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forkline_benches::{Shape, write_jsonl};
use forkline_engines::{Context, JsonlRepo, ListFilter, MemoryRepo, Repo, SqliteRepo, transfer};
use forkline_model::{BranchName, ForkOptions};

fn forks(c: &mut Criterion) {
    let cx = Context::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = write_jsonl(&folder.path().join("source"), Shape::SMALL).expect("a session");
    let bytes = file.metadata().expect("it was just written").len();
    let jsonl = JsonlRepo::open(folder.path().join("source")).expect("a repository");
    let listed = jsonl.list(&ListFilter::default(), &cx).expect("a listing");
    let source = listed.first().expect("the session was just written").clone();
    let main = BranchName::new("main").expect("a valid name");
    let into: [(&str, Box<dyn Repo>); 3] = [
        ("memory", Box::new(MemoryRepo::new())),
        ("jsonl", Box::new(JsonlRepo::open(folder.path().join("jsonl")).expect("a repository"))),
        (
            "sqlite",
            Box::new(SqliteRepo::per_file(folder.path().join("sqlite")).expect("a repository")),
        ),
    ];
    let mut group = c.benchmark_group("fork a JSONL session of 1000 entries");
    group.throughput(Throughput::Bytes(bytes)).sample_size(20);
    group.bench_function("plain copy", |b| {
        b.iter(|| std::fs::copy(&file, folder.path().join("copy")).expect("a copy"));
    });
    for (name, repo) in &into {
        for (scope, options) in
            [("tree", ForkOptions::tree()), ("branch", ForkOptions::branch(main.clone()))]
        {
            group.bench_function(format!("{scope} into {name}"), |b| {
                b.iter(|| {
                    let forked = transfer::fork_unopened(&jsonl, &source, &**repo, &options, &cx);
                    let forked = forked.expect("a fork");
                    repo.delete(&forked.reference, &cx).expect("it was just made");
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, forks);
criterion_main!(benches);
