//! What a fork tells of itself: how much it copied, and how far it has come, for every pair of
//! backends.
//!
//! Counts and progress are computed where rows are moved, by each backend in its own way, and are
//! in no file: forks that are right can be reported wrongly, and no comparison of states sees it.
//! The expected counts are those of the model's fork.

use std::sync::{Arc, Mutex};

use forkline_engines::fork::{Plan, Row, Source};
use forkline_engines::{
    CancelToken, Context, Copied, CreateOptions, Error, JsonlRepo, MemoryRepo, Observer, Progress,
    Repo, RepoOptions, SessionRef, SqliteRepo, transfer,
};
use forkline_model::fork::{Birth, fork};
use forkline_model::{
    BranchName, EntryId, EntryType, ErrorKind, ForkOptions, Json, LaneAudit, Metadata, Millis,
    NewEntry, NewUsage, Scope, SessionId, State, Write,
};

/// Groups of writes; more than any backend lets go by between two looks at the context.
const GROUPS: u32 = 400;

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn id(text: &str) -> EntryId {
    EntryId::new(text).unwrap()
}

fn main_branch() -> BranchName {
    BranchName::new("main").unwrap()
}

/// Of each kind of row another number, none of them alike: entries on and off the lane, two
/// kinds of entries, current and dead values and elements, ledger rows that no fork copies.
fn writes(groups: u32) -> Vec<Write> {
    let set =
        |namespace: &str, key: &str, value: &str| Write::set(namespace, key, json(value)).unwrap();
    let append = |key: &str| Write::append("app", key, json("[1]")).unwrap();
    let mut writes = vec![
        set("pi.lane.config", "main", "{}"),
        set("pi.lane.state", "main", "{\"currentOperationId\":\"o\"}"),
        append("dead"),
        Write::delete_list("app", "dead").unwrap(),
    ];
    let mut parent = None;
    for n in 0..groups {
        let entry = |name: String, parent: Option<EntryId>, kind: &str| {
            let kind = EntryType::new(kind).unwrap();
            Write::Entry(NewEntry::new(id(&name), parent, kind, None, json("{}")).unwrap())
        };
        let kind = if n % 3 == 0 { "message" } else { "odd" };
        writes.push(entry(format!("e{n}"), parent, kind));
        parent = Some(id(&format!("e{n}")));
        if n % 2 == 0 {
            writes.push(entry(format!("off{n}"), parent.clone(), "message"));
            writes.push(set("pi.entry.label", &format!("e{n}"), "\"label\""));
        }
        writes.push(set("app", &format!("k{}", n % 350), "1"));
        writes.push(append(&format!("l{}", n % 7)));
        let usage = NewUsage::new(id(&format!("u{n}")), None, false, json("{}"), None).unwrap();
        writes.push(Write::Usage(usage));
    }
    let tip = format!("\"e{}\"", groups - 1);
    writes.push(set("pi.branch.tip", "main", &tip));
    writes
}

/// What the model's fork holds.
fn expected(writes: &[Write], options: &ForkOptions) -> Copied {
    let metadata = Metadata {
        id: SessionId::new("any").unwrap(),
        created_at: Millis::EPOCH,
        cwd: None,
        parent_session_id: None,
        legacy_parent_session_path: None,
    };
    let birth = Birth { id: metadata.id.clone(), created_at: Millis::EPOCH, cwd: None };
    let mut state = State::new(metadata);
    state.apply(writes, Millis::EPOCH).unwrap();
    let forked = fork(&state, options, LaneAudit::Selected, birth).unwrap();
    let messages = forked.entries().values().filter(|entry| entry.is_message()).count();
    Copied {
        entries: forked.entries().len() as u64,
        messages: messages as u64,
        values: forked.values().len() as u64,
        elements: forked.lists().values().map(|list| list.len() as u64).sum(),
    }
}

/// Keeps what it hears; cancels at one of the times it hears something.
#[derive(Default)]
struct Listener {
    heard: Mutex<Vec<Progress>>,
    stop: Option<(usize, CancelToken)>,
}

impl Observer for Listener {
    fn progress(&self, progress: Progress) {
        let mut heard = self.heard.lock().unwrap();
        if let Some((at, token)) = &self.stop
            && *at == heard.len()
        {
            token.cancel();
        }
        heard.push(progress);
    }
}

