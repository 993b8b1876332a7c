//! The streaming import of the JSONL engine against the plain one.
//!
//! What goes wrong otherwise: a parent, a reference, a label's order or a retained tail that the
//! index resolves differently from a walk over whole values; damage that only one of them sees.
//! Random files of every version, sound and damaged, and the files of other writers are forked
//! into memory and into a file, in tree and branch scope, with ids from a counter; each result
//! must equal the model's fork of the plain import, byte for byte.

#[path = "support/legacy.rs"]
mod support;

use std::fs;
use std::path::Path;

use forkline_engines::jsonl::{Repair, SALVAGE_TYPE};
use forkline_engines::{
    Clock as _, Context, Error, MemoryRepo, Repo, RepoOptions, SessionRef, transfer,
};
use forkline_gate::fixtures::{fixture, fixture_unless_large, folders};
use forkline_gate::plain_legacy::generate::{Wanted, generate};
use forkline_gate::plain_legacy::{self, Imported, Mode, Refusal, import_counted};
use forkline_model::diff::{Compare, diff};
use forkline_model::{
    Birth, BranchName, EntryId, ErrorKind, ForkOptions, LaneAudit, SessionId, State, StateBuilder,
    TypeName, fork,
};
use proptest::prelude::*;
use support::{FixedClock, environment, listed, picker, repo, root_with, state_of};

/// Forks a file through the engine, into memory and into a file.
fn engine_fork(root: &Path, at: &SessionRef, options: &ForkOptions) -> Result<State, Error> {
    let cx = Context::new();
    let memory = MemoryRepo::with(RepoOptions {
        environment: environment(),
        cwd: Some("/w".to_owned()),
        ..RepoOptions::default()
    });
    let session = transfer::fork(&repo(root), at, &memory, options, &cx)?;
    let state = state_of(&session);
    let to = tempfile::tempdir().expect("a temporary folder");
    let file = transfer::fork(&repo(root), at, &repo(to.path()), options, &cx)?;
    let same = diff(&state_of(&file), &state, &Compare::default());
    assert!(same.is_empty(), "the same fork into a file:\n{same}");
    Ok(state)
}

fn all_options(found: &Imported) -> Vec<ForkOptions> {
    let main = BranchName::new("main").expect("a name");
    let branch = || ForkOptions::branch(main.clone());
    let mut options = vec![ForkOptions::tree(), branch(), branch().before_tip()];
    options.push(ForkOptions::branch(BranchName::new("other").expect("a name")));
    let named = found.ids.keys().map(String::as_str).chain(["n0", "nobody"]);
    for id in named.filter_map(|id| EntryId::new(id).ok()) {
        options.push(branch().at(id.clone()));
        options.push(branch().before(id));
    }
    let id = SessionId::new("fork").expect("an id");
    options.into_iter().map(|options| options.with_id(id.clone())).collect()
}

/// Every fork of a file is the model's fork of the plain import, or the same refusal.
fn compare_forks(bytes: &[u8]) {
    let root = root_with(bytes);
    let Some(at) = listed(root.path()) else {
        assert!(matches!(
            import_counted(bytes, Mode::Refuse),
            Err(Refusal::Header(_) | Refusal::Version(_))
        ));
        return;
    };
    let found = match import_counted(bytes, Mode::Refuse) {
        Ok(found) => found,
        Err(Refusal::Damaged(damage)) => {
            let options = ForkOptions::tree().with_id(SessionId::new("fork").expect("an id"));
            let error = engine_fork(root.path(), &at, &options).expect_err("it is damaged");
            let mut lines: Vec<u64> = damage.iter().map(|damage| damage.line).collect();
            lines.dedup();
            compare_lines(&error, &lines);
            return;
        }
        Err(other) => panic!("{other:?}"),
    };
    assert_eq!(at.metadata, *found.state.metadata());
    for options in all_options(&found) {
        let birth = Birth {
            id: SessionId::new("fork").expect("an id"),
            created_at: FixedClock.now(),
            cwd: at.metadata.cwd.clone(),
        };
        let mapped = found.options(&options);
        let expected = fork(&found.state, &mapped, LaneAudit::Selected, birth);
        match (engine_fork(root.path(), &at, &options), expected) {
            (Ok(forked), Ok(expected)) => {
                let diff = diff(&forked, &expected, &Compare::default());
                assert!(diff.is_empty(), "{options:?}:\n{diff}");
            }
            (Err(error), Err(expected)) => assert_eq!(error.kind(), expected.kind(), "{options:?}"),
            (left, right) => panic!("{options:?}: {left:?}, expected {right:?}"),
        }
    }
    assert_eq!(fs::read(at.path().expect("a file")).expect("still there"), bytes);
}

