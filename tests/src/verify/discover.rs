//! Finds sessions in files, containers and whole folders, by what the files say.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::plain::jsonl::{FirstLine, first_line};

/// The longest first line that is looked at.
const FIRST_LINE_BYTES_MAX: u64 = 1024 * 1024;

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// JSONL, format 4, or a `*.jsonl` file that was named and has no header.
    Jsonl,
    /// JSONL, versions 1 to 3.
    Legacy,
    /// A SQLite database.
    Sqlite,
}

/// One file to verify.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceFile {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub kind: SourceKind,
    /// Whether the user named it, rather than a folder it is in.
    pub named: bool,
}

/// A path that cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum NoSource {
    /// The system refused.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// What was read.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is neither a file nor a folder.
    #[error("{} is neither a file nor a folder", .0.display())]
    NoFile(PathBuf),
    /// It was named and is no session.
    #[error("{} is no session file: neither JSONL with a session header nor SQLite", .0.display())]
    NoSession(PathBuf),
}

/// All sessions in these files and folders, sorted, each once.
///
/// # Errors
/// A named path that cannot be read or is no session. Files in folders that neither are a
/// session nor are called one are passed over.
pub fn discover(paths: &[PathBuf]) -> Result<Vec<SourceFile>, NoSource> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        let kind = fs::metadata(path).map_err(io_error(path))?;
        if kind.is_dir() {
            for file in files_below(path)? {
                if let Some(kind) = kind_of(&file)?
                    && seen.insert(fs::canonicalize(&file).map_err(io_error(&file))?)
                {
                    found.insert(SourceFile { path: file, kind, named: false });
                }
            }
        } else if kind.is_file() {
            let kind = kind_of(path)?.ok_or_else(|| NoSource::NoSession(path.clone()))?;
            if seen.insert(fs::canonicalize(path).map_err(io_error(path))?) {
                found.insert(SourceFile { path: path.clone(), kind, named: true });
            }
        } else {
            return Err(NoSource::NoFile(path.clone()));
        }
    }
    Ok(found.into_iter().collect())
}

/// What a file is taken for. One that is called a session and does not begin as one is damaged,
/// and that has to be said.
fn kind_of(path: &Path) -> Result<Option<SourceKind>, NoSource> {
    Ok(sniff(path)?.or_else(|| is_jsonl(path).then_some(SourceKind::Jsonl)))
}

/// Whether a file is called a JSONL session.
pub fn is_jsonl(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "jsonl")
}

/// What one file says that it is; none when it is no session.
///
/// # Errors
/// It cannot be read.
pub fn sniff(path: &Path) -> Result<Option<SourceKind>, NoSource> {
    // Opening a pipe would wait for somebody to write into it.
    if !fs::metadata(path).map_err(io_error(path))?.is_file() {
        return Err(NoSource::NoFile(path.to_owned()));
    }
    let file = File::open(path).map_err(io_error(path))?;
    let mut start = Vec::new();
    // A small piece first: most files are told by it, and a large one need not be read.
    let mut file = file.take(FIRST_LINE_BYTES_MAX);
    (&mut file).take(4096).read_to_end(&mut start).map_err(io_error(path))?;
    if start.starts_with(b"SQLite format 3\0") {
        return Ok(Some(SourceKind::Sqlite));
    }
    let is_object = matches!(start.trim_ascii_start().first(), Some(b'{' | 0xef));
    if is_object && !start.contains(&b'\n') {
        file.read_to_end(&mut start).map_err(io_error(path))?;
    }
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    Ok(match first_line(line) {
        FirstLine::Header => Some(SourceKind::Jsonl),
        FirstLine::LegacyHeader => Some(SourceKind::Legacy),
        FirstLine::Other => None,
    })
}

/// The regular files below a folder. Links to folders are not followed: they could lead in
/// circles.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, NoSource> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(&folder).map_err(io_error(&folder))? {
            let item = item.map_err(io_error(&folder))?;
            let path = item.path();
            let kind = item.file_type().map_err(io_error(&path))?;
            if kind.is_dir() {
                folders.push(path);
            } else if fs::metadata(&path).is_ok_and(|found| found.is_file()) {
                files.push(path);
            }
        }
    }
    Ok(files)
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> NoSource {
    let path = path.to_owned();
    move |source| NoSource::Io { path, source }
}
