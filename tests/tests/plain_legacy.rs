//! The plain import of legacy files gives what another implementation recorded for its own
//! fixtures, minted ids aside, and refuses what that one refuses; where the contract departs
//! from it (versions 1 and 2, an empty tail), the difference is named here.

#[path = "support/recorded.rs"]
mod recorded;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use forkline_gate::fixtures::{fixture, fixture_unless_large, fixtures};
use forkline_gate::plain_legacy::generate::{Wanted, generate};
use forkline_gate::plain_legacy::{Imported, Members, Mode, Outside, Refusal, import};
use forkline_model::policy::LaneShape;
use forkline_model::{Birth, BranchName, Error, Json, LaneAudit, Millis, SessionId, fork};
use recorded::{TAKEN, elements, members, number, options, recorded_fork, recorded_state, same};

fn import_file(path: &Path, mode: Mode) -> Result<Imported, Refusal> {
    let folder = path.parent().unwrap();
    let parent = |at: &str| {
        let first = fs::read_to_string(folder.join(at)).ok()?;
        let header = Members::parse(first.lines().next()?)?;
        SessionId::new(header.text("id")?).ok()
    };
    let mut mint = |order: usize, _: Millis, id: Option<&str>| match id {
        Some(id) => format!("@{id}"),
        None => format!("@{order}"),
    };
    import(&fs::read(path).unwrap(), mode, &mut Outside { mint: &mut mint, parent: &parent })
}

/// What a refused file says, and in which line.
fn refusals() -> BTreeMap<&'static str, (u64, &'static str)> {
    BTreeMap::from([
        ("compaction-kept-elsewhere", (5, "firstKeptEntryId is not on its path")),
        ("forward-parent", (3, "its parent is no earlier record")),
        ("missing-parent", (3, "its parent is no earlier record")),
        ("self-parent", (2, "its parent is no earlier record")),
        ("duplicate-id", (3, "an earlier record has this id")),
        ("duplicate-id-dropped", (3, "an earlier record has this id")),
        ("unknown-record-type", (3, "unsupported legacy record type \"sticker\"")),
        ("record-without-type", (2, "unsupported legacy record type (none)")),
        ("null-id", (2, "id is missing or no text")),
        ("label-missing-target", (3, "names a record that is not there")),
        ("branch-summary-missing-source", (3, "names a record that is not there")),
        ("bad-record-timestamp", (2, "timestamp is no time")),
        ("blank-line", (3, "is not one JSON object")),
        ("v4-writes-in-v3", (0, "")),
    ])
}

#[test]
fn imports_equal_what_another_implementation_recorded() {
    let folder = fixtures().join("pi-v3");
    let manifest = members(&fs::read_to_string(folder.join("manifest.json")).unwrap());
    let (mut imported, mut refused, mut forks) = (0, 0, 0);
    for file in elements(manifest.raw("files").unwrap()) {
        let file = members(file.get());
        let name = file.text("name").unwrap();
        let path = fixture(&format!("pi-v3/{name}.jsonl"));
        let result = import_file(&path, Mode::Refuse);
        let opened = members(file.raw("opened").unwrap());
        if opened.raw("ok") != Some("true") && !TAKEN.contains(&name.as_str()) {
            refused += 1;
            match result {
                Err(Refusal::Header(_)) => {
                    assert!(
                        ["parent-not-text", "bad-header-timestamp"].contains(&&*name),
                        "{name}"
                    );
                }
                Err(Refusal::Damaged(damage)) => {
                    let expected = refusals();
                    let (line, what) = expected.get(name.as_str()).expect("an expected refusal");
                    let first = &damage[0];
                    if *line > 0 {
                        assert_eq!(
                            (first.line, &*first.what.to_string()),
                            (*line, *what),
                            "{name}"
                        );
                    }
                }
                other => panic!("{name}: {other:?}"),
            }
            continue;
        }
        let found = result.unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
        imported += 1;
        if let Some(state) = opened.text("state") {
            let (recorded, stats) = recorded_state(&folder.join(state));
            same(&name, &found.state, &recorded);
            let usage = found.usage.as_ref().expect("it can be summed").to_json();
            let expected = Json::parse(stats.raw("usage").unwrap()).unwrap();
            assert!(usage.equals_as_doubles(&expected), "{name}: {usage} {expected}");
            assert_eq!(found.state.stats().message_count, number(&stats, "messageCount"));
        }
        forks += compare_forks(&folder, &name, &file, &found);
    }
    println!("{imported} imported, {refused} refused, {forks} forks");
    assert!(imported >= 25 && refused >= 15 && forks >= 50, "{imported} {refused} {forks}");
}

