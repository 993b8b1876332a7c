//! Salvage of damaged files of format 4: every commit that can be read whole is in the fork, what
//! is lost is named, its seqs stay unused, and what hung on it hangs on the nearest entry before.
//!
//! What goes wrong otherwise: one broken line costs a whole session, or a salvage invents state
//! that nobody committed.

#[path = "support/legacy.rs"]
mod support;

use std::fmt::Write as _;
use std::fs;

use forkline_engines::jsonl::{SALVAGE_TYPE, SalvageReport};
use forkline_engines::{Context, Error, MemoryRepo, Repo, RepoOptions};
use forkline_model::{BranchName, EntryId, ForkOptions, SessionId, State, TypeName, policy};
use proptest::prelude::*;
use support::{environment, listed, picker, repo, root_with, state_of};

const HEADER: &str =
    r#"{"v":4,"kind":"header","id":"legacy","storageVersion":1,"createdAt":5,"cwd":"/w"}"#;
const E1: &str = r#"{"kind":"entry","id":"e1","parentId":null,"type":"message","message":{"a":1.0},"seq":1,"timestamp":7}"#;
const E2: &str = r#"{"kind":"entry","id":"e2","parentId":"e1","type":"message","message":{},"seq":2,"timestamp":7}"#;
const LANE: &str = r#"[{"kind":"value","op":"set","seq":3,"namespace":"pi.branch.tip","key":"main","value":"e2"},{"kind":"value","op":"set","seq":4,"namespace":"pi.lane.config","key":"main","value":{}},{"kind":"value","op":"set","seq":5,"namespace":"pi.lane.state","key":"main","value":{}}]"#;
const E3: &str = r#"[{"kind":"entry","id":"e3","parentId":"e2","type":"message","message":{},"seq":6,"timestamp":7},{"kind":"value","op":"set","seq":7,"namespace":"pi.branch.tip","key":"main","value":"e3"}]"#;
const APP: &str =
    r#"{"kind":"list","op":"append","seq":8,"namespace":"app","key":"k","value":"\ud800"}"#;

fn file(lines: &[&str]) -> Vec<u8> {
    let mut text = format!("{HEADER}\n");
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text.into_bytes()
}

fn salvage(bytes: &[u8], options: ForkOptions) -> Result<(State, SalvageReport), Error> {
    let cx = Context::new();
    let root = root_with(bytes);
    let at = listed(root.path()).expect("its header is sound");
    let into = MemoryRepo::with(RepoOptions { environment: environment(), ..Default::default() });
    let options = options.with_id(SessionId::new("fork").expect("an id"));
    let salvaged = repo(root.path()).salvage(&at, &into, &options, &cx);
    assert_eq!(fs::read(at.path().expect("a file")).expect("still there"), bytes);
    let salvaged = salvaged?;
    let session = into.open(&salvaged.forked.reference, &cx).expect("it is there");
    Ok((state_of(&session), salvaged.report))
}

/// Entries with their parents and seqs, the tip, the next seq, and what was found.
fn outcome(bytes: &[u8]) -> String {
    let (state, report) = salvage(bytes, ForkOptions::tree()).expect("it can be salvaged");
    let mut text = String::new();
    for entry in state.entries().values() {
        if entry.custom_type == Some(TypeName::new(SALVAGE_TYPE).expect("a name")) {
            assert_eq!(entry.parent, None);
            assert_eq!(entry.seq.get() + 1, state.next_seq());
            text.push_str("told ");
            continue;
        }
        let parent = entry.parent.as_ref().map_or("-", EntryId::as_str);
        write!(text, "{}<{parent}@{} ", entry.id.as_str(), entry.seq).expect("a String");
    }
    let tip = state.get_value(&policy::tip_address(&BranchName::new("main").expect("a name")));
    text.push_str(&tip.map_or("no tip".to_owned(), |(_, tip)| format!("tip {tip}")));
    write!(text, " next {}", state.next_seq()).expect("a String");
    for finding in &report.findings {
        write!(text, ", {} {}", finding.line, finding.repair.as_str()).expect("a String");
    }
    text
}

