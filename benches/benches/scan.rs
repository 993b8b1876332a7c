//! Bytes a second of the line scanner, against `serde_json` with the same members routed.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forkline_engines::scan::{Item, Member, Scan, Shape};

static SHAPE: Shape = Shape::new(&[
    Member::decoded("kind"),
    Member::decoded("op"),
    Member::decoded("id"),
    Member::decoded("parentId"),
    Member::decoded("type"),
    Member::decoded("seq"),
    Member::decoded("timestamp"),
    Member::decoded("namespace"),
    Member::decoded("key"),
    Member::placed("value"),
]);

const FILE_BYTES: usize = 32 * 1024 * 1024;

/// Lines of entries around a payload, as many as fit the file.
fn file(payload: &str) -> Vec<u8> {
    let mut file = Vec::with_capacity(FILE_BYTES + payload.len());
    for seq in 1_u64.. {
        let (id, parent) = (uuid_like(seq), uuid_like(seq - 1));
        let head = format!(r#""kind":"entry","id":"{id}","parentId":"{parent}","type":"message""#);
        let tail = format!(r#""seq":{seq},"timestamp":1700000000000"#);
        file.extend_from_slice(format!("{{{head},{payload},{tail}}}\n").as_bytes());
        if file.len() > FILE_BYTES {
            break;
        }
    }
    file
}

fn uuid_like(seq: u64) -> String {
    format!("01890000-0000-7000-8000-{seq:012x}")
}

fn scan(file: &[u8]) -> u64 {
    let mut scan = Scan::new(file, 0, &SHAPE);
    let mut spans = 0;
    while let Some(item) = scan.next().expect("the file is good") {
        if let Item::Object(object) = item {
            let id = object.member(2).expect("entries have ids");
            black_box(id.text.decoded());
            spans += object.span().end;
        }
    }
    spans
}

#[derive(serde::Deserialize)]
#[expect(dead_code, reason = "only read by the deserializer")]
struct Routed<'a> {
    kind: &'a str,
    id: &'a str,
    #[serde(rename = "parentId")]
    parent_id: Option<&'a str>,
    #[serde(rename = "type")]
    entry_type: &'a str,
    seq: u64,
    timestamp: u64,
}

fn serde_json_lines(file: &[u8]) -> u64 {
    let text = str::from_utf8(file).expect("the file is UTF-8");
    text.lines().map(|line| serde_json::from_str::<Routed<'_>>(line).expect("good").seq).sum()
}

fn scans(criterion: &mut Criterion) {
    let short = r#""message":{"role":"user","content":"ok, go on"}"#.to_owned();
    let prose =
        "It was a dark and stormy night; the rain fell in torrents, \\\"except\\\" at times. ";
    let text = format!(r#""message":{{"role":"user","content":"{}"}}"#, prose.repeat(50));
    let call = r#"{"type":"toolCall","id":"c1","arguments":{"path":"a/b.rs","lines":[1,20,-3.5]}}"#;
    let structured = format!(r#""message":{{"content":[{}]}}"#, [call; 30].join(","));

    let mut group = criterion.benchmark_group("scan");
    group.sample_size(10).measurement_time(std::time::Duration::from_secs(2));
    for (name, payload) in [("short", short), ("text", text), ("structured", structured)] {
        let file = file(&payload);
        group.throughput(Throughput::Bytes(file.len() as u64));
        group.bench_with_input(BenchmarkId::new("scanner", name), &file, |bencher, file| {
            bencher.iter(|| scan(file));
        });
        group.bench_with_input(BenchmarkId::new("serde_json", name), &file, |bencher, file| {
            bencher.iter(|| serde_json_lines(file));
        });
    }
    group.finish();
}

criterion_group!(benches, scans);
criterion_main!(benches);