struct Backends {
    _folder: tempfile::TempDir,
    repos: Vec<(&'static str, Box<dyn Repo>)>,
}

fn backends() -> Backends {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // SQLite keeps no working directory, and a JSONL fork needs one.
    let options = RepoOptions { cwd: Some("/demo".to_owned()), ..RepoOptions::default() };
    let repos: Vec<(_, Box<dyn Repo>)> = vec![
        ("memory", Box::new(MemoryRepo::new())),
        ("jsonl", Box::new(JsonlRepo::with(at("jsonl"), options).unwrap())),
        ("sqlite", Box::new(SqliteRepo::per_file(at("files")).unwrap())),
        ("sqlite-shared", Box::new(SqliteRepo::shared(at("all.db")).unwrap())),
    ];
    Backends { _folder: folder, repos }
}

/// A closed session of these writes.
fn stored(repo: &dyn Repo, writes: &[Write]) -> SessionRef {
    let cx = Context::new();
    let session = repo.create(&CreateOptions::new("/demo"), &cx).unwrap();
    session.commit(writes, &cx).unwrap();
    session.close().unwrap();
    session.reference().clone()
}

fn scopes() -> [ForkOptions; 3] {
    let branch = ForkOptions::branch(main_branch());
    [ForkOptions::tree(), branch.clone(), branch.before(id("e300"))]
}

#[test]
fn every_pair_counts_what_it_copied_and_tells_how_far_it_is() {
    let Backends { repos, _folder } = backends();
    let writes = writes(GROUPS);
    let scopes = scopes().map(|options| (options.clone(), expected(&writes, &options)));
    for (from_name, from) in &repos {
        let source = stored(&**from, &writes);
        for (into_name, into) in &repos {
            for (options, copied) in &scopes {
                let what = format!("{from_name} into {into_name}, {:?}", options.scope);
                let listener = Arc::new(Listener::default());
                let cx = Context::new().with_observer(listener.clone());
                let forked = transfer::fork_unopened(&**from, &source, &**into, options, &cx);
                let forked = forked.expect(&what);
                assert_eq!(forked.copied, *copied, "{what}");
                assert_eq!(copied.rows(), copied.entries + copied.values + copied.elements);
                assert_eq!(forked.next_seq, writes.len() as u64 + 1, "{what}");
                let heard = listener.heard.lock().unwrap();
                check_progress(&heard, copied, &what);
                let told = || heard.iter().map(|progress| progress.rows_done);
                if from_name.starts_with("sqlite") && options.scope == Scope::Tree {
                    // One statement moves all entries, and tells how far it is meanwhile.
                    let is_meanwhile = |rows: u64| 0 < rows && rows < copied.entries;
                    assert!(told().any(is_meanwhile), "{what}: {heard:?}");
                    // What leaves the stage row by row is told once more, from its start.
                    let is_streamed = !into_name.starts_with("sqlite");
                    assert_eq!(told().any(|rows| rows == 0), is_streamed, "{what}: {heard:?}");
                } else if !from_name.starts_with("sqlite") {
                    assert_eq!(told().next(), Some(0), "{what}: nothing is copied at first");
                }
                let opened = into.open(&forked.reference, &Context::new()).unwrap();
                assert_eq!(opened.stats().unwrap().message_count, copied.messages, "{what}");
            }
        }
    }
}

/// Not past what there is, now and then and not at every row, and in the end nearly all.
fn check_progress(heard: &[Progress], copied: &Copied, what: &str) {
    let rows = copied.rows();
    for progress in heard {
        assert!(progress.rows_done <= rows, "{what}: {progress:?}");
        assert!(progress.bytes_done <= progress.bytes_total, "{what}: {progress:?}");
    }
    let last = heard.last().map(|progress| progress.rows_done).unwrap_or_default();
    assert!(last + 1024 >= rows, "{what}: {last} of {rows} rows were told");
    let looks = heard.len() as u64;
    assert!((rows / 1024..rows / 100 + 20).contains(&looks), "{what}: {looks} for {rows} rows");
    if let Some(Progress { bytes_total, .. }) = heard.iter().find(|told| told.bytes_total > 0) {
        assert!(heard.iter().all(|told| told.bytes_total == *bytes_total), "{what}");
        assert!(heard.is_sorted_by_key(|told| told.bytes_done), "{what}");
        let latest = heard.last().map(|told| told.bytes_done).unwrap_or_default();
        assert!(latest > bytes_total / 2, "{what}: the second pass is told too");
    }
}

#[test]
fn whoever_hears_of_a_fork_can_cancel_it() {
    let Backends { repos, _folder } = backends();
    let writes = writes(200);
    for (from_name, from) in &repos {
        let source = stored(&**from, &writes);
        for (into_name, into) in &repos {
            let what = format!("{from_name} into {into_name}");
            let list = || into.list(&forkline_engines::ListFilter::default(), &Context::new());
            let before = list().unwrap();
            let mut moments = 0;
            // Each of the first, then fewer and fewer.
            for at in (0..).map(|n: usize| if n < 3 { n } else { 1 << n }) {
                let token = CancelToken::new();
                let listener = Listener { stop: Some((at, token.clone())), ..Listener::default() };
                let cx = Context::new().with_cancel(token).with_observer(Arc::new(listener));
                let options = ForkOptions::tree();
                match transfer::fork_unopened(&**from, &source, &**into, &options, &cx) {
                    Ok(_) => break,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{what}"),
                }
                assert_eq!(list().unwrap(), before, "{what}");
                moments += 1;
            }
            assert!(moments > 1, "{what}: only {moments} moments");
        }
    }
}

/// Who takes rows need not look at the context: the source does, every so many rows.
#[test]
fn a_stream_that_is_cancelled_stops_soon() {
    let Backends { repos, _folder } = backends();
    let writes = writes(GROUPS);
    for (name, from) in &repos {
        let at = stored(&**from, &writes);
        let token = CancelToken::new();
        let cx = Context::new().with_cancel(token.clone());
        let mut source = from.capture(&at, &cx).unwrap();
        source.plan(&ForkOptions::tree(), LaneAudit::Selected, &cx).unwrap();
        let mut rows = 0;
        let mut sink = |_: Row<'_>| {
            rows += 1;
            token.cancel();
            Ok(())
        };
        let stopped = source.stream(&mut sink, &cx).map_err(|error| error.kind());
        assert_eq!(stopped, Err(ErrorKind::Cancelled), "{name}");
        assert!(rows <= 1024, "{name}: {rows} rows");
    }
}

