//! Variants of one sound file, each with what formats §1 says of it.
//!
//! What goes wrong otherwise: damage is passed over and copied on, or a file that existing
//! readers accept is refused. Listing, opening and both forks are asked of every variant. What
//! the existing reader answered stands in the manifest beside the files; where the expectation
//! here departs from it, the table says so.

#[path = "support/fixtures.rs"]
mod fixtures;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fixtures::{fixtures, manifest};
use forkline_engines::{
    Clock, Context, Environment, Error, JsonlRepo, ListFilter, Location, Repo, RepoOptions, Result,
    Session, SessionRef, UuidSource,
};
use forkline_model::{
    BranchName, EntryQuery, ErrorKind, ForkOptions, Metadata, Millis, Order, SessionId,
};

/// What becomes of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// As in the manifest.
    Accepted,
    /// *Corrupt source* in this line, for opening and for both forks.
    Corrupt(u64),
    /// The same; not listed either.
    NoHeader,
    /// *Corrupt source* in this line when opened; the forks as given: tree, branch.
    CorruptOpen(u64, Fork, Fork),
    /// Opens; the forks as given.
    Forks(Fork, Fork),
    /// This error for everything; listed.
    Refused(ErrorKind),
    /// This error for everything; not listed.
    Hidden(ErrorKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fork {
    /// With these entries.
    Holds(&'static [&'static str]),
    Corrupt(Option<u64>),
    Fails(ErrorKind),
}

use Expected::{Accepted, Corrupt, CorruptOpen, Forks, Hidden, NoHeader, Refused};
use Fork::{Fails, Holds};

const BOTH: &[&str] = &["e1", "e2"];