/// A refusal names exactly these lines, the first one as its place, at most 20 in all.
fn compare_lines(error: &Error, lines: &[u64]) {
    assert_eq!(error.kind(), ErrorKind::CorruptSource, "{error}");
    let text = error.to_string();
    let named: Vec<&str> = lines.iter().take(20).map(|_| "").collect();
    let mut found = Vec::new();
    for part in text.split("line ").skip(1) {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        found.extend(digits.parse::<u64>().ok());
    }
    found.dedup();
    assert_eq!(found.len(), named.len(), "{text}\n{lines:?}");
    assert!(found.iter().eq(lines.iter().take(20)), "{text}\n{lines:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_files_fork_as_the_plain_import_says(
        version in 1_u32..=3,
        is_damaged in prop::bool::weighted(0.3),
        records_max in 1_u32..24,
        seed in any::<u64>(),
    ) {
        let wanted = Wanted { version, records_max, is_damaged };
        let bytes = generate(wanted, &mut picker(seed));
        println!("{}", String::from_utf8_lossy(&bytes));
        compare_forks(&bytes);
    }

    #[test]
    fn random_damaged_files_are_salvaged_as_the_plain_import_says(
        version in 1_u32..=3,
        records_max in 1_u32..24,
        seed in any::<u64>(),
    ) {
        let bytes = generate(Wanted { version, records_max, is_damaged: true }, &mut picker(seed));
        println!("{}", String::from_utf8_lossy(&bytes));
        compare_salvage(&bytes);
    }
}

/// A salvage is the model's fork of what the plain import takes, and one entry that tells.
fn compare_salvage(bytes: &[u8]) {
    let root = root_with(bytes);
    let at = listed(root.path()).expect("its header is sound");
    let found = import_counted(bytes, Mode::Salvage).expect("its header is sound");
    let main = BranchName::new("main").expect("a name");
    for options in [ForkOptions::tree(), ForkOptions::branch(main)] {
        let id = SessionId::new("fork").expect("an id");
        let options = options.with_id(id.clone());
        let into =
            MemoryRepo::with(RepoOptions { environment: environment(), ..Default::default() });
        let cx = Context::new();
        let salvaged = repo(root.path()).salvage(&at, &into, &options, &cx);
        let birth = Birth { id, created_at: FixedClock.now(), cwd: at.metadata.cwd.clone() };
        let expected = fork(&found.state, &options, LaneAudit::Selected, birth);
        let (salvaged, expected) = match (salvaged, expected) {
            (Ok(salvaged), Ok(expected)) => (salvaged, expected),
            (Err(error), Err(expected)) => {
                assert_eq!(error.kind(), expected.kind());
                continue;
            }
            (left, right) => panic!("{left:?}, expected {right:?}"),
        };
        let state = state_of(&into.open(&salvaged.forked.reference, &cx).expect("it is there"));
        let diff = diff(&without_told(&state, &found), &expected, &Compare::default());
        assert!(diff.is_empty(), "{options:?}:\n{diff}");
        let mut told: Vec<(u64, &str)> =
            found.damage.iter().map(|damage| (damage.line, repair(damage.repair))).collect();
        told.sort_unstable();
        told.dedup();
        let mut findings: Vec<(u64, &str)> = salvaged
            .report
            .findings
            .iter()
            .map(|found| (found.line, found.repair.as_str()))
            .collect();
        findings.sort_unstable();
        assert_eq!(findings, told);
        let is_skipped =
            |damage: &&plain_legacy::Damage| damage.repair == plain_legacy::Repair::Skip;
        let skipped = found.damage.iter().filter(is_skipped).count() as u64;
        assert_eq!(salvaged.report.skipped, skipped);
    }
    assert_eq!(fs::read(at.path().expect("a file")).expect("still there"), bytes);
}

fn repair(plain: plain_legacy::Repair) -> &'static str {
    match plain {
        plain_legacy::Repair::Skip => Repair::Skipped.as_str(),
        plain_legacy::Repair::Split => Repair::Split.as_str(),
        plain_legacy::Repair::Reattach => Repair::Reattached.as_str(),
        plain_legacy::Repair::Unlink => Repair::Unlinked.as_str(),
    }
}

/// The state without the entry that tells of a salvage, which must be there if there is damage,
/// and last.
fn without_told(state: &State, found: &Imported) -> State {
    let is_told = !found.damage.is_empty();
    let last = state.entries().values().next_back();
    let last = last.filter(|_| is_told);
    let next_seq = state.next_seq() - u64::from(is_told);
    let mut builder = StateBuilder::new(state.metadata().clone(), next_seq);
    for entry in state.entries().values() {
        if Some(&entry.id) != last.map(|last| &last.id) {
            builder.entry(entry.clone());
        }
    }
    for (address, (seq, value)) in state.values() {
        builder.value(address.clone(), *seq, value.clone());
    }
    if is_told {
        let last = last.expect("a salvage is told of");
        assert_eq!(last.custom_type.as_ref().map(TypeName::as_str), Some(SALVAGE_TYPE));
        assert_eq!(last.seq.get(), next_seq);
    }
    builder.finish().expect("it is a session")
}