/// Rows that come one by one, and a caller who cancels with the last of them.
struct LastRowCancels {
    source: Box<dyn Source>,
    token: CancelToken,
}

impl Source for LastRowCancels {
    fn metadata(&self) -> &Metadata {
        self.source.metadata()
    }

    fn plan(
        &mut self,
        options: &ForkOptions,
        audit: LaneAudit,
        cx: &Context,
    ) -> Result<Plan, Error> {
        self.source.plan(options, audit, cx)
    }

    fn stream(
        &mut self,
        sink: &mut dyn FnMut(Row<'_>) -> Result<(), Error>,
        cx: &Context,
    ) -> Result<(), Error> {
        self.source.stream(sink, cx)?;
        self.token.cancel();
        Ok(())
    }
}

/// What a SQLite destination does with all its rows before it is locked can be cancelled too.
#[test]
fn the_index_of_a_destination_is_not_built_for_nobody() {
    let Backends { repos, _folder } = backends();
    let writes = writes(GROUPS);
    let memory = MemoryRepo::new();
    let at = stored(&memory, &writes);
    for (name, into) in repos.iter().filter(|(name, _)| name.starts_with("sqlite")) {
        let token = CancelToken::new();
        let cx = Context::new().with_cancel(token.clone());
        let source = memory.capture(&at, &cx).unwrap();
        let mut source = LastRowCancels { source, token };
        let plan = source.plan(&ForkOptions::tree(), LaneAudit::Selected, &cx).unwrap();
        let metadata = Metadata { id: SessionId::new("x").unwrap(), ..at.metadata.clone() };
        let mut destination = into.stage(&metadata, &cx).unwrap();
        let filled = destination.fill(&mut source, plan, &cx).map_err(|error| error.kind());
        assert_eq!(filled, Err(ErrorKind::Cancelled), "{name}");
    }
}

/// The id is the caller's, or a new one each time; it is free again whatever became of the fork.
#[test]
fn a_refused_transfer_frees_its_id() -> Result<(), Error> {
    let Backends { repos, _folder } = backends();
    let cx = Context::new();
    for (_, from) in &repos {
        let source = stored(&**from, &writes(3));
        for (_, into) in &repos {
            let wanted = ForkOptions::branch(BranchName::new("nowhere").unwrap());
            let name = SessionId::new(format!("x-{}", source.metadata.id.as_str()));
            let name = name.unwrap();
            let refused =
                transfer::fork(&**from, &source, &**into, &wanted.with_id(name.clone()), &cx);
            assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::UnknownBranch));
            let tree = ForkOptions::tree().with_id(name.clone());
            let made = transfer::fork(&**from, &source, &**into, &tree, &cx)?;
            assert_eq!(made.metadata().id, name);
            assert_eq!(made.metadata().parent_session_id.as_ref(), Some(&source.metadata.id));
            let again = transfer::fork_unopened(&**from, &source, &**into, &tree, &cx);
            assert_eq!(again.err().map(|error| error.kind()), Some(ErrorKind::SessionExists));
        }
    }
    Ok(())
}