/// The rules of formats §1, variant by variant.
const TABLE: [(&str, Expected); 85] = [
    ("untouched", Accepted),
    ("empty-file", NoHeader),
    // The existing reader lists it, and cannot open it.
    ("header-without-newline", NoHeader),
    ("header-only", Accepted),
    ("torn-final-newline-missing", Accepted),
    ("torn-cut-inside-the-last-line", Accepted),
    ("torn-cut-inside-a-multi-byte-character", Accepted),
    ("torn-invalid-bytes-after-the-last-newline", Accepted),
    ("torn-spaces-after-the-last-newline", Accepted),
    ("crlf-line-ends", Accepted),
    ("cr-only-after-header", Accepted),
    ("crlf-line-ends-torn", Accepted),
    ("blank-line-in-the-middle", Corrupt(3)),
    ("blank-line-at-the-end", Corrupt(5)),
    ("line-of-spaces-in-the-middle", Corrupt(3)),
    ("blank-first-line", NoHeader),
    ("nul-bytes-as-a-line", Corrupt(3)),
    ("nul-byte-inside-a-string", Corrupt(3)),
    ("nul-bytes-after-the-last-newline", Accepted),
    ("utf-8-byte-order-mark", Accepted),
    // The existing reader puts U+FFFD there.
    ("invalid-utf-8-inside-a-string", Corrupt(2)),
    ("spaces-around-a-line", Accepted),
    ("spaces-around-the-header", Accepted),
    ("two-objects-on-one-line", Corrupt(3)),
    ("empty-array-line", Accepted),
    ("one-write-array-line", Accepted),
    ("nested-array-line", Corrupt(3)),
    ("number-line", Corrupt(3)),
    ("null-line", Corrupt(3)),
    ("unknown-kind", Corrupt(5)),
    ("unknown-value-op", Corrupt(5)),
    ("unknown-list-op", Corrupt(5)),
    ("missing-seq", Corrupt(5)),
    ("seq-zero", Corrupt(2)),
    ("seq-fraction", Corrupt(5)),
    ("seq-as-text", Corrupt(5)),
    ("seq-written-5-0", Accepted),
    ("seq-written-5e0", Accepted),
    ("seq-at-2-53-1", Forks(Fails(ErrorKind::LimitExceeded), Fails(ErrorKind::LimitExceeded))),
    ("seq-above-2-53-1", Corrupt(5)),
    ("repeated-seq", Corrupt(4)),
    ("falling-seq", Corrupt(5)),
    // The existing reader's forks pass these over, and lose writes.
    ("falling-seq-among-single-write-lines", Corrupt(5)),
    ("falling-seq-inside-a-transaction", Corrupt(5)),
    ("gap-in-seq", Accepted),
    ("repeated-entry-id", CorruptOpen(5, Fork::Corrupt(Some(5)), Fork::Corrupt(Some(5)))),
    ("usage-id-equal-to-an-entry-id", CorruptOpen(5, Holds(BOTH), Holds(BOTH))),
    ("missing-parent", CorruptOpen(5, Fork::Corrupt(Some(5)), Holds(BOTH))),
    ("parent-later-in-the-same-transaction", CorruptOpen(5, Fork::Corrupt(Some(5)), Holds(BOTH))),
    ("entry-that-is-its-own-parent", CorruptOpen(5, Fork::Corrupt(Some(5)), Holds(BOTH))),
    // The existing reader's branch fork leaves these out and passes them over.
    ("entry-without-parentid", Corrupt(5)),
    ("entry-without-timestamp", Corrupt(5)),
    ("entry-with-a-negative-timestamp", Corrupt(5)),
    ("entry-of-an-unknown-type", Accepted),
    // The existing reader accepts these three.
    ("entry-without-id", Corrupt(5)),
    ("usage-row-without-usage", Corrupt(5)),
    ("set-without-a-value", Corrupt(5)),
    ("value-without-namespace", Corrupt(5)),
    ("value-with-an-empty-namespace", Corrupt(5)),
    ("value-with-nul-in-its-key", Corrupt(5)),
    // The existing reader accepts it.
    ("value-without-key", Corrupt(5)),
    ("tip-of-an-unknown-entry", Forks(Holds(BOTH), Fork::Corrupt(None))),
    ("duplicate-object-keys", Accepted),
    ("header-v-3", NoHeader),
    ("header-v-5", NoHeader),
    ("header-v-as-text", NoHeader),
    ("header-without-kind", NoHeader),
    ("header-without-cwd", NoHeader),
    ("header-storageversion-2", Refused(ErrorKind::UnsupportedVersion)),
    ("header-storageversion-0", Hidden(ErrorKind::UnsupportedVersion)),
    ("header-createdat-fraction", NoHeader),
    ("header-createdat-negative", NoHeader),
    ("header-nextseq-0", NoHeader),
    ("header-nextseq-null", NoHeader),
    ("header-nextseq-below-the-last-seq", Accepted),
    ("header-nextseq-above-the-last-seq", Accepted),
    ("header-nextseq-2-53-1", Accepted),
    ("header-parentsessionid-null", NoHeader),
    ("header-legacyparentsessionpath", Accepted),
    ("header-extra-field", Accepted),
    ("header-fields-in-another-order", Accepted),
    ("header-other-id", Refused(ErrorKind::IdentityMismatch)),
    ("header-other-cwd", Refused(ErrorKind::IdentityMismatch)),
    ("header-is-an-array", NoHeader),
    ("second-header-line", Corrupt(2)),
];

/// Forks whose bytes differ from the existing writer's, which parses and writes anew: a number
/// written `5.0`, repeated members.
const RESPELLED: [&str; 3] = ["seq-written-5-0", "seq-written-5e0", "duplicate-object-keys"];

struct At(Millis);

impl Clock for At {
    fn now(&self) -> Millis {
        self.0
    }
}

/// A repository with one variant in it.
struct Variant {
    manifest: serde_json::Value,
    fixtures: PathBuf,
    root: tempfile::TempDir,
    file: PathBuf,
    repo: JsonlRepo,
    source: SessionRef,
}

