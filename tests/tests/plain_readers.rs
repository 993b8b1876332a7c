//! The plain readers see in every fixture what the implementation that wrote it saw.
//!
//! If a plain reader misread a file, every comparison of the gate would inherit the mistake. The
//! expected states were written down by another implementation, so the two cannot agree by
//! sharing code.

use std::collections::BTreeMap;

use forkline_gate::fixtures::{bytes, files, fixtures, name};
use forkline_gate::plain::peer::{Cwd, PeerState, differences};
use forkline_gate::plain::{jsonl, sqlite};

/// A fixture that the peer reads and that is *corrupt source* here: line 10 sets a value without
/// a value, which reads back there as undefined (formats 1).
const REFUSED: (&str, u64) = ("raw-spelling", 10);

#[test]
fn jsonl_states_equal_those_of_the_peer() {
    let folder = fixtures().join("pi-0.87.1");
    let mut compared = 0;
    for file in files(&folder, ".state.json") {
        let base = name(&file).trim_end_matches(".state.json");
        let source = folder.join(format!("{base}.jsonl"));
        if !source.exists() {
            assert_eq!(base, "shared-container", "only a container has no JSONL form");
            continue;
        }
        let peer: PeerState = serde_json::from_slice(&bytes(&file)).expect("a peer state");
        let read = jsonl::read(&bytes(&source));
        if base == REFUSED.0 {
            assert_eq!(read.expect_err("it is refused").line, Some(REFUSED.1));
            continue;
        }
        let read = read.unwrap_or_else(|error| panic!("{base}: {error}"));
        let found = differences(&read.state, &peer, Cwd::Compared);
        assert_eq!(found, Vec::<String>::new(), "{base}");
        compared += 1;
    }
    assert!(compared >= 20, "only {compared} states were compared");
}

#[test]
fn sqlite_states_equal_those_of_the_peer() {
    let folder = fixtures().join("pi-0.87.1");
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let mut compared = 0;
    for file in files(&folder, ".sqlite") {
        let base = name(&file).trim_end_matches(".sqlite");
        let text = bytes(&folder.join(format!("{base}.state.json")));
        let peers: BTreeMap<String, PeerState> = if base == "shared-container" {
            serde_json::from_slice(&text).expect("states by session")
        } else {
            let peer: PeerState = serde_json::from_slice(&text).expect("a peer state");
            BTreeMap::from([(String::new(), peer)])
        };
        let sessions = sqlite::read(&file, scratch.path()).expect("a container");
        assert_eq!(sessions.len(), peers.len(), "{base}");
        for session in sessions {
            let peer = peers.get(&session.id).or_else(|| peers.get("")).expect("a peer state");
            let content = session.content.expect("a sound session");
            assert_eq!(
                differences(&content.state, peer, Cwd::Ignored),
                Vec::<String>::new(),
                "{base}"
            );
            assert_eq!(
                content.claimed,
                content.state.stats(),
                "{base}: statistics of the session row"
            );
            assert_eq!(content.index_differences, Vec::<String>::new(), "{base}: branch index");
            compared += 1;
        }
    }
    assert!(compared >= 7, "only {compared} states were compared");
    assert_eq!(std::fs::read_dir(scratch.path()).expect("a folder").count(), 0, "copies are gone");
}