#[test]
fn files_of_other_writers_fork_as_the_plain_import_says() {
    let mut count = 0;
    for folder in ["pi-v3", "real"].into_iter().flat_map(folders) {
        for file in fs::read_dir(folder).expect("a folder") {
            let path = file.expect("a file").path();
            let bytes = fs::read(&path).unwrap_or_default();
            if !bytes.starts_with(b"{\"type\":\"session\"") {
                continue;
            }
            if listed(root_with(&bytes).path()).is_some() {
                compare_salvage(&bytes);
            }
            // Large files have many ids: the small ones say enough about them.
            if bytes.len() < 20_000 {
                println!("{}", path.display());
                compare_forks(&bytes);
                count += 1;
            }
        }
    }
    assert!(count >= 50, "{count} files");
}

/// What a refusal says, in which line; several damaged lines are in one report.
#[test]
fn refusals_name_line_and_reason() {
    let mut count = 0;
    for (file, line, expected) in [
        (
            "pi-v3/compaction-kept-elsewhere",
            5,
            "the first kept record is not on the compaction's path",
        ),
        ("pi-v3/forward-parent", 3, "parent is no earlier record"),
        ("pi-v3/missing-parent", 3, "parent is no earlier record"),
        ("pi-v3/self-parent", 2, "parent is no earlier record"),
        ("pi-v3/duplicate-id", 3, "repeated id"),
        ("pi-v3/duplicate-id-dropped", 3, "repeated id"),
        ("pi-v3/unknown-record-type", 3, "unsupported legacy record type \"sticker\""),
        ("pi-v3/record-without-type", 2, "unsupported legacy record type (none)"),
        ("pi-v3/null-id", 2, "id is missing or no text"),
        ("pi-v3/label-missing-target", 3, "names a record that is not there"),
        ("pi-v3/branch-summary-missing-source", 3, "names a record that is not there"),
        ("pi-v3/bad-record-timestamp", 2, "timestamp is missing or no time"),
        ("pi-v3/blank-line", 3, "no JSON object: line is blank"),
        ("real/v1-bake", 8, "no JSON object: expected an object"),
        ("real/v1-pi-mono-glued-line-440", 440, "no JSON object: unexpected text behind"),
        ("real/v1-pi-mono-glued-line-6", 6, "no JSON object: unexpected text behind"),
        ("real/v3-agent-ide-bad-escape-line-44", 44, "; line 45: parent is no earlier record"),
        ("real/v3-bake-pi-1.1.0-all-types", 28, "unsupported legacy record type \"future_entry\""),
        (
            "real/v3-openclaw-4-missing-parents",
            2,
            "; line 6: parent is no earlier record; line 8: ",
        ),
    ] {
        let Some(path) = fixture_unless_large(&format!("{file}.jsonl")) else { continue };
        let bytes = fs::read(path).expect("a fixture");
        let root = root_with(&bytes);
        let at = listed(root.path()).expect("it is listed");
        let options = ForkOptions::tree().with_id(SessionId::new("fork").expect("an id"));
        let text = engine_fork(root.path(), &at, &options).expect_err("it is damaged").to_string();
        let place = format!("x_legacy.jsonl, line {line}: ");
        assert!(text.contains(&place) && text.contains(expected), "{file}: {text}");
        let opened = repo(root.path()).open(&at, &Context::new()).map(|_| ());
        assert_eq!(opened.expect_err("it is damaged").to_string(), text);
        count += 1;
    }
    assert!(count >= 17, "{count} files");
    for (file, kind) in [
        ("pi-v3/parent-not-text", ErrorKind::CorruptSource),
        ("pi-v3/bad-header-timestamp", ErrorKind::CorruptSource),
    ] {
        let bytes = fs::read(fixture(&format!("{file}.jsonl"))).expect("a fixture");
        compare_header_refusal(&bytes, kind);
    }
    let other_version = b"{\"type\":\"session\",\"version\":5,\"id\":\"legacy\"}\n";
    compare_header_refusal(other_version, ErrorKind::UnsupportedVersion);
}

/// A file whose header cannot be read is not listed, and refused when named.
fn compare_header_refusal(bytes: &[u8], kind: ErrorKind) {
    let root = root_with(bytes);
    assert_eq!(listed(root.path()), None);
    let sound = root_with(
        b"{\"type\":\"session\",\"version\":3,\"id\":\"legacy\",\
        \"timestamp\":\"2024-03-01\",\"cwd\":\"/w\"}\n",
    );
    let at = listed(sound.path()).expect("it is listed");
    fs::write(at.path().expect("a file"), bytes).expect("it is written");
    let options = ForkOptions::tree().with_id(SessionId::new("fork").expect("an id"));
    let error = engine_fork(sound.path(), &at, &options).expect_err("it has no header");
    assert_eq!(error.kind(), kind, "{error}");
}
