//! `forkline fork`.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use forkline_engines::jsonl::{SalvageReport, Salvaged};
use forkline_engines::{
    Context, Error, Forked, JsonlRepo, Repo, RepoOptions, SqliteRepo, transfer,
};
use forkline_model::{BranchName, EntryId, ErrorKind, ForkOptions, Result, SessionId};
use serde_json::json;

use super::progress::ForkBar;
use super::source::{self, Reader, Source};
use super::{HOLDS, bytes_for_people, table, trouble};
use crate::verify::Found;

const EXAMPLES: &str = "\
Examples:
  forkline fork a.jsonl --scope tree --into jsonl:sessions
      the whole tree, as a new file in the repository folder `sessions`
  forkline fork a.jsonl --scope branch --branch main --entry 018bcfe5 --before --into sqlite:dbs
      the lane `main` up to the entry before 018bcfe5, as a container of its own
  forkline fork all.sqlite --session 0a1b --scope tree --into jsonl:sessions --cwd ~/project
      one session of a shared container; JSONL needs a working directory, containers have none
  forkline fork a.jsonl --scope tree --into sqlite-shared:all.sqlite
      into a container with others
  forkline fork broken.jsonl --scope tree --into jsonl:sessions --salvage
      what is readable of a damaged file; the fork has an entry `forkline.salvage` that says so

Legacy sessions (versions 1 to 3) are sources too; --entry then takes the ids in the file.

The source is only read; it may be open elsewhere. The fork appears whole or not at all.

Exit status: 0 done, 2 refused, wrong call or I/O error.";

/// Fork one session with bounded memory, also into another format
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// A session file or a SQLite container
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// What to copy
    #[arg(long, value_enum)]
    scope: ScopeName,
    /// The lane to copy, with --scope branch
    #[arg(long, value_name = "NAME", required_if_eq("scope", "branch"))]
    branch: Option<String>,
    /// An entry on the lane's path; its tip unless given
    #[arg(long, value_name = "ID", requires = "branch")]
    entry: Option<String>,
    /// Stop before that entry instead of at it
    #[arg(long, requires = "branch")]
    before: bool,
    /// Where to: jsonl:DIR, sqlite:DIR or sqlite-shared:FILE
    #[arg(long, value_name = "DEST")]
    into: Option<Place>,
    /// The new session's id; a UUIDv7 unless given
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The new session's working directory, where the source has none
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Which session, where the source holds several
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Take what is readable of a damaged JSONL file, and say what is not
    #[arg(long)]
    salvage: bool,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScopeName {
    /// The whole tree with its state
    Tree,
    /// One complete lane
    Branch,
}

/// A repository to fork into.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Jsonl(PathBuf),
    Sqlite(PathBuf),
    SqliteShared(PathBuf),
}

impl FromStr for Place {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((_, "")) => Err("the part behind the colon is missing".to_owned()),
            Some(("jsonl", folder)) => Ok(Self::Jsonl(folder.into())),
            Some(("sqlite", folder)) => Ok(Self::Sqlite(folder.into())),
            Some(("sqlite-shared", file)) => Ok(Self::SqliteShared(file.into())),
            _ => Err("expected jsonl:DIR, sqlite:DIR or sqlite-shared:FILE".to_owned()),
        }
    }
}

impl Place {
    fn open(&self, options: RepoOptions) -> Result<Box<dyn Repo>, Error> {
        Ok(match self {
            Self::Jsonl(folder) => Box::new(JsonlRepo::with(folder, options)?),
            Self::Sqlite(folder) => Box::new(SqliteRepo::per_file_with(folder, options)?),
            Self::SqliteShared(file) => Box::new(SqliteRepo::shared_with(file, options)?),
        })
    }

    /// The folders that a repository here would make, outermost first.
    fn missing_folders(&self) -> Vec<PathBuf> {
        let folder = match self {
            Self::Jsonl(folder) | Self::Sqlite(folder) => Some(folder.as_path()),
            Self::SqliteShared(file) => file.parent(),
        };
        let ancestors = folder.into_iter().flat_map(Path::ancestors);
        let named = ancestors.filter(|folder| !folder.as_os_str().is_empty());
        let mut missing: Vec<PathBuf> =
            named.take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
        missing.reverse();
        missing
    }
}