#[test]
fn what_can_be_read_is_taken() {
    let broken = &E2[..50];
    let bad_write = E3.replace("\"op\":\"set\"", "\"op\":\"sot\"");
    let repeated = E2.replace("\"seq\":2", "\"seq\":9").replace("\"a\"", "\"b\"");
    let falling = APP.replace("\"seq\":8", "\"seq\":4");
    let own_parent = E2.replace("\"e1\"", "\"e2\"");
    let glued = format!("{E2}{LANE}");
    let half_glued = format!("{broken}{LANE}");
    for (lines, expected) in [
        (vec![E1, E2, LANE, E3, APP], "e1<-@1 e2<e1@2 e3<e2@6 tip \"e3\" next 9"),
        (
            vec![E1, broken, LANE, E3, APP],
            "e1<-@1 e3<e1@6 told tip \"e3\" next 10, 3 skipped, 4 reattached, 5 reattached",
        ),
        (vec![E1, E2, LANE, broken, APP], "e1<-@1 e2<e1@2 told tip \"e2\" next 10, 5 skipped"),
        (vec![E1, &glued, E3, APP], "e1<-@1 e2<e1@2 e3<e2@6 told tip \"e3\" next 10, 3 split"),
        (
            vec![E1, &half_glued, E3, APP],
            "e1<-@1 e3<e1@6 told tip \"e3\" next 10, 3 skipped, 4 reattached",
        ),
        (vec![E1, E2, LANE, &bad_write, APP], "e1<-@1 e2<e1@2 told tip \"e2\" next 10, 5 skipped"),
        (
            vec![E1, E2, LANE, E3, APP, &repeated],
            "e1<-@1 e2<e1@2 e3<e2@6 told tip \"e3\" next 11, 7 skipped",
        ),
        (
            vec![E1, E2, LANE, E3, &falling],
            "e1<-@1 e2<e1@2 e3<e2@6 told tip \"e3\" next 9, 6 skipped",
        ),
        (vec![E1, &own_parent], "e1<-@1 e2<e1@2 told no tip next 4, 3 reattached"),
        (vec![E3], "e3<-@6 told tip \"e3\" next 9, 2 reattached"),
        (vec!["", "\0\0", "[]"], "told no tip next 2, 2 skipped, 3 skipped"),
        (vec![], "no tip next 1"),
    ] {
        assert_eq!(outcome(&file(&lines)), expected, "{lines:#?}");
    }
}

#[test]
fn a_branch_fork_works_again_and_a_sound_file_is_not_told_of() {
    let bytes = file(&[E1, &E2[..50], LANE, E3, APP]);
    let main = ForkOptions::branch(BranchName::new("main").expect("a name"));
    let (state, report) = salvage(&bytes, main.clone()).expect("it can be salvaged");
    let ids: Vec<&str> = state.entries().values().map(|entry| entry.id.as_str()).collect();
    assert_eq!((ids.len(), ids.first()), (3, Some(&"e1")));
    assert!(report.findings.len() == 3 && report.more == 0 && report.taken == 7, "{report:?}");
    assert_eq!(report.skipped, 1);
    let (state, report) = salvage(&file(&[E1, E2, LANE, E3, APP]), main).expect("it is sound");
    assert!(report.is_empty());
    assert_eq!(state.entries().len(), 3);
}

/// Writes are counted, not lines: those of a commit that can be read and not taken, and one for
/// a line that is no JSON.
#[test]
fn what_is_skipped_is_counted_in_writes() {
    let glued = format!("{E1}{E2}");
    let repeated =
        format!("{E1}{LANE}").replace("\"seq\":1", "\"seq\":9").replace("\"seq\":3", "\"seq\":0");
    for (lines, taken, skipped) in [
        (vec![E1, E2, LANE], 5, 0),
        (vec![E1, E2, LANE, "", "[1]", "null", &APP[..40]], 5, 4),
        (vec![E1, E2, &LANE.replace("\"op\":\"set\"", "\"op\":\"sot\""), APP], 3, 3),
        (vec![LANE, &glued, APP], 4, 2),
        (vec![&repeated, APP], 1, 4),
        (vec![E1, E2, &APP.replace("\"seq\":8", "\"seq\":2")], 2, 1),
        (vec![E1, &E1.replace("\"seq\":1", "\"seq\":3")], 1, 1),
    ] {
        let (_, report) = salvage(&file(&lines), ForkOptions::tree()).expect("it can be salvaged");
        assert_eq!((report.taken, report.skipped), (taken, skipped), "{lines:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is overwritten, a salvage gives the entries of the lines that nobody touched.
    #[test]
    fn untouched_commits_survive(seed in any::<u64>(), entries in 1_u32..12) {
        let mut pick = picker(seed);
        let mut lines = Vec::new();
        for index in 0..entries {
            let parent = match index {
                0 => "null".to_owned(),
                _ => format!("\"e{}\"", pick(index)),
            };
            let seq = index + 1;
            lines.push(format!(
                "{{\"kind\":\"entry\",\"id\":\"e{index}\",\"parentId\":{parent},\"type\":\"custom\",\
                 \"seq\":{seq},\"timestamp\":7}}"
            ));
        }
        let mut kept = Vec::new();
        for (index, line) in lines.iter_mut().enumerate() {
            if pick(3) > 0 {
                kept.push(format!("e{index}"));
                continue;
            }
            // Damage that never makes another sound commit of a line.
            let half = line.len() / 2;
            *line = match pick(4) {
                0 => String::new(),
                1 => line[..half].to_owned(),
                2 => format!("{}\0{}", &line[..half], &line[half..]),
                _ => line.replace("\"kind\"", "\"kond\""),
            };
        }
        let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (state, report) = salvage(&file(&texts), ForkOptions::tree()).expect("salvaged");
        let told = usize::from(kept.len() < lines.len());
        let found: Vec<&str> = state.entries().values().map(|entry| entry.id.as_str()).collect();
        prop_assert_eq!(&found[..found.len() - told], &kept[..]);
        prop_assert_eq!(report.taken, kept.len() as u64);
        prop_assert_eq!(report.skipped, (lines.len() - kept.len()) as u64);
    }
}