fn compare_forks(folder: &Path, name: &str, file: &Members, found: &Imported) -> usize {
    let forks = elements(file.raw("forks").unwrap_or("[]"));
    for recorded in &forks {
        let recorded = members(recorded.get());
        let options = options(&members(recorded.raw("options").unwrap()));
        let birth = Birth {
            id: SessionId::new(recorded.text("id").unwrap()).unwrap(),
            created_at: Millis::new(1_700_001_000_000).unwrap(),
            cwd: Some("/workspace/demo".to_owned()),
        };
        let options = found.options(&options);
        let forked = fork(&found.state, &options, LaneAudit::Selected, birth);
        match (forked, recorded.text("file")) {
            (Ok(forked), Some(at)) => same(name, &forked, &recorded_fork(&folder.join(at))),
            (Err(Error::NotALane { .. } | Error::EntryNotOnBranch { .. }), None) => {}
            (Ok(_), None) if TAKEN.contains(&name) => {}
            (other, at) => panic!("{name}, {options:?}: {other:?}, recorded {at:?}"),
        }
    }
    forks.len()
}

#[test]
fn real_files_are_taken_or_refused_with_their_lines() {
    let outcome = |path: &Path| match import_file(path, Mode::Refuse) {
        Ok(found) => {
            format!("{} records, {} entries", found.records, found.state.entries().len())
        }
        Err(Refusal::Damaged(damage)) => {
            let lines: Vec<_> = damage.iter().map(|damage| damage.line.to_string()).collect();
            format!("damaged {}", lines.join(" "))
        }
        Err(other) => format!("{other:?}"),
    };
    let mut count = 0;
    for (name, expected) in [
        ("v1-pi-mono-glued-line-440", "damaged 440"),
        ("v1-pi-mono-glued-line-6", "damaged 6"),
        ("v1-whamp-linear-with-parentSession", "4 records, 4 entries"),
        ("v1-bake", "damaged 8"),
        ("v1-bake.pi-1.1.0-after-open", "7 records, 6 entries"),
        ("v3-bake-pi-1.1.0-all-types", "damaged 28"),
        ("v3-zig-small", "12 records, 8 entries"),
        ("v3-trl-163-lines", "162 records, 159 entries"),
        ("v3-superpowers-slice", "9 records, 7 entries"),
        ("v3-agent-ide-bad-escape-line-44", "damaged 44 45"),
        ("v3-switchboard-windows-cwd", "12 records, 8 entries"),
        ("v3-agent-sessions-2-compactions", "8 records, 6 entries"),
        ("v3-specstory-full-format", "19 records, 15 entries"),
        ("v3-openclaw-4-missing-parents", "damaged 2 6 8 11"),
    ] {
        let Some(path) = fixture_unless_large(&format!("real/{name}.jsonl")) else { continue };
        assert_eq!(outcome(&path), expected, "{name}");
        count += 1;
    }
    assert!(count >= 11, "{count} files");
}