impl Variant {
    fn new(fixtures: &Path, manifest: &serde_json::Value, created_at: u64) -> Self {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("--workspace-demo--");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("2023-11-14T22-13-20-000Z_source.jsonl");
        let name = manifest["name"].as_str().unwrap();
        fs::copy(fixtures.join(format!("{name}.jsonl")), &file).unwrap();
        let clock = At(Millis::new(created_at).unwrap());
        let options = RepoOptions {
            environment: Environment { clock: Arc::new(clock), ids: Arc::new(UuidSource::new()) },
            ..RepoOptions::default()
        };
        let repo = JsonlRepo::with(root.path(), options).unwrap();
        let metadata = Metadata {
            id: SessionId::new("source").unwrap(),
            created_at: Millis::new(1_700_000_000_000).unwrap(),
            cwd: Some("/workspace/demo".to_owned()),
            parent_session_id: None,
            legacy_parent_session_path: None,
        };
        let source = SessionRef { metadata, location: Location::File(file.clone()) };
        let (manifest, fixtures) = (manifest.clone(), fixtures.to_owned());
        Self { manifest, fixtures, root, file, repo, source }
    }

    fn name(&self) -> &str {
        self.manifest["name"].as_str().unwrap()
    }

    fn fork(&self, scope: &str) -> Result<Session> {
        let options = match scope {
            "tree" => ForkOptions::tree(),
            _ => ForkOptions::branch(BranchName::new("main").unwrap()),
        };
        let id = SessionId::new(format!("fork-{scope}")).unwrap();
        self.repo.fork_closed(&self.source, &options.with_id(id), &Context::new())
    }

    /// Forks; the source stays as it is, and a refused fork leaves nothing.
    fn check_fork(&self, scope: &str, expected: Option<Fork>) {
        let before = (fs::read(&self.file).unwrap(), self.names());
        let forked = self.fork(scope);
        assert_eq!(fs::read(&self.file).unwrap(), before.0, "{}: the source", self.name());
        let known = &self.manifest["forks"][scope];
        match (expected, forked) {
            (None, Ok(fork)) => {
                assert_eq!(known["ok"], true, "{} {scope}", self.name());
                assert_eq!(entries(&fork), texts(&known["entries"]), "{} {scope}", self.name());
                assert_eq!(fork.next_seq().unwrap(), known["nextSeq"].as_u64().unwrap());
                self.check_bytes(&fork, &self.fixtures.join(known["file"].as_str().unwrap()));
            }
            (None, Err(error)) => {
                assert_eq!(known["ok"], false, "{} {scope}: {}", self.name(), error.chain());
                assert_eq!(error.kind(), ErrorKind::UnknownBranch, "{} {scope}", self.name());
                assert_eq!(self.names(), before.1);
            }
            (Some(Fork::Holds(ids)), forked) => {
                assert_eq!(entries(&forked.unwrap()), ids, "{} {scope}", self.name());
            }
            (Some(Fork::Corrupt(line)), forked) => {
                self.check_corrupt(&forked.map(|_| ()), line);
                assert_eq!(self.names(), before.1);
            }
            (Some(Fork::Fails(kind)), forked) => {
                let error = forked.map(|_| ()).expect_err(self.name());
                assert_eq!(error.kind(), kind, "{} {scope}: {}", self.name(), error.chain());
                assert_eq!(self.names(), before.1);
            }
        }
    }

    fn check_bytes(&self, fork: &Session, expected: &Path) {
        if !RESPELLED.contains(&self.name()) {
            let found = fs::read_to_string(fork.reference().path().unwrap()).unwrap();
            let expected = fs::read_to_string(expected).unwrap();
            assert_eq!(found, expected, "{}", self.name());
        }
    }

    fn check_corrupt(&self, result: &Result<()>, line: Option<u64>) {
        let name = self.name();
        let error = result.as_ref().expect_err(name);
        assert_eq!(error.kind(), ErrorKind::CorruptSource, "{name}: {}", error.chain());
        if let Error::CorruptSource { place, .. } = error {
            assert_eq!(place.path, self.file, "{name}");
            assert_eq!(place.line, line, "{name}: {}", error.chain());
        } else {
            assert_eq!(line, None, "{name}: {}", error.chain());
        }
    }

    fn check_listing(&self, is_listed: bool) {
        let listed = self.repo.list(&ListFilter::default(), &Context::new()).unwrap();
        assert_eq!(listed.len(), usize::from(is_listed), "{}", self.name());
        for (found, known) in listed.iter().zip(self.manifest["listed"].as_array().unwrap()) {
            assert_eq!(found.metadata.id.as_str(), known["id"].as_str().unwrap());
            assert_eq!(found.metadata.cwd.as_deref(), known["cwd"].as_str());
            assert_eq!(Some(found.metadata.created_at.get()), known["createdAt"].as_u64());
        }
    }