/// A rejected fork leaves nothing: folders that it made and that are empty go again.
fn remove_empty(folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        if std::fs::remove_dir(folder).is_err() {
            break;
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> u8 {
    let Some(place) = &arguments.into else {
        return trouble("--into is missing: where should the fork go?", EXAMPLES);
    };
    if arguments.scope == ScopeName::Tree && arguments.branch.is_some() {
        let problem = "--branch has no meaning with --scope tree";
        return trouble(problem, "leave it out, or say --scope branch");
    }
    let options = match fork_options(arguments) {
        Ok(options) => options,
        Err(error) => return trouble(error, "forkline fork --help shows examples"),
    };
    let bar = Arc::new(ForkBar::new());
    let cx = Context::new().with_observer(bar.clone());
    let source = match source::find(&arguments.source, arguments.session.as_deref()) {
        Ok(source) => source,
        Err(problem) => return trouble(problem, "forkline fork --help shows examples"),
    };
    if let Some(problem) = pointless_cwd(arguments, place, &source) {
        return trouble(problem, "leave --cwd out");
    }
    let repo_options = RepoOptions { cwd: arguments.cwd.clone(), ..RepoOptions::default() };
    let missing = place.missing_folders();
    let began = Instant::now();
    let from = &source.reference;
    let forked = match (&source.repo, arguments.salvage) {
        (Reader::Sqlite(_), true) => {
            return trouble("--salvage is for JSONL files: a container is sound or no source", "");
        }
        (Reader::Jsonl(repo), true) => place.open(repo_options).and_then(|into| {
            let Salvaged { forked, report } = repo.salvage(from, &*into, &options, &cx)?;
            Ok((forked, Some(report)))
        }),
        (repo, false) => place.open(repo_options).and_then(|into| {
            Ok((transfer::fork_unopened(repo.repo(), from, &*into, &options, &cx)?, None))
        }),
    };
    bar.finish();
    match forked {
        Ok((forked, report)) => {
            let seconds = began.elapsed().as_secs_f64();
            print(&forked, &source, report.as_ref(), seconds, arguments.json);
            HOLDS
        }
        Err(error) => {
            remove_empty(&missing);
            trouble(error.chain(), &advice(&error, &arguments.source))
        }
    }
}

/// Why a working directory that was named would not be that of the fork.
fn pointless_cwd(arguments: &Arguments, place: &Place, source: &Source) -> Option<String> {
    let named = arguments.cwd.as_ref()?;
    if !matches!(place, Place::Jsonl(_)) {
        return Some("--cwd has no meaning here: a container has no place for one".to_owned());
    }
    let own = source.reference.metadata.cwd.as_ref().filter(|own| *own != named)?;
    Some(format!("--cwd has no meaning here: the fork keeps that of its source, {own}"))
}

fn fork_options(arguments: &Arguments) -> Result<ForkOptions> {
    let mut options = match (&arguments.branch, arguments.scope) {
        (Some(branch), ScopeName::Branch) => ForkOptions::branch(BranchName::new(branch)?),
        _ => ForkOptions::tree(),
    };
    options = match (&arguments.entry, arguments.before) {
        (Some(entry), true) => options.before(EntryId::new(entry)?),
        (Some(entry), false) => options.at(EntryId::new(entry)?),
        (None, true) => options.before_tip(),
        (None, false) => options,
    };
    if let Some(id) = &arguments.id {
        options = options.with_id(SessionId::new(id)?);
    }
    Ok(options)
}

fn print(
    forked: &Forked,
    source: &Source,
    salvaged: Option<&SalvageReport>,
    seconds: f64,
    as_json: bool,
) {
    let copied = forked.copied;
    let id = forked.reference.metadata.id.as_str();
    let path = forked.reference.path().unwrap_or(Path::new(""));
    if as_json {
        let mut report = json!({
            "id": id,
            "path": path,
            "parentSessionId": source.reference.metadata.id,
            "entries": copied.entries,
            "messages": copied.messages,
            "values": copied.values,
            "elements": copied.elements,
            "nextSeq": forked.next_seq,
            "sourceBytes": source.bytes,
            "seconds": seconds,
        });
        if let Some(salvaged) = salvaged {
            report["salvage"] = json!({
                "taken": salvaged.taken,
                "skipped": salvaged.skipped,
                "findings": Found::all(salvaged),
                "more": salvaged.more,
            });
        }
        println!("{report}");
        return;
    }
    println!("session  {id}");
    println!("path     {}", path.display());
    println!(
        "copied   {} entries ({} messages), {} values, {} list elements; next seq {}",
        copied.entries, copied.messages, copied.values, copied.elements, forked.next_seq
    );
    println!("source   {} in {seconds:.3} s", bytes_for_people(source.bytes));
    if let Some(salvaged) = salvaged {
        println!("{}", table::salvaged(salvaged.taken, salvaged.skipped));
        for line in table::findings_for_people(&Found::all(salvaged), salvaged.more) {
            println!("{line}");
        }
    }
}

/// What a person can do about a refusal.
fn advice(error: &Error, source: &Path) -> String {
    let advice = match error.kind() {
        ErrorKind::UnknownBranch | ErrorKind::NotALane | ErrorKind::CorruptLane => {
            "only a complete lane can be forked by itself: --scope tree takes all there is"
        }
        ErrorKind::EntryNotOnBranch => {
            "name an entry on the path of the lane's tip, or leave --entry out for the tip itself"
        }
        ErrorKind::SessionExists => "leave --id out for a fresh id, or choose another",
        ErrorKind::UnknownReserved => {
            "a program newer than this one wrote it: fork with that program, or let it finish"
        }
        ErrorKind::CorruptSource => {
            let source = source.display();
            return format!(
                "nothing was written: `forkline verify {source}` says more, --salvage takes what \
                 is readable"
            );
        }
        ErrorKind::UnsupportedVersion => "a newer program wrote it: fork with that program",
        ErrorKind::InvalidPayload => "a JSONL session needs a working directory: give --cwd DIR",
        ErrorKind::InvalidName => "choose a shorter --id or --cwd, or leave it out",
        ErrorKind::LimitExceeded => "nothing was written: the other format may hold it",
        ErrorKind::Io => "nothing was written: mend what the system says, and repeat",
        ErrorKind::Busy => "try again when the other program is done",
        ErrorKind::DurabilityUncertain => {
            "the fork is complete: copy it to a safe place, or sync the disk and check again"
        }
        ErrorKind::NotCommitted => "there is no fork: free space or change the folder, and repeat",
        _ => "",
    };
    advice.to_owned()
}