#[test]
fn a_salvage_takes_every_whole_record() {
    let mut count = 0;
    for (name, records, lines) in [
        ("v1-pi-mono-glued-line-440", 463, vec![440]),
        ("v1-pi-mono-glued-line-6", 10, vec![6]),
        ("v3-agent-ide-bad-escape-line-44", 158, vec![44, 45]),
        ("v3-bake-pi-1.1.0-all-types", 27, vec![28]),
        ("v3-openclaw-4-missing-parents", 10, vec![2, 6, 8, 11]),
    ] {
        let Some(path) = fixture_unless_large(&format!("real/{name}.jsonl")) else { continue };
        let found = import_file(&path, Mode::Salvage).expect("it has a header");
        assert_eq!(found.records, records, "{name}");
        let found: Vec<u64> = found.damage.iter().map(|damage| damage.line).collect();
        assert_eq!(found, lines, "{name}");
        count += 1;
    }
    assert!(count >= 3, "{count} files");
}

/// What versions 1 and 2 are, said by the file that a later release made of one.
#[test]
fn version_1_equals_the_file_that_its_migration_left() {
    let number = |path: &str| {
        let mut mint = |order: usize, _: Millis, _: Option<&str>| format!("n{order}");
        let bytes = fs::read(fixture(&format!("real/{path}"))).unwrap();
        let outside = &mut Outside { mint: &mut mint, parent: &|_| None };
        // Line 8 of the version 1 file is no JSON; the migration left it out.
        import(&bytes, Mode::Salvage, outside).unwrap()
    };
    let (first, third) = (number("v1-bake.jsonl"), number("v1-bake.pi-1.1.0-after-open.jsonl"));
    let entries = |found: &Imported| found.state.entries().clone();
    assert_eq!(entries(&first), entries(&third));
    assert_eq!(first.usage, third.usage);
    // The migration leaves the initial configuration in a header that version 3 does not look at.
    let main = BranchName::new("main").unwrap();
    let shape = |found: &Imported| forkline_model::Lane::of(&found.state, &main).shape();
    assert_eq!((shape(&first), shape(&third)), (LaneShape::Complete, LaneShape::DataOnly));
}

/// The generator makes every kind of record, and damage that every repair is for.
#[test]
fn the_generator_makes_what_the_tests_are_about() {
    let mut found = std::collections::BTreeSet::new();
    for seed in 0..400_u32 {
        let mut drawn = u64::from(seed);
        let mut pick = |below: u32| {
            drawn = drawn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            u32::try_from((drawn >> 33) % u64::from(below.max(1))).expect("below a u32")
        };
        let is_damaged = seed % 2 == 1;
        let wanted = Wanted { version: 1 + seed % 3, records_max: 24, is_damaged };
        let bytes = generate(wanted, &mut pick);
        let mut mint = |order: usize, _: Millis, _: Option<&str>| format!("n{order}");
        let outside = &mut Outside { mint: &mut mint, parent: &|_| None };
        let taken = import(&bytes, Mode::Salvage, outside).expect("it has a header");
        assert!(is_damaged || taken.damage.is_empty(), "seed {seed}: {:?}", taken.damage);
        found.extend(taken.damage.iter().map(|damage| format!("{:?}", damage.repair)));
        for entry in taken.state.entries().values() {
            found.insert(entry.entry_type.as_str().to_owned());
            let tail = Members::parse(entry.payload.as_str()).and_then(|payload| {
                payload.raw("retainedTail").map(|tail| format!("tail {}", tail.len() > 2))
            });
            found.extend(tail);
        }
        for address in taken.state.values().keys() {
            found.insert(address.namespace.as_str().to_owned());
        }
    }
    let expected = [
        "Reattach",
        "Skip",
        "Split",
        "Unlink",
        "branch_summary",
        "compaction",
        "custom",
        "message",
        "pi.branch.tip",
        "pi.entry.label",
        "pi.lane.config",
        "pi.lane.state",
        "pi.session.name",
        "tail false",
        "tail true",
    ];
    assert!(found.iter().map(String::as_str).eq(expected), "{found:?}");
}