    fn open(&self) -> Result<()> {
        self.repo.open(&self.source, &Context::new()).map(|_| ())
    }

    fn check_refused_open(&self, check: impl FnOnce(&Result<()>)) {
        let before = (fs::read(&self.file).unwrap(), self.names());
        check(&self.open());
        assert_eq!((fs::read(&self.file).unwrap(), self.names()), before, "{}", self.name());
    }

    fn check_accepted_open(&self) {
        let before = fs::read(&self.file).unwrap();
        let session = match self.repo.open(&self.source, &Context::new()) {
            Ok(session) => session,
            Err(error) => panic!("{}: {}", self.name(), error.chain()),
        };
        let known = &self.manifest["opened"];
        assert_eq!(known["ok"], true, "{}", self.name());
        assert_eq!(entries(&session), texts(&known["entries"]), "{}", self.name());
        assert_eq!(session.next_seq().unwrap(), known["nextSeq"].as_u64().unwrap());
        let after = match self.manifest["fileAfterOpen"].as_str().unwrap() {
            "unchanged" => before,
            name => fs::read(self.fixtures.join(name)).unwrap(),
        };
        assert_eq!(fs::read(&self.file).unwrap(), after, "{}", self.name());
        assert!(!self.names().iter().any(|name| name.starts_with('.')), "{}", self.name());
    }

    /// All names under the root.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in fs::read_dir(self.root.path()).unwrap() {
            for file in fs::read_dir(folder.unwrap().path()).unwrap() {
                names.push(file.unwrap().file_name().into_string().unwrap());
            }
        }
        names.sort();
        names
    }
}

fn entries(session: &Session) -> Vec<String> {
    let query = EntryQuery { order: Order::Asc, ..EntryQuery::default() };
    let found = session.find_entries(&query).unwrap();
    found.into_iter().map(|entry| entry.id.as_str().to_owned()).collect()
}

fn texts(list: &serde_json::Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn check(variant: &Variant, expected: Expected) {
    let is_listed = !matches!(expected, NoHeader | Hidden(_));
    variant.check_listing(is_listed);
    // Forks come first: opening may cut a torn tail off.
    let (open, tree, branch) = match expected {
        Accepted => (None, None, None),
        Corrupt(line) => {
            let fork = Some(Fork::Corrupt(Some(line)));
            (Some(Fork::Corrupt(Some(line))), fork, fork)
        }
        NoHeader => {
            let corrupt = Some(Fork::Corrupt(Some(1)));
            (corrupt, corrupt, corrupt)
        }
        CorruptOpen(line, tree, branch) => {
            (Some(Fork::Corrupt(Some(line))), Some(tree), Some(branch))
        }
        Forks(tree, branch) => (None, Some(tree), Some(branch)),
        Refused(kind) | Hidden(kind) => (Some(Fails(kind)), Some(Fails(kind)), Some(Fails(kind))),
    };
    variant.check_fork("tree", tree);
    variant.check_fork("branch-main", branch);
    match open {
        Some(Fails(kind)) => variant.check_refused_open(|result| {
            assert_eq!(result.as_ref().expect_err("refused").kind(), kind, "{}", variant.name());
        }),
        Some(Fork::Corrupt(line)) => {
            variant.check_refused_open(|result| variant.check_corrupt(result, line));
        }
        _ => variant.check_accepted_open(),
    }
}

#[test]
fn every_variant_is_listed_opened_and_forked_as_the_rules_say() {
    let folder = fixtures("pi-0.87.1/damaged");
    let manifest = manifest(&folder);
    let created_at = manifest["forkCreatedAt"].as_u64().unwrap();
    let variants = manifest["variants"].as_array().unwrap();
    assert_eq!(variants.len(), TABLE.len(), "every variant has its line in the table");
    for (known, (name, expected)) in variants.iter().zip(TABLE) {
        assert_eq!(known["name"], name);
        check(&Variant::new(&folder, known, created_at), expected);
    }
}
